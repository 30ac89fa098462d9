//! Watch over groups of the second version whose programs thrash.
//!
//! When memory is used up but for a little, the kernel takes back pages of files that programs run from, and reads them
//! again at once. As it always finds some, it never says that memory ran out: the programs stand still, and their disk is
//! busy, until their time is up. This watch finds such a group and ends its programs, as the kernel would have done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio_util::task::AbortOnDropHandle;

use super::count;

/// How often the watch looks, and how often in a row it has to see a group thrash.
const EVERY: Duration = Duration::from_millis(250);
const IN_A_ROW: u32 = 4;

/// A group thrashes only while its files have less than this part of its memory.
const FILES: u64 = 64;

/// Smallest size of a page on any processor.
const PAGE: u64 = 4096;

/// How often the processes of a group are looked for: those that are killed may just have started others.
const ROUNDS: u32 = 100;

/// A group that is watched.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) folder: PathBuf,
    /// Bytes of memory that it may have.
    pub(crate) limit: u64,
    /// Process in it that is not killed: the guest.
    pub(crate) guest: u32,
    /// How often its programs were killed.
    pub(crate) kills: Arc<AtomicU64>,
}

impl Watched {
    /// Watches for as long as the handle is kept.
    pub(crate) fn watch(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(self.look()))
    }

    async fn look(self) {
        let (mut before, mut in_a_row) = (Sample::default(), 0);
        loop {
            tokio::time::sleep(EVERY).await;
            // At its end, the group is removed.
            let Some(sample) = Sample::read(&self.folder, &before) else { return };
            in_a_row = if sample.thrashes_since(&before, self.limit) { in_a_row + 1 } else { 0 };
            before = sample;
            if in_a_row < IN_A_ROW {
                continue;
            }
            in_a_row = 0;
            tracing::info!(group = %self.folder.display(), "programs thrash: memory ran out");
            self.kills.fetch_add(1, Ordering::Relaxed);
            let watched = self.clone();
            let killed = tokio::task::spawn_blocking(move || watched.kill_programs()).await;
            if let Err(error) = killed.unwrap_or_else(|error| Err(io::Error::other(error))) {
                tracing::warn!(%error, "cannot kill programs that thrash");
            }
        }
    }

    /// Kills all processes of the group but the guest.
    fn kill_programs(&self) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let programs = self.programs()?;
            if programs.is_empty() {
                break;
            }
            for program in programs {
                // It may be gone already.
                let Ok(handle) = pidfd_open(program, PidfdFlags::empty()) else { continue };
                // Its number may have become that of another process, before there was a handle.
                if self.programs()?.contains(&program) {
                    let _ = pidfd_send_signal(&handle, Signal::KILL);
                }
            }
        }
        Ok(())
    }

    fn programs(&self) -> io::Result<Vec<Pid>> {
        let members = fs::read_to_string(self.folder.join("cgroup.procs"))?;
        let members = members.lines().filter_map(|line| line.parse::<u32>().ok());
        // 0 stands for a process that we cannot see.
        let programs = members.filter(|pid| *pid != self.guest);
        Ok(programs.filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect())
    }
}

/// What the kernel has counted of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sample {
    /// How often a page could be had only for another.
    at_limit: u64,
    /// Bytes of files that could be taken back.
    files: u64,
    /// Bytes of files that were taken back and read again, at least.
    read_again: u64,
}

impl Sample {
    /// Reads a group; in full only if it was at its limit since the sample before.
    fn read(folder: &Path, before: &Sample) -> Option<Sample> {
        let at_limit = count(&fs::read_to_string(folder.join("memory.events")).ok()?, "max");
        if at_limit == before.at_limit {
            return Some(*before);
        }
        let stat = fs::read_to_string(folder.join("memory.stat")).ok()?;
        let files = count(&stat, "inactive_file") + count(&stat, "active_file");
        let pages = count(&stat, "workingset_refault_file");
        Some(Sample { at_limit, files, read_again: pages * PAGE })
    }

    /// Whether all that the group has of files was read again since, and that is next to nothing.
    fn thrashes_since(&self, before: &Sample, limit: u64) -> bool {
        let read_again = self.read_again.saturating_sub(before.read_again);
        let is_at_limit = self.at_limit > before.at_limit;
        is_at_limit && self.files < limit / FILES && read_again > 0 && read_again >= self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 256 << 20;

    fn sample(at_limit: u64, files: u64, read_again: u64) -> Sample {
        Sample { at_limit, files, read_again }
    }

    #[test]
    fn group_thrashes_when_it_reads_the_last_of_its_files_again() {
        let before = sample(100, 300_000, 1 << 20);
        assert!(sample(900, 280_000, 8 << 20).thrashes_since(&before, LIMIT));
        // It reads a large file, once or again and again.
        assert!(!sample(900, 300_000, 1 << 20).thrashes_since(&before, LIMIT));
        assert!(!sample(900, 80 << 20, 200 << 20).thrashes_since(&before, LIMIT));
        // It was not at its limit since.
        assert!(!before.thrashes_since(&before, LIMIT));
    }

    #[test]
    fn sample_is_read_in_full_only_when_the_group_was_at_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Sample::read(folder.path(), &Sample::default()), None);
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("memory.events", "low 0\nhigh 0\nmax 7\noom 0\n");
        put(
            "memory.stat",
            "file 9\ninactive_file 4096\nactive_file 8192\nworkingset_refault_file 2\n",
        );
        let first = Sample::read(folder.path(), &Sample::default()).unwrap();
        assert_eq!(first, sample(7, 12_288, 2 * PAGE));
        put("memory.stat", "");
        assert_eq!(Sample::read(folder.path(), &first), Some(first));
    }

    #[test]
    fn programs_are_all_processes_of_the_group_but_the_guest() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.procs"), "0\n100\n101\n102\n").unwrap();
        let (folder, kills) = (folder.path().to_owned(), Arc::default());
        let watched = Watched { folder, limit: LIMIT, guest: 101, kills };
        let programs = watched.programs().unwrap();
        assert_eq!(programs, [100, 102].map(|pid| Pid::from_raw(pid).unwrap()));
    }
}

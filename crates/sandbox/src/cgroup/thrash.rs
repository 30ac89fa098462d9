//! Watchdog for cgroups (v2) whose programs thrash.
//!
//! When memory is nearly used up, the kernel evicts pages of program files and libraries from memory. The running
//! programs need these pages, so the kernel must read them again at once. As the kernel always finds pages to evict, it
//! never reports an out-of-memory condition: the programs make no progress and keep the disk busy until they time out.
//! The watchdog detects this and kills the programs, as the kernel does in an out-of-memory condition.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio_util::task::AbortOnDropHandle;

use super::count;

/// Interval between two samples of the memory counters.
const INTERVAL: Duration = Duration::from_millis(250);

/// Number of consecutive samples with thrashing after which the programs are killed.
const CONSECUTIVE: u32 = 4;

/// A cgroup counts as thrashing only if its page cache is smaller than this fraction (1/64) of its memory limit.
const CACHE_FRACTION: u64 = 64;

/// Page size for converting page counts to bytes: the smallest page size of all supported CPUs, in bytes.
const PAGE: u64 = 4096;

/// Maximum number of times that the process list of a cgroup is read to kill its programs. Several reads are necessary,
/// because a process may start other processes just before it is killed.
const ROUNDS: u32 = 100;

/// Watchdog that kills the programs of one cgroup when they thrash.
#[derive(Debug, Clone)]
pub(crate) struct ThrashWatchdog {
    pub(crate) folder: PathBuf,
    /// Memory limit of the cgroup in bytes.
    pub(crate) limit: u64,
    /// Process id of the guest agent, which is never killed.
    pub(crate) guest: u32,
    /// Number of times that the programs of the cgroup were killed.
    pub(crate) kills: Arc<AtomicU64>,
}

impl ThrashWatchdog {
    /// Starts the watchdog, which runs until the handle is dropped.
    pub(crate) fn watch(self) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(self.run()))
    }

    async fn run(self) {
        let (mut before, mut consecutive) = (Sample::default(), 0);
        loop {
            tokio::time::sleep(INTERVAL).await;
            // If the counters cannot be read, the jail has ended and its cgroup is removed.
            let Some(sample) = Sample::read(&self.folder, &before) else { return };
            let thrashes = sample.thrashes_since(&before, self.limit);
            consecutive = if thrashes { consecutive + 1 } else { 0 };
            before = sample;
            if consecutive < CONSECUTIVE {
                continue;
            }
            consecutive = 0;
            tracing::info!(group = %self.folder.display(), "out of memory: killing programs that thrash");
            self.kills.fetch_add(1, Ordering::Relaxed);
            let watched = self.clone();
            let killed = tokio::task::spawn_blocking(move || watched.kill_programs()).await;
            if let Err(error) = killed.unwrap_or_else(|error| Err(io::Error::other(error))) {
                tracing::warn!(%error, "cannot kill programs that thrash");
            }
        }
    }

    /// Kills all processes of the cgroup except the guest agent.
    fn kill_programs(&self) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let programs = self.programs()?;
            if programs.is_empty() {
                break;
            }
            for program in programs {
                // The process may have ended already.
                let Ok(handle) = pidfd_open(program, PidfdFlags::empty()) else { continue };
                // The pid may have been reused before the pidfd was opened, so membership is checked again.
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
        // The id 0 means a process outside of this process's PID namespace; `Pid::from_raw` drops it.
        let programs = members.filter(|pid| *pid != self.guest);
        Ok(programs.filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect())
    }
}

/// Memory counters of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sample {
    /// Number of times that the memory limit was hit.
    at_limit: u64,
    /// Bytes of page cache that the kernel could evict.
    cache: u64,
    /// Bytes of page cache that the kernel evicted and later read from files again (a lower bound).
    refaulted: u64,
}

impl Sample {
    /// Reads the counters; `None` if they cannot be read. If the memory limit was not hit since the previous sample
    /// (`before`), returns that sample.
    fn read(folder: &Path, before: &Sample) -> Option<Sample> {
        let at_limit = count(&fs::read_to_string(folder.join("memory.events")).ok()?, "max");
        if at_limit == before.at_limit {
            return Some(*before);
        }
        let stat = fs::read_to_string(folder.join("memory.stat")).ok()?;
        let cache = count(&stat, "inactive_file") + count(&stat, "active_file");
        let pages = count(&stat, "workingset_refault_file");
        Some(Sample { at_limit, cache, refaulted: pages * PAGE })
    }

    /// Whether the page cache is tiny and was read again completely since the previous sample.
    fn thrashes_since(&self, before: &Sample, limit: u64) -> bool {
        let refaulted = self.refaulted.saturating_sub(before.refaulted);
        let hit_limit = self.at_limit > before.at_limit;
        let tiny_cache = self.cache < limit / CACHE_FRACTION;
        hit_limit && tiny_cache && refaulted > 0 && refaulted >= self.cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 256 << 20;

    fn sample(at_limit: u64, cache: u64, refaulted: u64) -> Sample {
        Sample { at_limit, cache, refaulted }
    }

    #[test]
    fn repeated_refaults_of_a_tiny_page_cache_count_as_thrashing() {
        let before = sample(100, 300_000, 1 << 20);
        assert!(sample(900, 280_000, 8 << 20).thrashes_since(&before, LIMIT));
        // A program that reads a large file, once or repeatedly, does not thrash.
        assert!(!sample(900, 300_000, 1 << 20).thrashes_since(&before, LIMIT));
        assert!(!sample(900, 80 << 20, 200 << 20).thrashes_since(&before, LIMIT));
        // A cgroup that has not hit its memory limit since the previous sample does not thrash.
        assert!(!before.thrashes_since(&before, LIMIT));
    }

    #[test]
    fn watchdog_reads_memory_stat_only_after_the_limit_was_hit() {
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
    fn watchdog_excludes_the_guest_agent_from_the_programs_to_kill() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.procs"), "0\n100\n101\n102\n").unwrap();
        let (folder, kills) = (folder.path().to_owned(), Arc::default());
        let watched = ThrashWatchdog { folder, limit: LIMIT, guest: 101, kills };
        let programs = watched.programs().unwrap();
        assert_eq!(programs, [100, 102].map(|pid| Pid::from_raw(pid).unwrap()));
    }
}

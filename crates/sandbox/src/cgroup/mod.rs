//! The kernel's account of a sandbox: memory, processes and processor time, by control groups of the
//! first or the second version. A jail has groups of its own where this process may make any; a
//! container's are the engine's, and are only read.

mod find;
mod thrash;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use assize_config::Limits;
use assize_protocol::jail::Setup;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::Account;
pub(crate) use find::Groups;
use thrash::Watched;

/// Our groups begin with this.
pub(crate) const PREFIX: &str = "assize-";

/// One hundred milliseconds, in which a jail has its share of the processor.
pub(crate) const PERIOD: u64 = 100_000;

/// Removes the groups of a maker that is gone, which nobody is in any more. They are beside wherever it
/// was, which may be elsewhere than we are.
pub(crate) fn clean_up(maker: &str) {
    let prefix = format!("{PREFIX}{maker}-");
    let mounts = mounts();
    let mut folders: Vec<PathBuf> = mounts.lines().filter_map(place_of_groups).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_dir(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// Where groups of whatever kind are mounted, if this is about such a mount.
fn place_of_groups(line: &str) -> Option<PathBuf> {
    let (front, back) = line.split_once(" - ")?;
    back.starts_with("cgroup").then(|| front.split(' ').nth(4).map(PathBuf::from)).flatten()
}

/// The folder of the group that this process is in; of the second version without a kind.
fn own_folder(mounts: &str, own: &str, kind: Option<&str>) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, kinds, path) = (fields.next()?, fields.next()?, fields.next()?);
        let fits = kind.map_or(kinds.is_empty(), |kind| kinds.split(',').any(|each| each == kind));
        fits.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (root, at) = mount(line, kind)?;
        let below = Path::new(path).strip_prefix(root).ok()?;
        // Without a trailing slash where it is the root itself.
        Some(if below.as_os_str().is_empty() { at.into() } else { Path::new(at).join(below) })
    })
}

/// Memory groups of this process, the innermost first, up to the root of what it can see.
pub(crate) fn own_memory() -> Vec<Memory> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own_memory_in(&mounts(), &own)
}

fn own_memory_in(mounts: &str, own: &str) -> Vec<Memory> {
    type Version = (Option<&'static str>, fn(PathBuf) -> Memory);
    let versions: [Version; 2] = [(Some("memory"), Memory::V1), (None, Memory::V2)];
    let groups = versions.into_iter().flat_map(|(kind, memory)| {
        let root = mounts.lines().find_map(|line| Some(PathBuf::from(mount(line, kind)?.1)));
        // A container that does not have its own view of the groups sees none but the root.
        let folder = own_folder(mounts, own, kind).or_else(|| root.clone());
        let folders: Vec<PathBuf> = match (&folder, &root) {
            (Some(folder), Some(root)) => {
                folder.ancestors().take_while(|one| one.starts_with(root)).map(Into::into).collect()
            }
            _ => Vec::new(),
        };
        folders.into_iter().map(memory)
    });
    groups.collect()
}

/// The root and the place of a mount of control groups.
fn mount<'a>(line: &'a str, kind: Option<&str>) -> Option<(&'a str, &'a str)> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, at) = (front.next()?, front.next()?);
    let mut back = back.split(' ');
    let (system, _, options) = (back.next()?, back.next(), back.next()?);
    let fits = match kind {
        Some(kind) => system == "cgroup" && options.split(',').any(|option| option == kind),
        None => system == "cgroup2",
    };
    fits.then_some((root, at))
}

/// The groups of one jail.
#[derive(Debug, Default, Clone)]
pub(crate) struct Group {
    first: Vec<PathBuf>,
    second: Option<PathBuf>,
    /// Where memory is kept an account of.
    memory: Option<Memory>,
    /// How often programs were killed because they thrashed.
    kills: Arc<AtomicU64>,
}

/// The account of memory that the kernel keeps of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Memory {
    V1(PathBuf),
    V2(PathBuf),
}

impl Memory {
    /// The account of the group that another process is in, if this word is in the group's name and
    /// we may read it.
    pub(crate) fn of_process(pid: i64, word: &str) -> Option<Memory> {
        let theirs = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let named = |folder: &Path| folder.to_string_lossy().contains(word);
        if let Some(folder) = own_folder(&mounts, &theirs, Some("memory")) {
            let memory = Memory::V1(folder);
            return (named(memory.folder()) && memory.read().is_some()).then_some(memory);
        }
        // A group may have smaller ones within, of which nobody keeps an account.
        let folder = own_folder(&mounts, &theirs, None)?;
        let mut above = folder.ancestors().take_while(|folder| named(folder));
        above.find_map(|folder| {
            let memory = Memory::V2(folder.to_owned());
            memory.read().is_some().then_some(memory)
        })
    }

    fn folder(&self) -> &Path {
        match self {
            Memory::V1(folder) | Memory::V2(folder) => folder,
        }
    }

    /// The buffers of connections have an account of their own in the first version, which most who
    /// make groups forget. Where it is not ours to limit, nothing is.
    pub(crate) fn limit_connections(&self, limits: &Limits) {
        if let Memory::V1(folder) = self {
            let _ = write(folder, "memory.kmem.tcp.limit_in_bytes", limits.memory / 4);
        }
    }

    /// Bytes that the group may still use; `None` where there is no limit. Cached files that were not read for
    /// a while count as free: the kernel drops them when memory is needed.
    pub(crate) fn available(&self) -> Option<u64> {
        let (limit, used, cache) = match self {
            Memory::V1(_) => {
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            }
            Memory::V2(_) => ("memory.max", "memory.current", "inactive_file"),
        };
        let read = |name| fs::read_to_string(self.folder().join(name)).ok();
        let number = |name| read(name)?.trim().parse::<u64>().ok();
        let free = number(limit)?.saturating_sub(number(used)?);
        Some(free.saturating_add(count(&read("memory.stat").unwrap_or_default(), cache)))
    }

    /// What it says now; `None` when it cannot be read, or not any more.
    pub(crate) fn read(&self) -> Option<Account> {
        let (peak, events) = match self {
            Memory::V1(_) => ("memory.max_usage_in_bytes", "memory.oom_control"),
            Memory::V2(_) => ("memory.peak", "memory.events"),
        };
        let read = |name| fs::read_to_string(self.folder().join(name)).ok();
        let out_of_memory = count(&read(events)?, "oom_kill");
        // Older kernels of the second version keep no record of the most.
        let peak_memory = read(peak).and_then(|text| text.trim().parse().ok());
        Some(Account { peak_memory, out_of_memory })
    }
}

impl Group {
    fn make_v1(
        &mut self,
        places: [&Option<PathBuf>; 3],
        name: &str,
        limits: &Limits,
    ) -> io::Result<()> {
        for (kind, place) in ["memory", "pids", "cpu"].into_iter().zip(places) {
            let Some(folder) = place.as_ref().map(|place| place.join(name)) else { continue };
            fs::create_dir(&folder)?;
            self.first.push(folder.clone());
            match kind {
                "memory" => {
                    write(&folder, "memory.limit_in_bytes", limits.memory)?;
                    // Without an account of swap there is none to limit.
                    let _ = write(&folder, "memory.memsw.limit_in_bytes", limits.memory);
                    let _ = write(&folder, "memory.swappiness", 0);
                    let memory = Memory::V1(folder);
                    memory.limit_connections(limits);
                    self.memory = Some(memory);
                }
                "pids" => write(&folder, "pids.max", processes(limits))?,
                _ => {
                    write(&folder, "cpu.cfs_period_us", PERIOD)?;
                    write(&folder, "cpu.cfs_quota_us", quota(limits))?;
                }
            }
        }
        Ok(())
    }

    fn make_v2(&mut self, folder: &Path, kinds: &[String], limits: &Limits) -> io::Result<()> {
        fs::create_dir(folder)?;
        self.second = Some(folder.to_owned());
        for kind in kinds {
            match kind.as_str() {
                "memory" => {
                    write(folder, "memory.max", limits.memory)?;
                    let _ = write(folder, "memory.swap.max", 0);
                    self.memory = Some(Memory::V2(folder.to_owned()));
                }
                "pids" => write(folder, "pids.max", processes(limits))?,
                "cpu" => write(folder, "cpu.max", format!("{} {PERIOD}", quota(limits)))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Has a jail be made in these groups.
    pub(crate) fn furnish(&self, setup: &mut Setup) {
        let text = |folder: &PathBuf| folder.display().to_string();
        setup.groups_v1 = self.first.iter().map(text).collect();
        setup.group_v2 = self.second.as_ref().map(text);
    }

    /// Gives another share of the processor than the groups were made with, where one is kept at all.
    pub(crate) fn share(&self, limits: &Limits) {
        let quota = quota(limits);
        for folder in &self.first {
            // One of them is the processor's.
            let _ = write(folder, "cpu.cfs_quota_us", quota);
        }
        if let Some(folder) = &self.second {
            let _ = write(folder, "cpu.max", format!("{quota} {PERIOD}"));
        }
    }

    /// Starts the watch over programs that thrash, where groups are of the second version. `guest` is the process in it
    /// that is not killed.
    pub(crate) fn watch(&self, guest: u32, limits: &Limits) -> Option<AbortOnDropHandle<()>> {
        let Some(Memory::V2(folder)) = &self.memory else { return None };
        let (folder, kills) = (folder.clone(), Arc::clone(&self.kills));
        Some(Watched { folder, limit: limits.memory, guest, kills }.watch())
    }

    pub(crate) fn account(&self) -> Account {
        let mut account = self.memory.as_ref().and_then(Memory::read).unwrap_or_default();
        account.out_of_memory += self.kills.load(Ordering::Relaxed);
        account
    }

    /// `false` while somebody is still in one of them.
    pub(crate) fn remove(&self) -> bool {
        let removed = self.first.iter().chain(&self.second).map(fs::remove_dir);
        let busy = removed.filter(|result| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
        });
        busy.count() == 0
    }
}

/// One for the guest, which nobody asked for.
pub(crate) fn processes(limits: &Limits) -> u64 {
    u64::from(limits.processes) + 1
}

pub(crate) fn quota(limits: &Limits) -> u64 {
    // The kernel takes nothing shorter than a millisecond.
    (u64::from(limits.cpu_millis) * PERIOD / 1000).max(1000)
}

fn write(folder: &Path, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    fs::write(folder.join(name), value.to_string())
}

/// The figure of a line `NAME FIGURE`; 0 where there is none.
fn count(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(key, value)| if key == name { value.trim().parse().ok() } else { None })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const V1: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn available_memory_is_read_from_the_innermost_group_up() {
        let (root, mounts) = unified();
        let own = "0::/user.slice/user-1000.slice\n";
        let groups = own_memory_in(&mounts, own);
        let folders: Vec<&Path> = groups.iter().map(Memory::folder).collect();
        let above = root.path().join("user.slice");
        assert_eq!(folders, [&above.join("user-1000.slice"), &above, root.path()]);
        assert_eq!(groups[1].available(), None);
        fs::write(above.join("memory.max"), "max\n").unwrap();
        fs::write(above.join("memory.current"), "700\n").unwrap();
        assert_eq!(groups[1].available(), None);
        fs::write(above.join("memory.max"), "1000\n").unwrap();
        assert_eq!(groups[1].available(), Some(300));
        // Files in the cache are dropped when memory is needed.
        let stat = "anon 100\nfile 600\nactive_file 100\ninactive_file 500\n";
        fs::write(above.join("memory.stat"), stat).unwrap();
        assert_eq!(groups[1].available(), Some(800));
        let v1 = own_memory_in(V1, "9:memory:/process/1\n0::/\n");
        let expected = ["process/1", "process", ""].map(|name| {
            let folder = PathBuf::from("/sys/fs/cgroup/memory");
            Memory::V1(if name.is_empty() { folder } else { folder.join(name) })
        });
        assert_eq!(v1[..3], expected);
    }

    /// A tree as systemd lays it out, in which a user's terminal runs.
    pub(super) fn unified() -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        let service = "user.slice/user-1000.slice/user@1000.service";
        for (group, handed) in [
            ("", "cpuset cpu io memory pids"),
            ("user.slice", "cpu memory pids"),
            ("user.slice/user-1000.slice", "memory pids"),
            (service, "cpu memory pids"),
            (&format!("{service}/app.slice"), "memory pids"),
            (&format!("{service}/app.slice/terminal.scope"), ""),
        ] {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup.subtree_control"), handed).unwrap();
        }
        let mounts = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        (root, mounts)
    }

    #[test]
    fn limits_are_written_and_the_account_is_read() {
        let (root, _) = unified();
        let groups = Groups::V2 {
            folder: root.path().to_owned(),
            kinds: ["memory", "pids", "cpu"].map(str::to_owned).into(),
        };
        let group = groups.make("m-1", &Limits::default()).unwrap();
        let folder = root.path().join("assize-m-1");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((read("memory.max"), read("memory.swap.max")), ("268435456".into(), "0".into()));
        assert_eq!((read("pids.max"), read("cpu.max")), ("129".into(), "50000 100000".into()));
        let mut setup = Setup::default();
        group.furnish(&mut setup);
        assert_eq!((setup.groups_v1.len(), setup.group_v2.is_some()), (0, true));
        fs::write(folder.join("memory.peak"), "12345\n").unwrap();
        fs::write(folder.join("memory.events"), "low 0\noom 3\noom_kill 2\n").unwrap();
        assert_eq!(group.account(), Account { peak_memory: Some(12345), out_of_memory: 2 });
    }
}

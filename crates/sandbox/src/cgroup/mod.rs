//! cgroups (v1 or v2): limits and accounting of the memory, processes and CPU time of a sandbox.
//!
//! A jail has its own cgroups if this process is allowed to create cgroups. The cgroups of a container are only read.

mod find;
mod thrash;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use assize_config::SandboxLimits;
use assize_protocol::jail::JailSetup;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::ResourceUsage;
pub(crate) use find::CgroupParents;
use thrash::ThrashWatchdog;

/// Name prefix of the cgroups that assize creates.
pub(crate) const PREFIX: &str = "assize-";

/// Period of the CPU quota in microseconds.
pub(crate) const PERIOD: u64 = 100_000;

/// Removes the empty cgroups that the dead process `maker` created. Searches all cgroup mounts, because that process
/// may have run in a different cgroup than this process.
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

/// Returns the mount point in a line of `mountinfo`, if the line describes a cgroup mount.
fn place_of_groups(line: &str) -> Option<PathBuf> {
    let (front, back) = line.split_once(" - ")?;
    back.starts_with("cgroup").then(|| front.split(' ').nth(4).map(PathBuf::from)).flatten()
}

/// Returns the folder of the cgroup of a process: its cgroup of the v1 controller `kind`, or its v2 cgroup if `kind` is
/// `None`. `own` is the text of the file `/proc/PID/cgroup` of the process.
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
        // `join` with an empty path would add a trailing slash.
        Some(if below.as_os_str().is_empty() { at.into() } else { Path::new(at).join(below) })
    })
}

/// The memory cgroup of this process, followed by the ancestors of this cgroup up to the root of the visible cgroup
/// tree.
pub(crate) fn own_memory() -> Vec<MemoryCgroup> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own_memory_in(&mounts(), &own)
}

fn own_memory_in(mounts: &str, own: &str) -> Vec<MemoryCgroup> {
    type Version = (Option<&'static str>, fn(PathBuf) -> MemoryCgroup);
    let versions: [Version; 2] = [(Some("memory"), MemoryCgroup::V1), (None, MemoryCgroup::V2)];
    let groups = versions.into_iter().flat_map(|(kind, memory)| {
        let root = mounts.lines().find_map(|line| Some(PathBuf::from(mount(line, kind)?.1)));
        // In a container without a cgroup namespace, only the root of the cgroup tree is visible.
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

/// Parses a line of `mountinfo`. If the line describes the mount of the v1 controller `kind` (of cgroup v2 if `kind` is
/// `None`), returns the mounted cgroup (a path in the cgroup tree) and the mount point.
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

/// The cgroups of one jail.
#[derive(Debug, Default, Clone)]
pub(crate) struct JailCgroup {
    v1: Vec<PathBuf>,
    v2: Option<PathBuf>,
    /// Cgroup that measures the memory use of the jail; `None` without a memory controller.
    memory: Option<MemoryCgroup>,
    /// Number of times that the programs of the jail were killed because they thrashed.
    kills: Arc<AtomicU64>,
}

/// Folder of a cgroup (v1 or v2) whose memory use can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemoryCgroup {
    V1(PathBuf),
    V2(PathBuf),
}

impl MemoryCgroup {
    /// Returns the memory cgroup of another process, if this cgroup is readable and its path contains `word`, such as
    /// the id of a container.
    pub(crate) fn of_process(pid: i64, word: &str) -> Option<MemoryCgroup> {
        let theirs = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let named = |folder: &Path| folder.to_string_lossy().contains(word);
        if let Some(folder) = own_folder(&mounts, &theirs, Some("memory")) {
            let memory = MemoryCgroup::V1(folder);
            return (named(memory.folder()) && memory.read().is_some()).then_some(memory);
        }
        // The process may be in a subgroup without memory accounting.
        let folder = own_folder(&mounts, &theirs, None)?;
        let mut above = folder.ancestors().take_while(|folder| named(folder));
        above.find_map(|folder| {
            let memory = MemoryCgroup::V2(folder.to_owned());
            memory.read().is_some().then_some(memory)
        })
    }

    fn folder(&self) -> &Path {
        match self {
            MemoryCgroup::V1(folder) | MemoryCgroup::V2(folder) => folder,
        }
    }

    /// Limits the memory of TCP buffers. cgroup v1 has a separate limit for this memory, and container engines do not
    /// set that limit. Errors are ignored.
    pub(crate) fn limit_connections(&self, limits: &SandboxLimits) {
        if let MemoryCgroup::V1(folder) = self {
            let _ = write(folder, "memory.kmem.tcp.limit_in_bytes", limits.memory / 4);
        }
    }

    /// Number of bytes of memory that the cgroup can still allocate; `None` if the cgroup has no limit. Inactive page
    /// cache counts as free, because the kernel drops it when memory is needed.
    pub(crate) fn available(&self) -> Option<u64> {
        let (limit, used, cache) = match self {
            MemoryCgroup::V1(_) => {
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            }
            MemoryCgroup::V2(_) => ("memory.max", "memory.current", "inactive_file"),
        };
        let read = |name| fs::read_to_string(self.folder().join(name)).ok();
        let number = |name| read(name)?.trim().parse::<u64>().ok();
        let free = number(limit)?.saturating_sub(number(used)?);
        Some(free.saturating_add(count(&read("memory.stat").unwrap_or_default(), cache)))
    }

    /// Reads the memory usage of the cgroup; `None` if it cannot be read.
    pub(crate) fn read(&self) -> Option<ResourceUsage> {
        let (peak, events) = match self {
            MemoryCgroup::V1(_) => ("memory.max_usage_in_bytes", "memory.oom_control"),
            MemoryCgroup::V2(_) => ("memory.peak", "memory.events"),
        };
        let read = |name| fs::read_to_string(self.folder().join(name)).ok();
        let out_of_memory = count(&read(events)?, "oom_kill");
        // Older kernels have no `memory.peak` in cgroup v2.
        let peak_memory = read(peak).and_then(|text| text.trim().parse().ok());
        Some(ResourceUsage { peak_memory, out_of_memory })
    }
}

impl JailCgroup {
    fn make_v1(
        &mut self,
        places: [&Option<PathBuf>; 3],
        name: &str,
        limits: &SandboxLimits,
    ) -> io::Result<()> {
        for (kind, place) in ["memory", "pids", "cpu"].into_iter().zip(places) {
            let Some(folder) = place.as_ref().map(|place| place.join(name)) else { continue };
            fs::create_dir(&folder)?;
            self.v1.push(folder.clone());
            match kind {
                "memory" => {
                    write(&folder, "memory.limit_in_bytes", limits.memory)?;
                    // Errors are ignored, because the kernel may not account swap.
                    let _ = write(&folder, "memory.memsw.limit_in_bytes", limits.memory);
                    let _ = write(&folder, "memory.swappiness", 0);
                    let memory = MemoryCgroup::V1(folder);
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

    fn make_v2(
        &mut self,
        folder: &Path,
        kinds: &[String],
        limits: &SandboxLimits,
    ) -> io::Result<()> {
        fs::create_dir(folder)?;
        self.v2 = Some(folder.to_owned());
        for kind in kinds {
            match kind.as_str() {
                "memory" => {
                    write(folder, "memory.max", limits.memory)?;
                    let _ = write(folder, "memory.swap.max", 0);
                    self.memory = Some(MemoryCgroup::V2(folder.to_owned()));
                }
                "pids" => write(folder, "pids.max", processes(limits))?,
                "cpu" => write(folder, "cpu.max", format!("{} {PERIOD}", quota(limits)))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds these cgroups to the setup of a jail, so that the processes of the jail are moved into them.
    pub(crate) fn add_to_setup(&self, setup: &mut JailSetup) {
        let text = |folder: &PathBuf| folder.display().to_string();
        setup.groups_v1 = self.v1.iter().map(text).collect();
        setup.group_v2 = self.v2.as_ref().map(text);
    }

    /// Changes the CPU quota, if there is a CPU controller.
    pub(crate) fn set_cpu_quota(&self, limits: &SandboxLimits) {
        let quota = quota(limits);
        for folder in &self.v1 {
            // The write succeeds only in the folder of the CPU controller.
            let _ = write(folder, "cpu.cfs_quota_us", quota);
        }
        if let Some(folder) = &self.v2 {
            let _ = write(folder, "cpu.max", format!("{quota} {PERIOD}"));
        }
    }

    /// Starts the watchdog that kills programs that thrash (cgroup v2 only). It never kills the guest agent, whose
    /// process id is `guest`.
    pub(crate) fn watch(
        &self,
        guest: u32,
        limits: &SandboxLimits,
    ) -> Option<AbortOnDropHandle<()>> {
        let Some(MemoryCgroup::V2(folder)) = &self.memory else { return None };
        let (folder, kills) = (folder.clone(), Arc::clone(&self.kills));
        Some(ThrashWatchdog { folder, limit: limits.memory, guest, kills }.watch())
    }

    pub(crate) fn usage(&self) -> ResourceUsage {
        let mut account = self.memory.as_ref().and_then(MemoryCgroup::read).unwrap_or_default();
        account.out_of_memory += self.kills.load(Ordering::Relaxed);
        account
    }

    /// Removes the cgroups of the jail. Returns `false` while a cgroup still contains processes.
    pub(crate) fn remove(&self) -> bool {
        let removed = self.v1.iter().chain(&self.v2).map(fs::remove_dir);
        let busy = removed.filter(|result| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
        });
        busy.count() == 0
    }
}

/// Process limit of a sandbox's cgroup: the limit of its programs, plus one for the guest agent.
pub(crate) fn processes(limits: &SandboxLimits) -> u64 {
    u64::from(limits.processes) + 1
}

/// CPU quota in microseconds per [`PERIOD`].
pub(crate) fn quota(limits: &SandboxLimits) -> u64 {
    // The kernel rejects a quota below one millisecond.
    (u64::from(limits.cpu_millis) * PERIOD / 1000).max(1000)
}

fn write(folder: &Path, name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    fs::write(folder.join(name), value.to_string())
}

/// Returns the number in the line `NAME NUMBER` of a text; 0 if the line is missing.
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
    fn available_memory_considers_all_ancestor_cgroups() {
        let (root, mounts) = unified();
        let own = "0::/user.slice/user-1000.slice\n";
        let groups = own_memory_in(&mounts, own);
        let folders: Vec<&Path> = groups.iter().map(MemoryCgroup::folder).collect();
        let above = root.path().join("user.slice");
        assert_eq!(folders, [&above.join("user-1000.slice"), &above, root.path()]);
        assert_eq!(groups[1].available(), None);
        fs::write(above.join("memory.max"), "max\n").unwrap();
        fs::write(above.join("memory.current"), "700\n").unwrap();
        assert_eq!(groups[1].available(), None);
        fs::write(above.join("memory.max"), "1000\n").unwrap();
        assert_eq!(groups[1].available(), Some(300));
        // The kernel drops the inactive page cache when memory is needed.
        let stat = "anon 100\nfile 600\nactive_file 100\ninactive_file 500\n";
        fs::write(above.join("memory.stat"), stat).unwrap();
        assert_eq!(groups[1].available(), Some(800));
        let v1 = own_memory_in(V1, "9:memory:/process/1\n0::/\n");
        let expected = ["process/1", "process", ""].map(|name| {
            let folder = PathBuf::from("/sys/fs/cgroup/memory");
            MemoryCgroup::V1(if name.is_empty() { folder } else { folder.join(name) })
        });
        assert_eq!(v1[..3], expected);
    }

    /// Creates folders that look like a cgroup v2 tree of systemd, with the cgroup of a user's terminal. Returns the
    /// root folder of the tree and the line of `mountinfo` that describes its mount.
    pub(super) fn unified() -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        let service = "user.slice/user-1000.slice/user@1000.service";
        for (group, enabled) in [
            ("", "cpuset cpu io memory pids"),
            ("user.slice", "cpu memory pids"),
            ("user.slice/user-1000.slice", "memory pids"),
            (service, "cpu memory pids"),
            (&format!("{service}/app.slice"), "memory pids"),
            (&format!("{service}/app.slice/terminal.scope"), ""),
        ] {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup.subtree_control"), enabled).unwrap();
        }
        let mounts = format!("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
        (root, mounts)
    }

    #[test]
    fn cgroup_limits_are_written_and_usage_is_read() {
        let (root, _) = unified();
        let groups = CgroupParents::V2 {
            folder: root.path().to_owned(),
            kinds: ["memory", "pids", "cpu"].map(str::to_owned).into(),
        };
        let group = groups.make("m-1", &SandboxLimits::default()).unwrap();
        let folder = root.path().join("assize-m-1");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((read("memory.max"), read("memory.swap.max")), ("268435456".into(), "0".into()));
        assert_eq!((read("pids.max"), read("cpu.max")), ("129".into(), "50000 100000".into()));
        let mut setup = JailSetup::default();
        group.add_to_setup(&mut setup);
        assert_eq!((setup.groups_v1.len(), setup.group_v2.is_some()), (0, true));
        fs::write(folder.join("memory.peak"), "12345\n").unwrap();
        fs::write(folder.join("memory.events"), "low 0\noom 3\noom_kill 2\n").unwrap();
        assert_eq!(group.usage(), ResourceUsage { peak_memory: Some(12345), out_of_memory: 2 });
    }
}

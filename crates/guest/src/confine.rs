//! Confinement of every program under trial, on any backend: resource limits, Landlock and seccomp.

use std::io;

use assize_protocol::GuestLimits;
use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr,
};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::seccomp::SeccompFilter;

/// Folders that programs are allowed to write to. Folders that do not exist are skipped.
const WRITABLE: [&str; 3] = ["/tmp", "/workspace", "/dev/shm"];

/// Devices that programs are allowed to write to.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Newest Landlock ABI version with which the Landlock rules were tested.
const LANDLOCK_ABI: ABI = ABI::V5;

/// Creates the target folders of those [`WRITABLE`] folders that are symbolic links. The target folders are missing at
/// first, because the sandbox starts with an empty disk.
pub(crate) fn make_writable_folders() {
    for folder in WRITABLE.iter().filter_map(|folder| std::fs::read_link(folder).ok()) {
        // An error is ignored, because a program that uses the folder will get an error too.
        let _ = std::fs::create_dir(folder);
    }
}

/// Resource limits, Landlock rules and seccomp filter, built once and applied to each program.
pub(crate) struct Confinement {
    filter: SeccompFilter,
    landlock: RulesetCreated,
    limits: GuestLimits,
}

impl Confinement {
    pub(crate) fn new(limits: GuestLimits) -> Result<Confinement, String> {
        // On a kernel without Landlock, the rules are empty and have no effect.
        let landlock =
            rules(&DEVICES).map_err(|error| format!("cannot create Landlock rules: {error}"))?;
        Ok(Confinement {
            filter: SeccompFilter::new(limits.watch_memory.is_some())?,
            landlock,
            limits,
        })
    }

    /// Confines this process, which is about to `exec` the program.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.set_limits()?;
        rustix::thread::set_no_new_privs(true)?;
        self.landlock.try_clone()?.restrict_self().map_err(io::Error::other)?;
        self.filter.apply()
    }

    fn set_limits(&self) -> io::Result<()> {
        let limits = &self.limits;
        let mut all = vec![
            // The core dump limit is 1 instead of 0: if `core_pattern` pipes core dumps to a program, only a limit of 1
            // prevents the kernel from starting that program.
            (Resource::Core, 1),
            // Programs may open half as many descriptors as a user usually may. Without a memory cgroup the limit is
            // lower, because the kernel memory for polling descriptors grows with the square of their number.
            (Resource::Nofile, if limits.watch_memory.is_some() { 256 } else { 512 }),
            // Programs must not raise their own scheduling priority.
            (Resource::Rtprio, 0),
            (Resource::Nice, 0),
            (Resource::Fsize, limits.file_bytes),
            (Resource::Memlock, 64 * 1024),
            (Resource::Msgqueue, 64 * 1024),
            (Resource::Sigpending, 1024),
        ];
        all.extend(limits.processes.map(|count| (Resource::Nproc, count)));
        // The limit on the data segment is twice the memory limit, so that the memory watch acts first and can report
        // why the program ended. The limit stops programs whose memory grows fast between two polls of the watch.
        all.extend(limits.watch_memory.map(|bytes| (Resource::Data, bytes.saturating_mul(2))));
        all.extend(limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds)));
        for (resource, value) in all {
            // An unprivileged process cannot raise its own hard limit.
            let hard_limit = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let value = Some(value.min(hard_limit));
            setrlimit(resource, Rlimit { current: value, maximum: value })?;
        }
        Ok(())
    }
}

/// Creates Landlock rules that allow programs to read and execute all files, and to write only to the [`WRITABLE`]
/// folders and to the given devices.
pub(crate) fn rules(devices: &[&str]) -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK_ABI))?.create()?;
    let read = AccessFs::from_read(LANDLOCK_ABI);
    rules = rules.add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
    for folder in WRITABLE {
        if let Ok(folder) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(folder, AccessFs::from_all(LANDLOCK_ABI)))?;
        }
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    for path in devices {
        if let Ok(path) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(path, device))?;
        }
    }
    Ok(rules)
}

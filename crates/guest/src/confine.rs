//! What is laid on every program under trial, whatever the walls around the sandbox are.

use std::io;

use assize_protocol::GuestLimits;
use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr,
};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::seccomp::Filter;

/// Folders that programs may write to, if they are there.
const WRITABLE: [&str; 3] = ["/tmp", "/workspace", "/dev/shm"];

/// Devices that programs may write to.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The newest of Landlock's rules that we know to be right for us.
const NEWEST: ABI = ABI::V5;

/// Makes those that are links to folders which are not there yet: a disk that is made with the
/// sandbox is empty.
pub(crate) fn make_writable_folders() {
    for folder in WRITABLE.iter().filter_map(|folder| std::fs::read_link(folder).ok()) {
        // That it is missing is told to whoever needs it.
        let _ = std::fs::create_dir(folder);
    }
}

/// Everything that can be made ready once and laid on each program.
pub(crate) struct Confinement {
    filter: Filter,
    landlock: RulesetCreated,
    limits: GuestLimits,
}

impl Confinement {
    pub(crate) fn new(limits: GuestLimits) -> Result<Confinement, String> {
        // Where the kernel has no Landlock, the rules are empty and do nothing.
        let landlock = rules(&DEVICES).map_err(|error| format!("Landlock: {error}"))?;
        Ok(Confinement { filter: Filter::new(limits.watch_memory.is_some())?, landlock, limits })
    }

    /// Lays everything on this process, which is about to become the program.
    pub(crate) fn apply(&self) -> io::Result<()> {
        self.set_limits()?;
        rustix::thread::set_no_new_privs(true)?;
        self.landlock.try_clone()?.restrict_self().map_err(io::Error::other)?;
        self.filter.apply()
    }

    fn set_limits(&self) -> io::Result<()> {
        let limits = &self.limits;
        let mut all = vec![
            // Not 0: where crashes go to a program, only 1 keeps the kernel from starting it.
            (Resource::Core, 1),
            // Half of what a user of the host commonly has. Less where that may be the same user, and
            // nobody keeps an account: what watches over descriptors grows with their square.
            (Resource::Nofile, if limits.watch_memory.is_some() { 256 } else { 512 }),
            // Nobody's share of the processor is beside the point.
            (Resource::Rtprio, 0),
            (Resource::Nice, 0),
            (Resource::Fsize, limits.file_bytes),
            (Resource::Memlock, 64 * 1024),
            (Resource::Msgqueue, 64 * 1024),
            (Resource::Sigpending, 1024),
        ];
        all.extend(limits.processes.map(|count| (Resource::Nproc, count)));
        // The watch should see it first, as only then can it be told why the program ended; this is
        // for what grows faster than it looks.
        all.extend(limits.watch_memory.map(|bytes| (Resource::Data, bytes.saturating_mul(2))));
        all.extend(limits.cpu_seconds.map(|seconds| (Resource::Cpu, seconds)));
        for (resource, value) in all {
            // Never more than what we have ourselves.
            let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let value = Some(value.min(most));
            setrlimit(resource, Rlimit { current: value, maximum: value })?;
        }
        Ok(())
    }
}

/// Everything may be read and run, and only the writable places and these devices written to.
pub(crate) fn rules(devices: &[&str]) -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.create()?;
    let read = AccessFs::from_read(NEWEST);
    rules = rules.add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
    for folder in WRITABLE {
        if let Ok(folder) = PathFd::new(folder) {
            rules = rules.add_rule(PathBeneath::new(folder, AccessFs::from_all(NEWEST)))?;
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

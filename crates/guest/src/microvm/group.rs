//! Cgroup of all programs in a microVM. The cgroup enforces the limits on memory, processes and CPU of the programs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use assize_protocol::MicroVmSettings;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen,
};

use crate::jail::{AtStep, StepError};

/// CPU accounting period: 100 ms, in microseconds.
const PERIOD: u64 = 100_000;

const NAME: &str = "programs";

/// Value that enables the cgroup controllers for memory, processes and CPU.
const CONTROLLERS: &str = "+memory +pids +cpu";

/// Cgroup of the programs, in a cgroup tree that is not mounted at any path.
pub(crate) struct ProgramCgroup {
    folder: OwnedFd,
    /// `cgroup.procs`, opened as root, so that a process can still enter after it has changed its user.
    members: File,
}

impl ProgramCgroup {
    pub(crate) fn make() -> Result<ProgramCgroup, StepError> {
        let root = mount_cgroups().step("mount cgroups")?;
        write(&root, "cgroup.subtree_control", CONTROLLERS)
            .step("enable the cgroup controllers for memory, processes and CPU")?;
        mkdirat(&root, NAME, Mode::from_raw_mode(0o755)).step("create a cgroup")?;
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let folder = openat(&root, NAME, flags, Mode::empty()).step("open the cgroup")?;
        let members = open(&folder, "cgroup.procs", OFlags::WRONLY).step("open `cgroup.procs`")?;
        Ok(ProgramCgroup { folder, members })
    }

    pub(crate) fn limit(&self, settings: &MicroVmSettings) -> Result<(), StepError> {
        // The kernel rejects quotas below 1 ms.
        let quota = (u64::from(settings.cpu_millis) * PERIOD / 1000).max(1000);
        for (name, value) in [
            ("memory.max", settings.memory.to_string()),
            ("pids.max", settings.processes.to_string()),
            ("cpu.max", format!("{quota} {PERIOD}")),
        ] {
            write(&self.folder, name, &value).step(format!("set `{name}`"))?;
        }
        // Errors are ignored, because a kernel without swap has no file `memory.swap.max`.
        let _ = write(&self.folder, "memory.swap.max", "0");
        Ok(())
    }

    /// Moves the calling process into the cgroup.
    pub(crate) fn enter(&self) -> io::Result<()> {
        (&self.members).write_all(b"0")
    }

    /// Number of processes that the OOM killer has killed in this cgroup.
    pub(crate) fn killed(&self) -> u64 {
        let events = read(&self.folder, "memory.events").unwrap_or_default();
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Peak memory use of the cgroup since its creation, in bytes; `None` if the kernel does not record it.
    pub(crate) fn peak(&self) -> Option<u64> {
        read(&self.folder, "memory.peak").ok()?.trim().parse().ok()
    }
}

fn mount_cgroups() -> Result<OwnedFd, rustix::io::Errno> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // With this flag, a process can enter a cgroup without waiting for all CPUs. Older kernels reject the flag and
    // wait.
    let _ = fsconfig_set_flag(&context, "favordynmods");
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

fn open(folder: &OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    Ok(openat(folder, name, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

fn write(folder: &OwnedFd, name: &str, value: &str) -> io::Result<()> {
    open(folder, name, OFlags::WRONLY)?.write_all(value.as_bytes())
}

fn read(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let mut text = String::new();
    open(folder, name, OFlags::RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

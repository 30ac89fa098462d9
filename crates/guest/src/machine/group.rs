//! The group that programs are members of, in a machine of our own: its kernel keeps the account.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use assize_protocol::Machine;
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsmount, fsopen,
};

use crate::jail::{AtStep, Step};

/// One hundred milliseconds, in which programs have their share of the processor.
const PERIOD: u64 = 100_000;

const NAME: &str = "programs";

/// What the kernel is to keep an account of.
const KINDS: &str = "+memory +pids +cpu";

/// The group, in a tree that is mounted nowhere.
pub(crate) struct Group {
    folder: OwnedFd,
    /// Opened by us, so that those who have become somebody else can still enter.
    members: File,
}

impl Group {
    pub(crate) fn make() -> Result<Group, Step> {
        let root = tree().step("mounting control groups")?;
        write(&root, "cgroup.subtree_control", KINDS)
            .step("the kernel keeps no account of memory, processes and processor time")?;
        mkdirat(&root, NAME, Mode::from_raw_mode(0o755)).step("making a group")?;
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        let folder = openat(&root, NAME, flags, Mode::empty()).step("opening the group")?;
        let members = open(&folder, "cgroup.procs", OFlags::WRONLY).step("opening the group")?;
        Ok(Group { folder, members })
    }

    pub(crate) fn limit(&self, told: &Machine) -> Result<(), Step> {
        // The kernel takes nothing shorter than a millisecond.
        let quota = (u64::from(told.cpu_millis) * PERIOD / 1000).max(1000);
        for (name, value) in [
            ("memory.max", told.memory.to_string()),
            ("pids.max", told.processes.to_string()),
            ("cpu.max", format!("{quota} {PERIOD}")),
        ] {
            write(&self.folder, name, &value).step(format!("setting `{name}`"))?;
        }
        // A kernel without swap does not know the word.
        let _ = write(&self.folder, "memory.swap.max", "0");
        Ok(())
    }

    /// Makes the process that calls it a member.
    pub(crate) fn enter(&self) -> io::Result<()> {
        (&self.members).write_all(b"0")
    }

    /// How many of its members were ended for want of memory.
    pub(crate) fn killed(&self) -> u64 {
        let events = read(&self.folder, "memory.events").unwrap_or_default();
        let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// The most memory that its members ever used, where the kernel remembers it.
    pub(crate) fn peak(&self) -> Option<u64> {
        read(&self.folder, "memory.peak").ok()?.trim().parse().ok()
    }
}

fn tree() -> Result<OwnedFd, rustix::io::Errno> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // To enter a group should not wait for every processor to look away; older kernels always do.
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

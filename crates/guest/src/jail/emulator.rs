//! Jail around the VM emulator (QEMU), so that a guest that breaks out of the microVM is still confined.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use assize_protocol::jail::Emulator;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::{die_with_the_supervisor, users};
use crate::sys;

/// File descriptor, in the emulator, of the channel to the host. The descriptors that the host has sent get the numbers
/// after this one.
const FIRST_FD: u32 = 3;

/// Maximum number of threads of the emulator. The emulator needs several threads, for example to read from disks.
const MAX_THREADS: u64 = 128;

/// Environment variable that makes all threads of the emulator share one heap, because each heap would reserve address
/// space.
const SINGLE_HEAP: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

/// Maximum number of file descriptors that the host is allowed to send for the emulator.
pub(super) const MOST: usize = 16;

/// The only device that the emulator is allowed to open for writing.
const KVM: &str = "/dev/kvm";

/// Lowest number for temporary copies of file descriptors. It is greater than the number of every descriptor that the
/// emulator gets, so that no copy is overwritten.
const TEMPORARY_FD: i32 = 64;

/// Replaces this process with the emulator, which runs without capabilities. Returns only on failure.
pub(super) fn exec_emulator(
    emulator: &Emulator,
    with_other_user: bool,
    handed: &[OwnedFd],
) -> io::Error {
    match prepare(emulator, with_other_user, handed) {
        Ok(()) => Command::new(&emulator.argv[0])
            .args(&emulator.argv[1..])
            .env_clear()
            .envs([SINGLE_HEAP])
            .exec(),
        Err(error) => error,
    }
}

fn prepare(emulator: &Emulator, with_other_user: bool, handed: &[OwnedFd]) -> io::Result<()> {
    // All descriptors are first copied to high numbers, so that no final number overwrites a descriptor still needed.
    let mut copies = vec![rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), TEMPORARY_FD)?];
    for descriptor in handed {
        copies.push(rustix::io::fcntl_dupfd_cloexec(descriptor, TEMPORARY_FD)?);
    }
    for (number, descriptor) in (FIRST_FD.cast_signed()..).zip(&copies) {
        sys::give_as(descriptor, number)?;
    }
    let first_unused = FIRST_FD + u32::try_from(copies.len()).unwrap_or(0);
    drop(copies);
    sys::close_between(first_unused, u32::MAX);
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    drop(null);
    for (resource, limit) in [
        (Resource::As, emulator.address_space),
        (Resource::Nofile, 64),
        // The emulator must not create or extend files.
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    if with_other_user {
        // The kernel counts threads per user, and no other process runs as this user.
        let limit = Some(MAX_THREADS);
        setrlimit(Resource::Nproc, Rlimit { current: limit, maximum: limit })?;
        users::become_program(emulator.group.is_some())?;
        // The kernel clears the parent death signal when a process changes its user.
        die_with_the_supervisor().map_err(|step| step.error)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    // Landlock also keeps the emulator from reopening its read-only descriptors for writing.
    crate::confine::rules(&[KVM])
        .and_then(|rules| Ok(rules.restrict_self()?))
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(())
}

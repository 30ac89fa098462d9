//! A jail around a program that is a machine: what the machine might break out into.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use assize_protocol::jail::Emulator;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::{die_with_the_keeper, users};
use crate::sys;

/// The number of the channel's descriptor, and after it those that were handed over.
const FIRST: u32 = 3;

/// Its own threads: those that read from disks, and some.
const THREADS: u64 = 128;

/// Its threads share one heap: each would reserve addresses for its own.
const HEAPS: (&str, &str) = ("MALLOC_ARENA_MAX", "1");

/// How many may be handed over.
pub(super) const MOST: usize = 16;

/// The one device that it may need to open.
const KVM: &str = "/dev/kvm";

/// Beyond all that it is given.
const ABOVE: i32 = 64;

/// Becomes the program, as a user without any rights. Comes back only if that cannot be.
pub(super) fn become_it(
    emulator: &Emulator,
    with_other_user: bool,
    handed: &[OwnedFd],
) -> io::Error {
    match prepare(emulator, with_other_user, handed) {
        Ok(()) => Command::new(&emulator.argv[0])
            .args(&emulator.argv[1..])
            .env_clear()
            .envs([HEAPS])
            .exec(),
        Err(error) => error,
    }
}

fn prepare(emulator: &Emulator, with_other_user: bool, handed: &[OwnedFd]) -> io::Result<()> {
    // First out of each other's way, then each to its number.
    let mut given = vec![rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), ABOVE)?];
    for descriptor in handed {
        given.push(rustix::io::fcntl_dupfd_cloexec(descriptor, ABOVE)?);
    }
    for (number, descriptor) in (FIRST.cast_signed()..).zip(&given) {
        sys::give_as(descriptor, number)?;
    }
    let last = FIRST + u32::try_from(given.len()).unwrap_or(0);
    drop(given);
    sys::close_between(last, u32::MAX);
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    drop(nothing);
    for (resource, most) in [
        (Resource::As, emulator.address_space),
        (Resource::Nofile, 64),
        // It has nothing to write to but what it was given.
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
    ] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    if with_other_user {
        // Counted for it alone, as nobody else is that user.
        let most = Some(THREADS);
        setrlimit(Resource::Nproc, Rlimit { current: most, maximum: most })?;
        users::become_program(emulator.group.is_some())?;
        // Which the kernel forgets when a process becomes somebody else.
        die_with_the_keeper().map_err(|step| step.error)?;
    }
    rustix::thread::set_no_new_privs(true)?;
    // Not even what it was given to read can be opened once more to be written to.
    crate::confine::rules(&[KVM])
        .and_then(|rules| Ok(rules.restrict_self()?))
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(())
}

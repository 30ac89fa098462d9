//! The system calls that no crate of ours wraps, each as one small safe function.
#![expect(
    unsafe_code,
    reason = "these calls have no safe wrapper; each block says why it is sound"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The number of a process.
pub(crate) type Pid = libc::pid_t;

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Splits this process in two, the child in namespaces of its own, and in a control group of the
/// second version where one is given. `None` in the child.
///
/// To be born into a group takes no time; to be moved into one waits for every processor.
pub(crate) fn clone_into_namespaces(
    flags: libc::c_int,
    group: Option<&File>,
) -> io::Result<Option<Pid>> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: a clone_args is plain numbers, of which zero means none.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.cast_unsigned());
    arguments.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    if let Some(group) = group {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    }
    // SAFETY: without CLONE_VM this is a fork: the child has a copy of the whole address space, and
    // as the process has one thread, no lock in it can be left taken. The size is the struct's own.
    let pid = checked(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })?;
    Ok(Pid::try_from(pid).ok().filter(|pid| *pid != 0))
}

/// Makes a mount and all below it read-only, or whatever else the attributes say.
pub(crate) fn set_mount_attributes(
    mount: impl AsFd,
    attributes: u64,
    recursive: bool,
) -> io::Result<()> {
    let attribute =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, and the size given is that of the struct pointed to.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attribute,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Does something to files as another user, where one is given, and is root again after it.
pub(crate) fn as_user<T>(user: Option<u32>, act: impl FnOnce() -> T) -> T {
    let Some(user) = user else { return act() };
    let touch_files_as = |user| {
        // SAFETY: both calls only take numbers, and cannot fail other than by changing nothing, which
        // leaves us with fewer rights on the program's files, never with more.
        unsafe {
            libc::setfsgid(user);
            libc::setfsuid(user);
        }
    };
    // The kernel forgets both when a process becomes somebody else, be it for files alone.
    let death = rustix::process::parent_process_death_signal().ok().flatten();
    let dumpable = rustix::process::dumpable_behavior().ok();
    touch_files_as(user);
    let done = act();
    touch_files_as(0);
    if let Some(signal) = death {
        let _ = rustix::process::set_parent_process_death_signal(Some(signal));
    }
    if let Some(dumpable) = dumpable {
        let _ = rustix::process::set_dumpable_behavior(dumpable);
    }
    done
}

/// A descriptor that is readable whenever a child has ended; the signal itself is blocked.
pub(crate) fn children_signal() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before it is used, and lives longer than the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        checked(fd.into())?;
        // SAFETY: the call just gave us this descriptor, and nobody else has it.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Lets every signal through again, as a program expects it.
pub(crate) fn unblock_signals() {
    // SAFETY: the set is initialised by `sigemptyset` before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// A child that ended.
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Its largest size in memory, its own children's that it waited for included.
    pub(crate) peak_bytes: u64,
}

/// Takes note of one child that ended, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: both pointers are to values that live through the call; a rusage is plain numbers.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    (pid > 0).then(|| Reaped {
        pid,
        exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    })
}

/// Sends a signal to a process, or with a negative number to a group, or with -1 to all there are.
pub(crate) fn kill(pid: Pid, signal: i32) -> bool {
    // SAFETY: it takes two numbers.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Has a function run in a program's process just before the program begins.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: a process of one thread forks here, so the child may allocate and take locks.
    unsafe { command.pre_exec(prepare) };
}

/// Puts a copy of a descriptor at a number that the next program finds it under.
pub(crate) fn give_as(fd: impl AsFd, number: i32) -> io::Result<()> {
    let from = fd.as_fd().as_raw_fd();
    // SAFETY: both are numbers; when they are the same, `dup2` would leave the descriptor to be
    // closed, so the flag is taken off instead.
    unsafe {
        if from == number {
            checked(libc::fcntl(from, libc::F_SETFD, 0).into())?;
        } else {
            checked(libc::dup2(from, number).into())?;
        }
    }
    Ok(())
}

/// Closes every descriptor from one number to another.
pub(crate) fn close_between(first: u32, last: u32) {
    // SAFETY: what owns those descriptors is never used again: the caller is about to serve, with
    // none but the first three and those that it keeps above.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Brings the loopback interface of a new network up.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: an ifreq is plain bytes, of which the name ends in zeros; the socket is ours, and is
    // closed by its owner.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        checked(socket.into())?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed();
        request.ifr_name[1] = b'o'.cast_signed();
        #[expect(clippy::cast_possible_truncation, reason = "the flags are two small bits")]
        {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        }
        checked(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request).into())?;
    }
    Ok(())
}

/// Mixes bytes into the kernel's randomness and has it start from them anew.
pub(crate) fn reseed_kernel(entropy: &[u8]) -> io::Result<()> {
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
    const RNDRESEEDCRNG: libc::c_ulong = 0x5207;
    let device = std::fs::OpenOptions::new().write(true).open("/dev/urandom")?;
    // What the kernel reads: the bits it may count, the length, the bytes.
    let length = i32::try_from(entropy.len()).map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(8 + entropy.len());
    message.extend_from_slice(&(length * 8).to_ne_bytes());
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(entropy);
    // SAFETY: the buffer is laid out as the call wants it, and holds as many bytes as it says.
    unsafe {
        checked(libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, message.as_ptr()).into())?;
        checked(libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG).into())?;
    }
    Ok(())
}

/// Sets the clock.
pub(crate) fn set_clock(unix_nanos: u64) -> io::Result<()> {
    let (seconds, nanos) = (unix_nanos / 1_000_000_000, unix_nanos % 1_000_000_000);
    let time = libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanos.cast_signed() };
    // SAFETY: the pointer is to a whole timespec that lives through the call.
    checked(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) }.into())?;
    Ok(())
}

/// Has this process not interrupt others when there is something for it to do: with one processor for
/// all, it would do so for every byte that they write. What it starts is as any other.
pub(crate) fn yield_to_programs() -> io::Result<()> {
    let ordinary = libc::sched_param { sched_priority: 0 };
    let policy = libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to a whole sched_param that lives through the call.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const ordinary) }.into())?;
    Ok(())
}

/// Adds a module to the kernel.
pub(crate) fn load_module(file: impl AsFd) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the arguments are an empty C string, and the descriptor is open through the call.
    checked(unsafe { libc::syscall(libc::SYS_finit_module, fd, c"".as_ptr(), 0) })?;
    Ok(())
}

/// What this processor has counted since it began.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> Option<u64> {
    // SAFETY: every processor of this kind has the instruction, and nobody takes it from programs.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

/// Other processors do not need to be asked.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> Option<u64> {
    None
}

/// Waits for a child to end. `false` when there is none left.
pub(crate) fn wait_any() -> bool {
    // SAFETY: no pointer but null is given.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) > 0 }
}

/// Which of Landlock's rules this kernel knows; 0 for none.
pub(crate) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    let nothing: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag the call reads no memory, and only answers with a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Makes the groups that this process is in the root of all it sees of them.
pub(crate) fn hide_groups() -> io::Result<()> {
    // SAFETY: it takes a number, and changes nothing that memory safety rests on.
    checked(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())?;
    Ok(())
}

/// Lays a filter of system calls on this process. It may never get new rights from then on.
pub(crate) fn lay_on_filter(words: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(words.len()).map_err(io::Error::other)?,
        // The kernel only reads it.
        filter: words.as_ptr().cast_mut(),
    };
    // SAFETY: the program and the words it points to live through the call, and are as many as it says.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

//! Safe wrappers for system calls that neither std nor rustix wraps.
#![expect(
    unsafe_code,
    reason = "these system calls have no safe wrapper; each block states why it is sound"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Process id.
pub(crate) type Pid = libc::pid_t;

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks this process into new namespaces, and into a cgroup v2 if one is given. Returns `None` in the child.
///
/// Creating a process inside a cgroup is fast; moving an existing process waits for all CPUs.
pub(crate) fn clone_into_namespaces(
    flags: libc::c_int,
    group: Option<&File>,
) -> io::Result<Option<Pid>> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: `clone_args` consists of integers, for which all zeros is valid and means "not set".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = u64::from(flags.cast_unsigned());
    arguments.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    if let Some(group) = group {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
    }
    // SAFETY: without CLONE_VM this is a fork: the child has a copy of the whole address space, and
    // as the process has one thread, no lock can be held by another thread. The size is that of `clone_args`.
    let pid = checked(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    })?;
    Ok(Pid::try_from(pid).ok().filter(|pid| *pid != 0))
}

/// Sets attributes of a mount, such as read-only. With `recursive`, also sets them on all mounts below it.
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

/// Runs file operations with the file-system user id `user`, and then restores the id of root. If `user` is `None`,
/// runs the file operations with the current id.
pub(crate) fn as_user<T>(user: Option<u32>, act: impl FnOnce() -> T) -> T {
    let Some(user) = user else { return act() };
    let touch_files_as = |user| {
        // SAFETY: both calls take only integers. If they fail, they change nothing, which leaves this process
        // with fewer rights on the program's files, never with more.
        unsafe {
            libc::setfsgid(user);
            libc::setfsuid(user);
        }
    };
    // The kernel resets the parent death signal and the dumpable flag when a process changes its user, even if it
    // changes only its file-system user.
    let death = rustix::process::parent_process_death_signal().ok().flatten();
    let dumpable = rustix::process::dumpable_behavior().ok();
    touch_files_as(user);
    let result = act();
    touch_files_as(0);
    if let Some(signal) = death {
        let _ = rustix::process::set_parent_process_death_signal(Some(signal));
    }
    if let Some(dumpable) = dumpable {
        let _ = rustix::process::set_dumpable_behavior(dumpable);
    }
    result
}

/// Blocks SIGCHLD and returns a descriptor that is readable when a child has ended.
pub(crate) fn children_signal() -> io::Result<OwnedFd> {
    // SAFETY: `sigemptyset` initialises the set before it is used, and the set outlives the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        checked(fd.into())?;
        // SAFETY: `signalfd` just returned this descriptor, and nothing else owns it.
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Unblocks all signals, as programs expect.
pub(crate) fn unblock_signals() {
    // SAFETY: `sigemptyset` initialises the set before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Exit status and memory use of a child process that has ended.
pub(crate) struct Reaped {
    pub(crate) pid: Pid,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Peak resident size of the child or, if larger, of a descendant that it waited for.
    pub(crate) peak_bytes: u64,
}

/// Reaps one child process that has ended, if there is one.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: both pointers are to values that outlive the call; `rusage` consists of integers.
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

/// Sends a signal to a process, to a process group (negative `pid`), or to all processes (-1).
pub(crate) fn kill(pid: Pid, signal: i32) -> bool {
    // SAFETY: `kill` takes only integers.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// Registers a function that runs in the child process just before `exec`.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the process that forks has one thread, so the child may allocate and take locks.
    unsafe { command.pre_exec(prepare) };
}

/// Duplicates a descriptor to a fixed number, at which it stays open after `exec`.
pub(crate) fn give_as(fd: impl AsFd, number: i32) -> io::Result<()> {
    let from = fd.as_fd().as_raw_fd();
    // SAFETY: the calls take only integers. With equal numbers, `dup2` would keep close-on-exec, so clear it.
    unsafe {
        if from == number {
            checked(libc::fcntl(from, libc::F_SETFD, 0).into())?;
        } else {
            checked(libc::dup2(from, number).into())?;
        }
    }
    Ok(())
}

/// Closes all descriptors from `first` to `last`, inclusive.
pub(crate) fn close_between(first: u32, last: u32) {
    // SAFETY: the owners of those descriptors are never used again: the caller continues with only the
    // standard descriptors and those outside the range.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// Activates the loopback interface of a new network namespace.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: `ifreq` is valid as zeros, its name stays zero-terminated, and the new socket has one owner.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        checked(socket.into())?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = libc::c_char::from_ne_bytes([b'l']);
        request.ifr_name[1] = libc::c_char::from_ne_bytes([b'o']);
        #[expect(clippy::cast_possible_truncation, reason = "the interface flags fit into 16 bits")]
        {
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        }
        checked(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request).into())?;
    }
    Ok(())
}

/// Adds entropy to the kernel's random generator and reseeds it.
pub(crate) fn reseed_kernel(entropy: &[u8]) -> io::Result<()> {
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
    const RNDRESEEDCRNG: libc::c_ulong = 0x5207;
    let device = std::fs::OpenOptions::new().write(true).open("/dev/urandom")?;
    // Layout of `struct rand_pool_info`: entropy in bits, length in bytes, data.
    let length = i32::try_from(entropy.len()).map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(8 + entropy.len());
    message.extend_from_slice(&(length * 8).to_ne_bytes());
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(entropy);
    // SAFETY: the buffer has the layout that the call expects, and holds as many bytes as its length field states.
    unsafe {
        checked(libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, message.as_ptr()).into())?;
        checked(libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG).into())?;
    }
    Ok(())
}

/// Sets the system clock.
pub(crate) fn set_clock(unix_nanos: u64) -> io::Result<()> {
    let (seconds, nanos) = (unix_nanos / 1_000_000_000, unix_nanos % 1_000_000_000);
    let time = libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: nanos.cast_signed() };
    // SAFETY: the pointer is to an initialised `timespec` that outlives the call.
    checked(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) }.into())?;
    Ok(())
}

/// Sets the batch scheduling policy for this process, so that it does not preempt programs when it wakes up. On a
/// single CPU, it would otherwise preempt programs for every byte that they write. Child processes get the default
/// policy.
pub(crate) fn yield_to_programs() -> io::Result<()> {
    let ordinary = libc::sched_param { sched_priority: 0 };
    let policy = libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to an initialised `sched_param` that outlives the call.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const ordinary) }.into())?;
    Ok(())
}

/// Loads a kernel module.
pub(crate) fn load_module(file: impl AsFd) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the module parameters are an empty C string, and the descriptor stays open during the call.
    checked(unsafe { libc::syscall(libc::SYS_finit_module, fd, c"".as_ptr(), 0) })?;
    Ok(())
}

/// Reads the CPU's time-stamp counter.
#[cfg(target_arch = "x86_64")]
pub(crate) fn read_tsc() -> Option<u64> {
    // SAFETY: every x86-64 CPU has the instruction, and the kernel does not disable it for programs.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

/// Returns `None`, because the time-stamp counter is needed only on x86-64.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn read_tsc() -> Option<u64> {
    None
}

/// Waits for a child to end. Returns `false` if no child is left.
pub(crate) fn wait_any() -> bool {
    // SAFETY: the only pointer is null, which the call allows.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) > 0 }
}

/// Landlock ABI version of this kernel; 0 if it has no Landlock.
pub(crate) fn landlock_version() -> u32 {
    const VERSION: u32 = 1;
    let attributes: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag the call reads no memory and only returns a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes, 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Creates a cgroup namespace for this process, whose current cgroups become the root of the namespace.
pub(crate) fn create_cgroup_namespace() -> io::Result<()> {
    // SAFETY: `unshare` takes only an integer and does not affect memory safety.
    checked(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())?;
    Ok(())
}

/// Installs a seccomp filter on this process. Requires `no_new_privs`.
pub(crate) fn install_seccomp_filter(words: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(words.len()).map_err(io::Error::other)?,
        // The cast is sound, because the kernel only reads the instructions.
        filter: words.as_ptr().cast_mut(),
    };
    // SAFETY: the program and its instructions outlive the call, and `len` is their number.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

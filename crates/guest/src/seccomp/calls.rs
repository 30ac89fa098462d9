//! Lists of allowed and conditionally allowed system calls.

use libc::*;

use super::{ArgumentCheck, SyscallAction};

/// System calls that are allowed with any arguments, grouped by the kind of program that needs them.
#[rustfmt::skip]
pub(super) const ALLOWED: &[&[c_long]] = &[
    // System calls for reading, writing and waiting, which every program needs.
    &[
        SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv,
        SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup,
        SYS_dup3, SYS_flock, SYS_pipe2, SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl,
        SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2, SYS_signalfd4, SYS_sendfile, SYS_splice,
        SYS_tee, SYS_copy_file_range,
    ],
    // System calls for files and folders. The mounts and Landlock determine which files a program can reach.
    &[
        SYS_openat, SYS_openat2, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs,
        SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_faccessat, SYS_faccessat2,
        SYS_readlinkat, SYS_mkdirat, SYS_unlinkat, SYS_symlinkat, SYS_linkat, SYS_renameat,
        SYS_renameat2, SYS_mknodat, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fchmod,
        SYS_fchmodat, SYS_FCHMODAT2, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_umask,
        SYS_fadvise64, SYS_readahead, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_setxattr,
        SYS_lsetxattr, SYS_fsetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr,
        SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    ],
    // System calls for memory, which the loader, allocators and just-in-time compilers need.
    &[
        SYS_brk, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_mincore, SYS_mlock,
        SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_pkey_alloc,
        SYS_pkey_free, SYS_pkey_mprotect, SYS_get_mempolicy,
    ],
    // System calls for processes and threads, which shells and Python's `subprocess` and `multiprocessing` need.
    // `clone` is in the conditional list.
    &[
        SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill,
        SYS_tkill, SYS_tgkill, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_getpid, SYS_getppid,
        SYS_gettid, SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_set_tid_address,
        SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_futex, SYS_FUTEX_WAITV,
        SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler,
        SYS_sched_getattr, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
        SYS_sched_rr_get_interval, SYS_getpriority, SYS_prctl, SYS_getrlimit, SYS_getrusage,
        SYS_times, SYS_getcpu,
    ],
    // System calls for signals and timers.
    &[
        SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending,
        SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
        SYS_sigaltstack, SYS_restart_syscall, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime,
        SYS_clock_getres, SYS_gettimeofday, SYS_getitimer, SYS_setitimer, SYS_timer_create,
        SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete,
        SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
    ],
    // System calls for user and group ids. The kernel refuses a change, because no other user is mapped or permitted.
    &[
        SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid,
        SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
        SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capget, SYS_capset,
    ],
    // System calls for communication between processes of the sandbox. `socket` and `socketpair` are in the conditional
    // list.
    &[
        SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_getsockname,
        SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
        SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_shutdown, SYS_shmat, SYS_shmdt, SYS_shmctl,
        SYS_semop, SYS_semtimedop, SYS_semctl, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open,
        SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
    ],
    // System calls for system information and randomness.
    &[
        SYS_uname, SYS_sysinfo, SYS_getrandom,
    ],
    // System calls of programs that sandbox themselves further.
    &[
        SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    ],
];

/// Legacy system calls that older libraries still use; they exist on x86-64 only.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_OLD: &[c_long] = &[
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rmdir,
    SYS_unlink, SYS_symlink, SYS_link, SYS_rename, SYS_mknod, SYS_chmod, SYS_chown, SYS_lchown,
    SYS_utime, SYS_utimes, SYS_futimesat, SYS_getdents, SYS_pipe, SYS_dup2, SYS_poll, SYS_select,
    SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_signalfd, SYS_fork, SYS_vfork, SYS_getpgrp,
    SYS_alarm, SYS_pause, SYS_time, SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_OLD: &[c_long] = &[];

const SYS_FCHMODAT2: c_long = 452;
const SYS_FUTEX_WAITV: c_long = 449;

/// Flags of `clone` that create namespaces, in which a program would have all capabilities.
const NAMESPACES: u32 = (CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
    | 0x80) // CLONE_NEWTIME
    .cast_unsigned();

/// Allowed socket types and flags.
const SOCKET_TYPES: i32 = SOCK_STREAM | SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// `ioctl` requests on bridges and VLANs, which make the host's kernel load a module.
const LOADS_MODULES: [u32; 6] = [0x8940, 0x8941, 0x89a0, 0x89a1, 0x8982, 0x8983];

/// Allows only memory mappings that the memory watch (the guest agent's own check of the memory limit) can count:
/// private mappings and mappings of files, without huge pages. Shared anonymous mappings are refused, because their
/// pages can stay in memory although no process maps them (after `MADV_DONTNEED`, or if a process unmaps all pages but
/// one).
fn visible_mappings() -> SyscallAction {
    let without = |flag: i32| ArgumentCheck::Without(3, flag.cast_unsigned());
    let ordinary_pages = || without(MAP_HUGETLB);
    SyscallAction::If(vec![
        vec![ordinary_pages(), without(MAP_SHARED)],
        vec![ordinary_pages(), without(MAP_ANONYMOUS)],
    ])
}

/// Returns the system calls that are allowed only with certain arguments. With `all_in_sight`, the arguments must not
/// request memory that the memory watch (the guest agent's own check of the memory limit) cannot count.
pub(super) fn conditional(all_in_sight: bool) -> Vec<(c_long, SyscallAction)> {
    use ArgumentCheck::{Is, IsNot, UpperIs, Without};
    let number = |number: i32| number.cast_unsigned();
    let all = |checks: Vec<ArgumentCheck>| SyscallAction::If(vec![checks]);
    // Only Unix, TCP and UDP sockets are allowed: no kernel interfaces (netlink, packet, crypto, vsock), and no
    // families for which the kernel would load a module.
    let local = vec![Is(0, number(AF_UNIX))];
    let mut sockets = vec![local.clone()];
    for family in [AF_INET, AF_INET6] {
        for protocol in [IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP] {
            let plain = Without(1, !number(SOCKET_TYPES));
            sockets.push(vec![Is(0, number(family)), plain, Is(2, number(protocol))]);
        }
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel reads only 32 bits of the request"
    )]
    let typing = [TIOCSTI, TIOCLINUX, TIOCSETD].map(|request| IsNot(1, request as u32));
    let loading = LOADS_MODULES.map(|request| IsNot(1, request));
    let core = RLIMIT_CORE;
    let ordinary_pages = Without(3, number(MAP_HUGETLB));
    let mut calls = vec![
        // New processes and threads are allowed, new namespaces are not. A filter cannot read the flags of `clone3`,
        // which are in memory. Libraries fall back to `clone` if `clone3` is not implemented.
        (SYS_clone, all(vec![Without(0, NAMESPACES)])),
        (SYS_clone3, SyscallAction::Missing),
        (SYS_socket, SyscallAction::If(sockets)),
        (SYS_socketpair, SyscallAction::If(vec![local])),
        // File leases and change notifications are denied: files are shared with the host, so a program could observe
        // or block host processes. inotify is denied for the same reason.
        (SYS_fcntl, all(vec![IsNot(1, number(F_SETLEASE)), IsNot(1, number(F_NOTIFY))])),
        // Input injection into terminals is denied, and every request that makes the host load a kernel module.
        (SYS_ioctl, all(typing.into_iter().chain(loading).collect())),
        // A program may only read its execution domain, or set the default domain.
        (SYS_personality, SyscallAction::If(vec![vec![Is(0, 0)], vec![Is(0, u32::MAX)]])),
        // Huge pages are denied, because the host reserves them.
        (SYS_mmap, if all_in_sight { visible_mappings() } else { all(vec![ordinary_pages]) }),
        (SYS_memfd_create, all(vec![Without(1, MFD_HUGETLB)])),
        // These calls report success without syncing: programs write to tmpfs, and a sync would wait for the host's
        // disks.
        (SYS_sync, SyscallAction::Nothing),
        (SYS_syncfs, SyscallAction::Nothing),
        (SYS_sync_file_range, SyscallAction::Nothing),
        (SYS_fsync, SyscallAction::Nothing),
        (SYS_fdatasync, SyscallAction::Nothing),
        (SYS_msync, SyscallAction::Nothing),
        // A program must not change its core dump limit; `confine.rs` explains the value of the limit.
        (SYS_setrlimit, all(vec![IsNot(0, core)])),
        (
            SYS_prlimit64,
            SyscallAction::If(vec![
                vec![IsNot(0, 1), IsNot(1, core)],
                vec![IsNot(0, 1), Is(2, 0), UpperIs(2, 0)],
            ]),
        ),
        (SYS_setpriority, all(vec![Is(0, PRIO_PROCESS), IsNot(1, 1)])),
    ];
    // These calls are allowed for every process except PID 1, the guest agent, which may run as the same user.
    let not_of_init =
        [SYS_sched_setaffinity, SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_setattr];
    if all_in_sight {
        // The memory watch does not see the memory of a memfd that is not mapped.
        calls.retain(|(call, _)| *call != SYS_memfd_create);
    }
    // The memory watch does not see System V IPC objects, which belong to no process, or memory that `vmsplice` moves
    // into a pipe.
    let out_of_sight = [SYS_shmget, SYS_semget, SYS_msgget, SYS_vmsplice];
    let verdict = if all_in_sight { SyscallAction::Missing } else { SyscallAction::Allowed };
    calls.extend(out_of_sight.map(|call| (call, verdict.clone())));
    calls.extend(not_of_init.map(|call| (call, all(vec![IsNot(0, 1)]))));
    calls
}

//! Which system calls there are, and who needs them.

use libc::*;

use super::{Check, Verdict};

/// Each group says who needs it.
#[rustfmt::skip]
pub(super) const ALLOWED: &[&[c_long]] = &[
    // Reading, writing, waiting: every program.
    &[
        SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv,
        SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup,
        SYS_dup3, SYS_flock, SYS_pipe2, SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl,
        SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2, SYS_signalfd4, SYS_sendfile, SYS_splice,
        SYS_tee, SYS_copy_file_range,
    ],
    // Files and folders. What can be reached was decided by the mounts, and by Landlock after them.
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
    // Memory: the loader, allocators, just-in-time compilers.
    &[
        SYS_brk, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_mincore, SYS_mlock,
        SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_pkey_alloc,
        SYS_pkey_free, SYS_pkey_mprotect, SYS_get_mempolicy,
    ],
    // Processes and threads: `subprocess`, `multiprocessing`, shells. `clone` is below.
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
    // Signals and timers.
    &[
        SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending,
        SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
        SYS_sigaltstack, SYS_restart_syscall, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime,
        SYS_clock_getres, SYS_gettimeofday, SYS_getitimer, SYS_setitimer, SYS_timer_create,
        SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete,
        SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
    ],
    // Who one is. Becoming somebody else is refused by the kernel: there is nobody else.
    &[
        SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid,
        SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
        SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capget, SYS_capset,
    ],
    // Talking to other processes of the sandbox; which kinds of sockets there are is below.
    &[
        SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_getsockname,
        SYS_getpeername, SYS_getsockopt, SYS_setsockopt, SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
        SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_shutdown, SYS_shmat, SYS_shmdt, SYS_shmctl,
        SYS_semop, SYS_semtimedop, SYS_semctl, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open,
        SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
    ],
    // What machine this is, and randomness.
    &[
        SYS_uname, SYS_sysinfo, SYS_getrandom,
    ],
    // Confining oneself further.
    &[
        SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    ],
];

/// What older libraries still use where the processor has it.
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

/// New namespaces, in which a program would be its own master.
const NAMESPACES: u32 = (CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
    | 0x80) // CLONE_NEWTIME
    .cast_unsigned();

/// Streams, datagrams, and what may be said with them: not to be waited for, to be closed.
const KINDS: i32 = SOCK_STREAM | SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// What is asked of bridges and virtual networks, for which the kernel looks for a module.
const LOADS_MODULES: [u32; 6] = [0x8940, 0x8941, 0x89a0, 0x89a1, 0x8982, 0x8983];

/// Mappings that the watch over memory sees: private ones, and those of files. A page of a shared anonymous mapping stays in
/// memory when no process shows it any more (`MADV_DONTNEED`, or all but one page unmapped).
fn visible_mappings() -> Verdict {
    let without = |flag: i32| Check::Without(3, flag.cast_unsigned());
    let ordinary_pages = || without(MAP_HUGETLB);
    Verdict::If(vec![
        vec![ordinary_pages(), without(MAP_SHARED)],
        vec![ordinary_pages(), without(MAP_ANONYMOUS)],
    ])
}

/// Those that depend on what they are asked to do.
pub(super) fn conditional(all_in_sight: bool) -> Vec<(c_long, Verdict)> {
    use Check::{Is, IsNot, UpperIs, Without};
    let number = |number: i32| number.cast_unsigned();
    let all = |checks: Vec<Check>| Verdict::If(vec![checks]);
    // Sockets within the sandbox. The kernel's own (netlink, packets, crypto, machines) are not, nor
    // are protocols that a program would have the host load.
    let local = vec![Is(0, number(AF_UNIX))];
    let mut sockets = vec![local.clone()];
    for family in [AF_INET, AF_INET6] {
        for protocol in [IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP] {
            let plain = Without(1, !number(KINDS));
            sockets.push(vec![Is(0, number(family)), plain, Is(2, number(protocol))]);
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of it")]
    let typing = [TIOCSTI, TIOCLINUX, TIOCSETD].map(|request| IsNot(1, request as u32));
    let loading = LOADS_MODULES.map(|request| IsNot(1, request));
    let core = RLIMIT_CORE;
    let ordinary_pages = Without(3, number(MAP_HUGETLB));
    let mut calls = vec![
        // New processes and threads, not new namespaces; of the newer call a filter cannot read the
        // flags, and libraries use this one when it is not there.
        (SYS_clone, all(vec![Without(0, NAMESPACES)])),
        (SYS_clone3, Verdict::Missing),
        (SYS_socket, Verdict::If(sockets)),
        (SYS_socketpair, Verdict::If(vec![local])),
        // Everything about descriptors but to be told when others use a file, or to make them wait
        // for it: files are shared with the host. For the same reason there is no inotify.
        (SYS_fcntl, all(vec![IsNot(1, number(F_SETLEASE)), IsNot(1, number(F_NOTIFY))])),
        // Devices and terminals, but not typing into one; sockets, but not having the host load what
        // they might be about.
        (SYS_ioctl, all(typing.into_iter().chain(loading).collect())),
        // Asking for the execution domain, or setting the plain one.
        (SYS_personality, Verdict::If(vec![vec![Is(0, 0)], vec![Is(0, u32::MAX)]])),
        // Memory, but none of the pages that the host has put aside.
        (SYS_mmap, if all_in_sight { visible_mappings() } else { all(vec![ordinary_pages]) }),
        (SYS_memfd_create, all(vec![Without(1, MFD_HUGETLB)])),
        // What is written is in memory; waiting for the host's disks is of no use to anyone.
        (SYS_sync, Verdict::Nothing),
        (SYS_syncfs, Verdict::Nothing),
        (SYS_sync_file_range, Verdict::Nothing),
        (SYS_fsync, Verdict::Nothing),
        (SYS_fdatasync, Verdict::Nothing),
        (SYS_msync, Verdict::Nothing),
        // What becomes of a crash is not a program's to say: see where its limit is set.
        (SYS_setrlimit, all(vec![IsNot(0, core)])),
        (
            SYS_prlimit64,
            Verdict::If(vec![
                vec![IsNot(0, 1), IsNot(1, core)],
                vec![IsNot(0, 1), Is(2, 0), UpperIs(2, 0)],
            ]),
        ),
        (SYS_setpriority, all(vec![Is(0, PRIO_PROCESS), IsNot(1, 1)])),
    ];
    // Limits and priorities, but not the guest's, which may have the same user.
    let of_others =
        [SYS_sched_setaffinity, SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_setattr];
    if all_in_sight {
        // Files without a place, which no watch can see.
        calls.retain(|(call, _)| *call != SYS_memfd_create);
    }
    // Nor what belongs to no process, or to a pipe.
    let out_of_sight = [SYS_shmget, SYS_semget, SYS_msgget, SYS_vmsplice];
    let verdict = if all_in_sight { Verdict::Missing } else { Verdict::Allowed };
    calls.extend(out_of_sight.map(|call| (call, verdict.clone())));
    calls.extend(of_others.map(|call| (call, all(vec![IsNot(0, 1)]))));
    calls
}

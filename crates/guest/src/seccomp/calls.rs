//! Which system calls there are, and who needs them.

use libc::c_long;

use super::{Check, Verdict};

/// Each group says who needs it.
#[rustfmt::skip]
pub(super) const ALLOWED: &[&[c_long]] = &[
    // Reading, writing, waiting: every program.
    &[
        libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64,
        libc::SYS_pwrite64, libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2,
        libc::SYS_pwritev2, libc::SYS_lseek, libc::SYS_close, libc::SYS_close_range, libc::SYS_dup,
        libc::SYS_dup3, libc::SYS_flock, libc::SYS_pipe2, libc::SYS_ppoll, libc::SYS_pselect6,
        libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2,
        libc::SYS_eventfd2, libc::SYS_signalfd4, libc::SYS_sendfile, libc::SYS_splice,
        libc::SYS_tee, libc::SYS_copy_file_range,
    ],
    // Files and folders. What can be reached was decided by the mounts, and by Landlock after them.
    &[
        libc::SYS_openat, libc::SYS_openat2, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx,
        libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getdents64, libc::SYS_getcwd,
        libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_faccessat, libc::SYS_faccessat2,
        libc::SYS_readlinkat, libc::SYS_mkdirat, libc::SYS_unlinkat, libc::SYS_symlinkat,
        libc::SYS_linkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_mknodat,
        libc::SYS_truncate, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_fchmod,
        libc::SYS_fchmodat, SYS_FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat,
        libc::SYS_utimensat, libc::SYS_umask,
        libc::SYS_fadvise64, libc::SYS_readahead, libc::SYS_getxattr, libc::SYS_lgetxattr,
        libc::SYS_fgetxattr, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr,
        libc::SYS_listxattr, libc::SYS_llistxattr, libc::SYS_flistxattr, libc::SYS_removexattr,
        libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    ],
    // Memory: the loader, allocators, just-in-time compilers.
    &[
        libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
        libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock,
        libc::SYS_mlockall, libc::SYS_munlockall, libc::SYS_membarrier, libc::SYS_pkey_alloc,
        libc::SYS_pkey_free, libc::SYS_pkey_mprotect, libc::SYS_get_mempolicy,
    ],
    // Processes and threads: `subprocess`, `multiprocessing`, shells. `clone` is below.
    &[
        libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4,
        libc::SYS_waitid, libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid,
        libc::SYS_getpgid, libc::SYS_setpgid, libc::SYS_getsid, libc::SYS_setsid,
        libc::SYS_set_tid_address, libc::SYS_set_robust_list, libc::SYS_get_robust_list,
        libc::SYS_rseq, libc::SYS_futex, SYS_FUTEX_WAITV, libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
        libc::SYS_sched_getattr, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
        libc::SYS_sched_rr_get_interval, libc::SYS_getpriority, libc::SYS_prctl,
        libc::SYS_getrlimit, libc::SYS_getrusage, libc::SYS_times,
        libc::SYS_getcpu,
    ],
    // Signals and timers.
    &[
        libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigpending, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait,
        libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sigaltstack,
        libc::SYS_restart_syscall, libc::SYS_nanosleep, libc::SYS_clock_nanosleep,
        libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday,
        libc::SYS_getitimer, libc::SYS_setitimer, libc::SYS_timer_create, libc::SYS_timer_settime,
        libc::SYS_timer_gettime, libc::SYS_timer_getoverrun, libc::SYS_timer_delete,
        libc::SYS_timerfd_create, libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime,
    ],
    // Who one is. Becoming somebody else is refused by the kernel: there is nobody else.
    &[
        libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid,
        libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_setuid,
        libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid, libc::SYS_setresuid,
        libc::SYS_setresgid, libc::SYS_setfsuid, libc::SYS_setfsgid, libc::SYS_setgroups,
        libc::SYS_capget, libc::SYS_capset,
    ],
    // Talking to other processes of the sandbox; which kinds of sockets there are is below.
    &[
        libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4, libc::SYS_connect,
        libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_getsockopt, libc::SYS_setsockopt,
        libc::SYS_sendto, libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_recvfrom,
        libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_shutdown,
        libc::SYS_shmat, libc::SYS_shmdt, libc::SYS_shmctl, libc::SYS_semop,
        libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_msgsnd,
        libc::SYS_msgrcv, libc::SYS_msgctl, libc::SYS_mq_open, libc::SYS_mq_unlink,
        libc::SYS_mq_timedsend, libc::SYS_mq_timedreceive, libc::SYS_mq_notify,
        libc::SYS_mq_getsetattr,
    ],
    // What machine this is, and randomness.
    &[libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getrandom],
    // Confining oneself further.
    &[
        libc::SYS_seccomp, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ],
];

/// What older libraries still use where the processor has it.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_OLD: &[c_long] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access,
    libc::SYS_readlink, libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_symlink,
    libc::SYS_link, libc::SYS_rename, libc::SYS_mknod, libc::SYS_chmod, libc::SYS_chown,
    libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_getdents,
    libc::SYS_pipe, libc::SYS_dup2, libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_create,
    libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_signalfd, libc::SYS_fork, libc::SYS_vfork,
    libc::SYS_getpgrp, libc::SYS_alarm, libc::SYS_pause, libc::SYS_time, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_OLD: &[c_long] = &[];

const SYS_FCHMODAT2: c_long = 452;
const SYS_FUTEX_WAITV: c_long = 449;

/// New namespaces, in which a program would be its own master.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | 0x80) // CLONE_NEWTIME
    .cast_unsigned();

/// Streams, datagrams, and what may be said with them: not to be waited for, to be closed.
const KINDS: i32 = libc::SOCK_STREAM | libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

/// What is asked of bridges and virtual networks, for which the kernel looks for a module.
const LOADS_MODULES: [u32; 6] = [0x8940, 0x8941, 0x89a0, 0x89a1, 0x8982, 0x8983];

/// Mappings that the watch over memory sees: private ones, and those of files. A page of a shared anonymous mapping stays in
/// memory when no process shows it any more (`MADV_DONTNEED`, or all but one page unmapped).
fn visible_mappings() -> Verdict {
    let without = |flag: i32| Check::Without(3, flag.cast_unsigned());
    let ordinary_pages = || without(libc::MAP_HUGETLB);
    Verdict::If(vec![
        vec![ordinary_pages(), without(libc::MAP_SHARED)],
        vec![ordinary_pages(), without(libc::MAP_ANONYMOUS)],
    ])
}

/// Those that depend on what they are asked to do.
pub(super) fn conditional(all_in_sight: bool) -> Vec<(c_long, Verdict)> {
    use Check::{Is, IsNot, UpperIs, Without};
    let number = |number: i32| number.cast_unsigned();
    let all = |checks: Vec<Check>| Verdict::If(vec![checks]);
    // Sockets within the sandbox. The kernel's own (netlink, packets, crypto, machines) are not, nor
    // are protocols that a program would have the host load.
    let local = vec![Is(0, number(libc::AF_UNIX))];
    let mut sockets = vec![local.clone()];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for protocol in [libc::IPPROTO_IP, libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            let plain = Without(1, !number(KINDS));
            sockets.push(vec![Is(0, number(family)), plain, Is(2, number(protocol))]);
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "the kernel takes no more of it")]
    let typing =
        [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD].map(|request| IsNot(1, request as u32));
    let loading = LOADS_MODULES.map(|request| IsNot(1, request));
    let core = libc::RLIMIT_CORE;
    let ordinary_pages = Without(3, number(libc::MAP_HUGETLB));
    let mut calls = vec![
        // New processes and threads, not new namespaces; of the newer call a filter cannot read the
        // flags, and libraries use this one when it is not there.
        (libc::SYS_clone, all(vec![Without(0, NAMESPACES)])),
        (libc::SYS_clone3, Verdict::Missing),
        (libc::SYS_socket, Verdict::If(sockets)),
        (libc::SYS_socketpair, Verdict::If(vec![local])),
        // Everything about descriptors but to be told when others use a file, or to make them wait
        // for it: files are shared with the host. For the same reason there is no inotify.
        (
            libc::SYS_fcntl,
            all(vec![IsNot(1, number(libc::F_SETLEASE)), IsNot(1, number(libc::F_NOTIFY))]),
        ),
        // Devices and terminals, but not typing into one; sockets, but not having the host load what
        // they might be about.
        (libc::SYS_ioctl, all(typing.into_iter().chain(loading).collect())),
        // Asking for the execution domain, or setting the plain one.
        (libc::SYS_personality, Verdict::If(vec![vec![Is(0, 0)], vec![Is(0, u32::MAX)]])),
        // Memory, but none of the pages that the host has put aside.
        (libc::SYS_mmap, if all_in_sight { visible_mappings() } else { all(vec![ordinary_pages]) }),
        (libc::SYS_memfd_create, all(vec![Without(1, libc::MFD_HUGETLB)])),
        // What is written is in memory; waiting for the host's disks is of no use to anyone.
        (libc::SYS_sync, Verdict::Nothing),
        (libc::SYS_syncfs, Verdict::Nothing),
        (libc::SYS_sync_file_range, Verdict::Nothing),
        (libc::SYS_fsync, Verdict::Nothing),
        (libc::SYS_fdatasync, Verdict::Nothing),
        (libc::SYS_msync, Verdict::Nothing),
        // What becomes of a crash is not a program's to say: see where its limit is set.
        (libc::SYS_setrlimit, all(vec![IsNot(0, core)])),
        (
            libc::SYS_prlimit64,
            Verdict::If(vec![
                vec![IsNot(0, 1), IsNot(1, core)],
                vec![IsNot(0, 1), Is(2, 0), UpperIs(2, 0)],
            ]),
        ),
        (libc::SYS_setpriority, all(vec![Is(0, libc::PRIO_PROCESS), IsNot(1, 1)])),
    ];
    // Limits and priorities, but not the guest's, which may have the same user.
    let of_others = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
    ];
    if all_in_sight {
        // Files without a place, which no watch can see.
        calls.retain(|(call, _)| *call != libc::SYS_memfd_create);
    }
    // Nor what belongs to no process, or to a pipe.
    let out_of_sight = [libc::SYS_shmget, libc::SYS_semget, libc::SYS_msgget, libc::SYS_vmsplice];
    let verdict = if all_in_sight { Verdict::Missing } else { Verdict::Allowed };
    calls.extend(out_of_sight.map(|call| (call, verdict.clone())));
    calls.extend(of_others.map(|call| (call, all(vec![IsNot(0, 1)]))));
    calls
}

//! The system calls that programs under trial may make: a list of what is allowed.
//!
//! What is not on it answers "operation not permitted", so that a program can say so. Calls that
//! newer libraries try first and know how to do without answer "not implemented", so that they do.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Each group says who needs it.
const ALLOWED: &[&[c_long]] = &[
    // Reading, writing, waiting: every program.
    &[
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_preadv,
        libc::SYS_pwritev,
        libc::SYS_preadv2,
        libc::SYS_pwritev2,
        libc::SYS_lseek,
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_fcntl,
        libc::SYS_flock,
        libc::SYS_pipe2,
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_eventfd2,
        libc::SYS_signalfd4,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_tee,
        libc::SYS_vmsplice,
        libc::SYS_copy_file_range,
    ],
    // Files and folders. What can be reached was decided by the mounts, and by Landlock after them.
    &[
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_statfs,
        libc::SYS_fstatfs,
        libc::SYS_getdents64,
        libc::SYS_getcwd,
        libc::SYS_chdir,
        libc::SYS_fchdir,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_readlinkat,
        libc::SYS_mkdirat,
        libc::SYS_unlinkat,
        libc::SYS_symlinkat,
        libc::SYS_linkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_mknodat,
        libc::SYS_truncate,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        SYS_FCHMODAT2,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_umask,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_sync_file_range,
        libc::SYS_syncfs,
        libc::SYS_sync,
        libc::SYS_fadvise64,
        libc::SYS_readahead,
        libc::SYS_getxattr,
        libc::SYS_lgetxattr,
        libc::SYS_fgetxattr,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_listxattr,
        libc::SYS_llistxattr,
        libc::SYS_flistxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        libc::SYS_inotify_init1,
        libc::SYS_inotify_add_watch,
        libc::SYS_inotify_rm_watch,
    ],
    // Memory: the loader, allocators, just-in-time compilers.
    &[
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_mincore,
        libc::SYS_msync,
        libc::SYS_mlock,
        libc::SYS_mlock2,
        libc::SYS_munlock,
        libc::SYS_mlockall,
        libc::SYS_munlockall,
        libc::SYS_membarrier,
        libc::SYS_memfd_create,
        libc::SYS_pkey_alloc,
        libc::SYS_pkey_free,
        libc::SYS_pkey_mprotect,
        libc::SYS_get_mempolicy,
    ],
    // Processes and threads: `subprocess`, `multiprocessing`, shells. `clone` is below.
    &[
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_wait4,
        libc::SYS_waitid,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_tgkill,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_gettid,
        libc::SYS_getpgid,
        libc::SYS_setpgid,
        libc::SYS_getsid,
        libc::SYS_setsid,
        libc::SYS_set_tid_address,
        libc::SYS_set_robust_list,
        libc::SYS_get_robust_list,
        libc::SYS_rseq,
        libc::SYS_futex,
        SYS_FUTEX_WAITV,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_getparam,
        libc::SYS_sched_setparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_getattr,
        libc::SYS_sched_setattr,
        libc::SYS_sched_get_priority_max,
        libc::SYS_sched_get_priority_min,
        libc::SYS_sched_rr_get_interval,
        libc::SYS_getpriority,
        libc::SYS_setpriority,
        libc::SYS_prctl,
        libc::SYS_prlimit64,
        libc::SYS_getrlimit,
        libc::SYS_setrlimit,
        libc::SYS_getrusage,
        libc::SYS_times,
        libc::SYS_getcpu,
    ],
    // Signals and timers.
    &[
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigpending,
        libc::SYS_rt_sigsuspend,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_gettimeofday,
        libc::SYS_getitimer,
        libc::SYS_setitimer,
        libc::SYS_timer_create,
        libc::SYS_timer_settime,
        libc::SYS_timer_gettime,
        libc::SYS_timer_getoverrun,
        libc::SYS_timer_delete,
        libc::SYS_timerfd_create,
        libc::SYS_timerfd_settime,
        libc::SYS_timerfd_gettime,
    ],
    // Who one is. Becoming somebody else is refused by the kernel: there is nobody else.
    &[
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_getresuid,
        libc::SYS_getresgid,
        libc::SYS_getgroups,
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_setgroups,
        libc::SYS_capget,
        libc::SYS_capset,
    ],
    // Talking to other processes of the sandbox; which kinds of sockets there are is below.
    &[
        libc::SYS_socketpair,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_shutdown,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmdt,
        libc::SYS_shmctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_semctl,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        libc::SYS_mq_timedsend,
        libc::SYS_mq_timedreceive,
        libc::SYS_mq_notify,
        libc::SYS_mq_getsetattr,
    ],
    // What machine this is, and randomness.
    &[libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getrandom],
    // Confining oneself further.
    &[
        libc::SYS_seccomp,
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ],
];

/// What older libraries still use where the processor has it.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_symlink,
    libc::SYS_link,
    libc::SYS_rename,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_getdents,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_inotify_init,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getpgrp,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

const SYS_FCHMODAT2: c_long = 452;
const SYS_FUTEX_WAITV: c_long = 449;

/// New namespaces, in which a program would be its own master.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | 0x80) as u64; // CLONE_NEWTIME

/// The filters, in the order in which they are laid on.
pub(crate) struct Filters(Vec<BpfProgram>);

impl Filters {
    pub(crate) fn new() -> Result<Filters, String> {
        let arch =
            TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
        let build = |rules: BTreeMap<_, _>, otherwise, action| {
            SeccompFilter::new(rules, otherwise, action, arch)
                .and_then(BpfProgram::try_from)
                .map_err(|error| error.to_string())
        };
        let rules = allowed().map_err(|error| error.to_string())?;
        let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        let list = build(rules, refuse, SeccompAction::Allow)?;
        // Laid on last, so its answer is the one that counts: a filter cannot read the flags of
        // `clone3`, and libraries use `clone` when it is not there.
        let without = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        let missing = build(without, SeccompAction::Allow, missing)?;
        Ok(Filters(vec![list, missing]))
    }

    /// Lays them on this process, for good.
    pub(crate) fn apply(&self) -> std::io::Result<()> {
        self.0
            .iter()
            .try_for_each(|filter| seccompiler::apply_filter(filter).map_err(std::io::Error::other))
    }
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn allowed() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED
        .iter()
        .copied()
        .chain([ALLOWED_OLD])
        .flatten()
        .map(|call| (*call, Vec::new()))
        .collect();
    let argument = |index, operator, value| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
    };
    // New processes and threads, not new namespaces.
    let same =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![same])?]);
    // Answered by the second filter.
    rules.insert(libc::SYS_clone3, Vec::new());
    // Sockets within the sandbox. The kernel's own (netlink, packets, crypto, machines) are not.
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
    let mut sockets = Vec::new();
    for family in families {
        let family = u64::from(family.cast_unsigned());
        sockets.push(SeccompRule::new(vec![argument(0, SeccompCmpOp::Eq, family)?])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    // Devices and terminals, but not typing into one.
    let mut no_typing = Vec::new();
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD] {
        no_typing.push(argument(1, SeccompCmpOp::Ne, request)?);
    }
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(no_typing)?]);
    // Asking for the execution domain, or setting the plain one.
    let mut domains = Vec::new();
    for domain in [0, 0xffff_ffff] {
        domains.push(SeccompRule::new(vec![argument(0, SeccompCmpOp::Eq, domain)?])?);
    }
    rules.insert(libc::SYS_personality, domains);
    Ok(rules)
}

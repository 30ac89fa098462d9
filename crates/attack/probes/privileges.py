

# Probes on privileges: other users, capabilities, namespaces.

NOWHERE = b"/nonexistent/by/design"
WRONG = 0x7FFF0000

# System calls with invalid arguments, so that each call fails even with all privileges.
CALLS = {
    "mount": ((b"none", NOWHERE, b"tmpfs", 0, 0), "mounts a file system"),
    "umount2": ((NOWHERE, 0), "unmounts a file system"),
    "pivot_root": ((NOWHERE, NOWHERE), "changes the root of all mounts"),
    "fsopen": ((0, 0), "mounts a file system with `fsopen`"),
    "open_tree": ((-100, NOWHERE, 0), "opens a mount with `open_tree`"),
    "setns": ((-1, 0), "joins a namespace"),
    "ptrace": ((0x4206, WRONG, 0, 0), "attaches to another process with `ptrace`"),
    "process_vm_writev": ((WRONG, 0, 0, 0, 0, 0), "writes to another process's memory"),
    "process_madvise": ((-1, 0, 0, 0, 0), "gives the kernel advice on another process's memory"),
    "move_pages": ((WRONG, 0, 0, 0, 0, 0), "moves another process's memory"),
    "kcmp": ((WRONG, WRONG, 0, 0, 0), "compares the kernel resources of two processes"),
    "bpf": ((WRONG, 0, 0), "loads a BPF program into the kernel"),
    "perf_event_open": ((0, 0, -1, -1, 0), "measures CPU performance events"),
    "userfaultfd": ((WRONG | 1,), "handles page faults of the kernel in user space"),
    "io_uring_setup": ((0, 0), "creates an io_uring, whose operations bypass system call filters"),
    "keyctl": ((WRONG, 0, 0, 0, 0), "uses the kernel keyring"),
    "add_key": ((0, 0, 0, 0, 0), "adds a key to the kernel keyring"),
    "request_key": ((0, 0, 0, 0), "requests a key from the kernel keyring"),
    "init_module": ((0, 0, 0), "loads a kernel module"),
    "finit_module": ((-1, 0, 0), "loads a kernel module from a file"),
    "delete_module": ((NOWHERE, 0), "removes a kernel module"),
    "kexec_load": ((0, 0, 0, WRONG), "loads another kernel"),
    "reboot": ((0, 0, 0, 0), "restarts the machine"),
    "swapon": ((NOWHERE, 0), "enables swap"),
    "acct": ((NOWHERE,), "enables process accounting"),
    "quotactl": ((0, NOWHERE, 0, 0), "changes disk quotas"),
    "fanotify_init": ((WRONG, 0), "watches file accesses of all processes"),
    "syslog": ((-1, 0, 0), "reads the kernel log"),
}
for _name, (_arguments, _description) in CALLS.items():
    probe(f"privileges/call-{_name.replace('_', '-')}", _description, syscall=True)(
        lambda given, name=_name, arguments=_arguments: answered(name, *arguments)
    )


@probe("privileges/become-root", "becomes root (user id 0)")
def become_root(given):
    os.setresuid(0, 0, 0)
    return os.geteuid() == 0


@probe("privileges/become-another", "becomes another user")
def become_another(given):
    return in_child(lambda: os.setresuid(12345, 12345, 12345) or b"another")


@probe("privileges/join-groups", "joins the root group (group id 0)")
def join_groups(given):
    return in_child(lambda: os.setgroups([0, 4, 6]) or b"joined")


def status(name):
    lines = read("/proc/self/status", 65536).decode().split("\n")
    return next(line.split(":")[1].strip() for line in lines if line.startswith(name + ":"))


@probe("privileges/rights", "has at least one Linux capability")
def rights(given):
    data = (ctypes.c_uint32 * 6)()
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capget(head, data):
        raise OSError(ctypes.get_errno(), "capget")
    return any(data), f"{list(data)}"


@probe("privileges/rights-to-be-had", "can gain a Linux capability by running a program (bounding set)")
def rights_to_be_had(given):
    had = [number for number in range(41) if libc.prctl(23, number, 0, 0, 0) == 1]
    return bool(had), f"{len(had)} capabilities"


@probe("privileges/new-privileges", "can gain privileges by running a program (`no_new_privs` is not set)")
def new_privileges(given):
    return libc.prctl(39, 0, 0, 0, 0) == 0


@probe("privileges/all-calls", "runs without a system call filter")
def all_calls(given):
    return libc.prctl(21, 0, 0, 0, 0) == 0


NAMESPACES = {
    "user": (0x10000000, "creates a user namespace, in which it is root"),
    "mount": (0x00020000, "creates a mount namespace"),
    "network": (0x40000000, "creates a network namespace"),
    "process": (0x20000000, "creates a PID namespace"),
    "time": (0x00000080, "creates a time namespace"),
}
for _name, (_flag, _description) in NAMESPACES.items():
    probe(f"privileges/{_name}-namespace", _description)(
        lambda given, flag=_flag: in_child(lambda: enter_namespaces(flag) or b"made")
    )


@probe("privileges/born-in-namespace", "starts a child as root of a new user namespace with `clone`")
def born_in_namespace(given):
    # Without a new stack, the child continues on a copy of this process's stack, as after a fork.
    if os.uname().machine != "x86_64":
        return in_child(lambda: must("unshare", 0x10000000) or b"made")

    def act():
        child = must("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return b"born"

    return in_child(act)


@probe("privileges/born-the-new-way", "starts a child as root of a new user namespace with `clone3`, whose flags no filter can read")
def born_the_new_way(given):
    def act():
        arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
        child = must("clone3", arguments, 88)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return b"born"

    return in_child(act)


@probe("privileges/join-namespace", "joins the network namespace of a host process")
def join_namespace(given):
    def act():
        must("setns", os.open(f"/proc/{given.victim['pid']}/ns/net", os.O_RDONLY), 0)
        return b"joined"

    return in_child(act)


@probe("privileges/device", "creates a device node and opens it")
def device(given):
    path = "device-" + given.mark
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    try:
        return opened(path, os.O_RDONLY)
    finally:
        os.unlink(path)


@probe("privileges/give-away", "creates a setuid file owned by root")
def give_away(given):
    path = "gift-" + given.mark
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o700))
    try:
        os.chown(path, 0, 0)
        os.chmod(path, 0o4755)
        made = os.stat(path)
        return made.st_uid == 0 and made.st_mode & stat.S_ISUID
    finally:
        os.unlink(path)


@probe("privileges/setuid-program", "runs a setuid-root program as root")
def setuid_program(given):
    tried = "no setuid program found"
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/lib/openssh"):
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, name)
            try:
                made = os.lstat(path)
            except OSError:
                continue
            if not (stat.S_ISREG(made.st_mode) and made.st_mode & stat.S_ISUID and made.st_uid == 0):
                continue
            quiet = os.open(os.devnull, os.O_RDWR)
            actions = [(os.POSIX_SPAWN_DUP2, quiet, descriptor) for descriptor in range(3)]
            child = os.posix_spawn(path, [path, "--help"], {}, file_actions=actions)
            os.close(quiet)
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            # The child is a zombie, which has its user ids until it is reaped.
            lines = read(f"/proc/{child}/status", 65536).decode().split("\n")
            users = next(line for line in lines if line.startswith("Uid:")).split()
            os.waitpid(child, 0)
            if "0" in users[2:4]:
                return True, path
            tried = f"{path} ran as {users[2]}"
    return False, tried


@probe("privileges/older-calls", "makes a system call through the 32-bit interface, which has other numbers")
def older_calls(given):
    if os.uname().machine != "x86_64":
        return False, "not available on this architecture"

    def act():
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # eax = getpid; int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return b"made" if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else b""

    return in_child(act)


@probe("privileges/other-calls", "makes a system call with the numbers of the x32 ABI")
def other_calls(given):
    return libc.syscall(ctypes.c_long(0x40000000 | 39)) == os.getpid()


@probe("privileges/no-randomness", "disables its own address space randomization")
def no_randomness(given):
    return in_child(lambda: b"had" if libc.personality(0x0040000) >= 0 else b"")


@probe("privileges/first-in-line", "gets real-time scheduling priority")
def first_in_line(given):
    def act():
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return b"first"

    return in_child(act)


@probe("privileges/better-priority", "raises its own scheduling priority")
def better_priority(given):
    return in_child(lambda: b"better" if os.nice(-5) is not None else b"")


@probe("privileges/rename-host", "sets the host name (to its current value)")
def rename_host(given):
    socket.sethostname(socket.gethostname())
    return True


@probe("privileges/signal-host", "sends a signal to a host process")
def signal_host(given):
    os.kill(given.victim["pid"], signal.SIGUSR1)
    return True


@probe("privileges/limit-host", "changes a resource limit of a host process")
def limit_host(given):
    resource.prlimit(given.victim["pid"], resource.RLIMIT_CORE, (0, 0))
    return True


@probe("privileges/slow-host", "lowers the scheduling priority of a host process")
def slow_host(given):
    os.setpriority(os.PRIO_PROCESS, given.spares[0], 10)
    return True



# Privileges: becoming somebody else, having rights, being one's own master.

NOWHERE = b"/nonexistent/by/design"
WRONG = 0x7FFF0000

# Each with arguments that the kernel can only refuse as wrong, whoever asks.
CALLS = {
    "mount": ((b"none", NOWHERE, b"tmpfs", 0, 0), "mounts a file system"),
    "umount2": ((NOWHERE, 0), "unmounts a file system"),
    "pivot_root": ((NOWHERE, NOWHERE), "changes the root of all mounts"),
    "fsopen": ((0, 0), "begins a mount the new way"),
    "open_tree": ((-100, NOWHERE, 0), "takes hold of a mount"),
    "setns": ((-1, 0), "joins a namespace"),
    "ptrace": ((0x4206, WRONG, 0, 0), "debugs another process"),
    "process_vm_writev": ((WRONG, 0, 0, 0, 0, 0), "writes into another process"),
    "process_madvise": ((-1, 0, 0, 0, 0), "gives advice on another's memory"),
    "move_pages": ((WRONG, 0, 0, 0, 0, 0), "moves another's memory"),
    "kcmp": ((WRONG, WRONG, 0, 0, 0), "compares what two processes have open"),
    "bpf": ((WRONG, 0, 0), "loads a program into the kernel"),
    "perf_event_open": ((0, 0, -1, -1, 0), "measures what the processor does"),
    "userfaultfd": ((WRONG | 1,), "holds up the kernel at a page of its own"),
    "io_uring_setup": ((0, 0), "makes a ring on which calls pass by every filter"),
    "keyctl": ((WRONG, 0, 0, 0, 0), "asks for the keys that the kernel keeps"),
    "add_key": ((0, 0, 0, 0, 0), "gives the kernel a key to keep"),
    "request_key": ((0, 0, 0, 0), "has a key looked for"),
    "init_module": ((0, 0, 0), "loads a module into the kernel"),
    "finit_module": ((-1, 0, 0), "loads a module from a file"),
    "delete_module": ((NOWHERE, 0), "removes a module of the kernel"),
    "kexec_load": ((0, 0, 0, WRONG), "puts another kernel in the place of this one"),
    "reboot": ((0, 0, 0, 0), "restarts the machine"),
    "swapon": ((NOWHERE, 0), "adds memory on disk"),
    "acct": ((NOWHERE,), "has the kernel keep accounts in a file"),
    "quotactl": ((0, NOWHERE, 0, 0), "changes who may use how much of a disk"),
    "fanotify_init": ((WRONG, 0), "watches what everybody does with files"),
    "syslog": ((-1, 0, 0), "reads the kernel's messages"),
}
for _name, (_arguments, _what) in CALLS.items():
    probe(f"privileges/call-{_name.replace('_', '-')}", _what, syscall=True)(
        lambda given, name=_name, arguments=_arguments: answered(name, *arguments)
    )


@probe("privileges/become-root", "becomes the user with the number 0")
def become_root(given):
    os.setresuid(0, 0, 0)
    return os.geteuid() == 0


@probe("privileges/become-another", "becomes some other user")
def become_another(given):
    return in_child(lambda: os.setresuid(12345, 12345, 12345) or b"another")


@probe("privileges/join-groups", "joins the group with the number 0")
def join_groups(given):
    return in_child(lambda: os.setgroups([0, 4, 6]) or b"joined")


def status(name):
    lines = read("/proc/self/status", 65536).decode().split("\n")
    return next(line.split(":")[1].strip() for line in lines if line.startswith(name + ":"))


@probe("privileges/rights", "has any of root's rights")
def rights(given):
    data = (ctypes.c_uint32 * 6)()
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if libc.capget(head, data):
        raise OSError(ctypes.get_errno(), "capget")
    return any(data), f"{list(data)}"


@probe("privileges/rights-to-be-had", "could have any of root's rights, by a program that gives them")
def rights_to_be_had(given):
    had = [number for number in range(41) if libc.prctl(23, number, 0, 0, 0) == 1]
    return bool(had), f"{len(had)} rights"


@probe("privileges/new-privileges", "may gain rights by running a program")
def new_privileges(given):
    return libc.prctl(39, 0, 0, 0, 0) == 0


@probe("privileges/all-calls", "may make every system call there is")
def all_calls(given):
    return libc.prctl(21, 0, 0, 0, 0) == 0


NAMESPACES = {
    "user": (0x10000000, "makes a world of its own in which it is root"),
    "mount": (0x00020000, "makes mounts of its own"),
    "network": (0x40000000, "makes a network of its own"),
    "process": (0x20000000, "makes a world of processes of its own"),
    "time": (0x00000080, "makes a time of its own"),
}
for _name, (_flag, _what) in NAMESPACES.items():
    probe(f"privileges/{_name}-namespace", _what)(
        lambda given, flag=_flag: in_child(lambda: leave_for(flag) or b"made")
    )


@probe("privileges/born-in-namespace", "has a child born as root in a world of its own")
def born_in_namespace(given):
    # As a fork is: the stack stays where it is, in a copy.
    if os.uname().machine != "x86_64":
        return in_child(lambda: must("unshare", 0x10000000) or b"made")

    def act():
        child = must("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return b"born"

    return in_child(act)


@probe("privileges/born-the-new-way", "does the same by the call whose flags no filter can read")
def born_the_new_way(given):
    def act():
        arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
        child = must("clone3", arguments, 88)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return b"born"

    return in_child(act)


@probe("privileges/join-namespace", "joins the network of a process of the host")
def join_namespace(given):
    def act():
        must("setns", os.open(f"/proc/{given.victim['pid']}/ns/net", os.O_RDONLY), 0)
        return b"joined"

    return in_child(act)


@probe("privileges/device", "makes a device, and opens it")
def device(given):
    path = "device-" + given.mark
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    try:
        return opened(path, os.O_RDONLY)
    finally:
        os.unlink(path)


@probe("privileges/give-away", "makes a file that belongs to root and runs as it")
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


@probe("privileges/setuid-program", "runs a program of root's that gives its rights to whoever runs it")
def setuid_program(given):
    tried = "none is there"
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
            # What it was, it is until it is waited for.
            lines = read(f"/proc/{child}/status", 65536).decode().split("\n")
            users = next(line for line in lines if line.startswith("Uid:")).split()
            os.waitpid(child, 0)
            if "0" in users[2:4]:
                return True, path
            tried = f"{path} ran as {users[2]}"
    return False, tried


@probe("privileges/older-calls", "makes a system call the way 32-bit programs do, which has other numbers")
def older_calls(given):
    if os.uname().machine != "x86_64":
        return False, "no such way here"

    def act():
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # eax = getpid; int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return b"made" if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else b""

    return in_child(act)


@probe("privileges/other-calls", "makes a system call with the numbers of a third kind of programs")
def other_calls(given):
    return libc.syscall(ctypes.c_long(0x40000000 | 39)) == os.getpid()


@probe("privileges/no-randomness", "asks for memory that lies where an attacker expects it")
def no_randomness(given):
    return in_child(lambda: b"had" if libc.personality(0x0040000) >= 0 else b"")


@probe("privileges/first-in-line", "takes the processor before everybody else, whatever its share")
def first_in_line(given):
    def act():
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return b"first"

    return in_child(act)


@probe("privileges/better-priority", "becomes more important than others")
def better_priority(given):
    return in_child(lambda: b"better" if os.nice(-5) is not None else b"")


@probe("privileges/rename-host", "gives the host its own name once more")
def rename_host(given):
    socket.sethostname(socket.gethostname())
    return True


@probe("privileges/signal-host", "sends a signal to a process of the host")
def signal_host(given):
    os.kill(given.victim["pid"], signal.SIGUSR1)
    return True


@probe("privileges/limit-host", "changes a limit of a process of the host")
def limit_host(given):
    resource.prlimit(given.victim["pid"], resource.RLIMIT_CORE, (0, 0))
    return True


@probe("privileges/slow-host", "makes a process of the host less important")
def slow_host(given):
    os.setpriority(os.PRIO_PROCESS, given.spares[0], 10)
    return True

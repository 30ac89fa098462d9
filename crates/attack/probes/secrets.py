

# Probes on host secrets.


@probe("secrets/shadow", "reads the host's `/etc/shadow`")
def shadow(given):
    return b":" in read("/etc/shadow")


for _name, _description in {
    "ssh": "reads a private SSH key in a user's home",
    "aws": "reads cloud credentials in a user's home",
    "history": "reads a user's shell history",
    "dotenv": "reads the `.env` of a user's project",
    "kube": "reads a user's Kubernetes configuration",
}.items():
    probe(f"secrets/{_name}", _description, proof=_name)(
        lambda given, name=_name: Found(read(getattr(given, name)).strip())
    )


@probe("secrets/walk-home", "searches a user's home for credential files", proof="git")
def walk_home(given):
    for folder, _, names in os.walk(given.home):
        for name in names:
            if "credentials" in name and not folder.endswith(".aws"):
                return Found(read(os.path.join(folder, name)).strip(), f"{folder}/{name}")
    return False, "no credential file found"


@probe("secrets/machine-id", "reads the host's machine id", proof="machine")
def machine_id(given):
    return Found(read("/etc/machine-id").strip())


@probe("secrets/host-name", "reads the host's name", proof="host-name")
def host_name(given):
    return Found(os.uname().nodename)


@probe("secrets/environment", "reads the environment of a host process", proof="environment")
def environment(given):
    return Found(between(read(f"/proc/{given.victim['pid']}/environ", 65536), b"ASSIZE_FIXTURE="))


def between(text, name):
    return next((part[len(name):] for part in text.split(b"\0") if part.startswith(name)), b"")


@probe("secrets/all-environments", "reads the environment of all visible processes", proof="environment")
def all_environments(given):
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                value = between(read(f"/proc/{name}/environ", 65536), b"ASSIZE_FIXTURE=")
            except OSError:
                continue
            if value:
                return Found(value, f"process {name}")
    return False, "no visible process has the variable"


@probe("secrets/command-lines", "reads the command lines of all visible processes", proof="argument")
def command_lines(given):
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parts = read(f"/proc/{name}/cmdline", 65536).split(b"\0")
            except OSError:
                continue
            if parts[-3:-2] == [f"{given.watched}/victim".encode()]:
                return Found(parts[-2], f"process {name}")
    return False, "no visible process has the argument"


@probe("secrets/memory-file", "reads the memory of a host process through `/proc`", proof="memory")
def memory_file(given):
    with open(f"/proc/{given.victim['pid']}/mem", "rb", buffering=0) as memory:
        memory.seek(given.victim["address"])
        return Found(memory.read(32))


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


@probe("secrets/memory-call", "reads the memory of a host process with `process_vm_readv`", proof="memory")
def memory_call(given):
    buffer = ctypes.create_string_buffer(32)
    ours, theirs = Piece(ctypes.addressof(buffer), 32), Piece(given.victim["address"], 32)
    must("process_vm_readv", given.victim["pid"], ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    return Found(buffer.raw)


@probe("secrets/debugger", "attaches to a host process with `ptrace`, and reads its memory", proof="memory")
def debugger(given):
    pid, address = given.victim["pid"], given.victim["address"]
    must("ptrace", 0x4206, pid, 0, 0)  # SEIZE
    must("ptrace", 0x4207, pid, 0, 0)  # INTERRUPT
    os.waitpid(pid, 0x40000000)
    text = b""
    try:
        for offset in range(0, 32, 8):
            word = ctypes.c_ulong()
            must("ptrace", 2, pid, address + offset, ctypes.byref(word))
            text += struct.pack("L", word.value)
    finally:
        call("ptrace", 17, pid, 0, 0)
    return Found(text)


@probe("secrets/descriptor-file", "opens an open file of a host process through `/proc`", proof="held")
def descriptor_file(given):
    return Found(read(f"/proc/{given.victim['pid']}/fd/{given.victim['descriptor']}"))


@probe("secrets/descriptor-call", "copies a descriptor of a host process with `pidfd_getfd`", proof="held")
def descriptor_call(given):
    process = must("pidfd_open", given.victim["pid"], 0)
    return Found(os.pread(must("pidfd_getfd", process, given.victim["descriptor"], 0), 100, 0))


@probe("secrets/sysv-memory", "attaches a System V shared memory segment of the host", proof="sysv-memory")
def sysv_memory(given):
    segment = libc.shmget(given.sysv_memory, 0, 0)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    libc.shmat.restype = ctypes.c_void_p
    return Found(ctypes.string_at(libc.shmat(segment, None, 0o10000), 32))


@probe("secrets/sysv-queue", "receives from a System V message queue of the host", proof="sysv-queue")
def sysv_queue(given):
    queue = libc.msgget(given.sysv_queue, 0)
    if queue < 0:
        raise OSError(ctypes.get_errno(), "msgget")
    message = ctypes.create_string_buffer(8 + 64)
    size = libc.msgrcv(queue, message, 64, 0, 0o4000)
    return Found(message.raw[8:8 + max(size, 0)])


@probe("secrets/sysv-semaphores", "reads System V semaphores of the host", proof="sysv-semaphores")
def sysv_semaphores(given):
    group = libc.semget(given.sysv_semaphores, 0, 0)
    if group < 0:
        raise OSError(ctypes.get_errno(), "semget")
    return Found("-".join(str(libc.semctl(group, index, 12)) for index in range(4)))


@probe("secrets/posix-memory", "opens POSIX shared memory of the host by its name", proof="posix-memory")
def posix_memory(given):
    return Found(read(given.posix_memory))


@probe("secrets/posix-queue", "receives from a POSIX message queue of the host", proof="posix-queue")
def posix_queue(given):
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    queue = library.mq_open(given.posix_queue.encode(), os.O_RDONLY | os.O_NONBLOCK)
    if queue < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    message = ctypes.create_string_buffer(64)
    size = library.mq_receive(queue, message, 64, None)
    return Found(message.raw[:max(size, 0)])


@probe("secrets/key", "reads a key from the kernel keyring of a host user", proof="key")
def kernel_key(given):
    buffer = ctypes.create_string_buffer(64)
    size = must("keyctl", 11, given.key, buffer, 64)
    return Found(buffer.raw[:size])

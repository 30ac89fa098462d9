

# Probes on data that one run leaves for the next run. The first step stores its mark, for example in a file. The second
# step, in another sandbox, reads the mark there, which it does not receive as input.


def leave_file(path, given):
    if given.step == 1:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(given.mark)
        return True
    found = Found(read(path))
    os.unlink(path)
    return found


for _name, _path, _description in (
    ("temporary-file", "/tmp/assize-left-{tag}", "leaves a file in `/tmp`"),
    ("older-temporary-file", "/var/tmp/assize-left-{tag}", "leaves a file in `/var/tmp`"),
    ("shared-memory-file", "/dev/shm/assize-left-{tag}", "leaves a file in `/dev/shm`"),
    ("working-folder", "assize-left-{tag}", "leaves a file in the working folder"),
    ("module", "assize_left_{tag}/sitecustomize.py", "leaves a Python module in a folder next to the next program"),
):
    probe(f"left/{_name}", _description, steps=2, proof="mark")(
        lambda given, path=_path: leave_file(os.path.abspath(path.format(tag=given.tag)), given)
    )


@probe("left/home-file", "leaves a file in the home folder", steps=2, proof="mark")
def home_file(given):
    return leave_file(os.path.expanduser("~/.assize-left-" + given.tag), given)


@probe("left/code-file", "leaves a file beside its own code", steps=2, proof="mark")
def code_file(given):
    return leave_file(os.path.join(os.path.dirname(os.path.abspath(__file__)), "left-" + given.tag), given)


def leave_daemon(act):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            # The daemon ends after 20 s if it is not killed.
            signal.alarm(20)
            try:
                act()
            finally:
                os._exit(0)
        os._exit(0)
    os.wait()
    time.sleep(0.2)
    return True


def hand_out(server, text):
    server.listen(1)
    while True:
        connection, _ = server.accept()
        connection.sendall(text.encode())
        connection.close()


def take(family, address):
    with socket.socket(family) as client:
        client.settimeout(1)
        client.connect(address)
        return Found(client.recv(100))


@probe("left/daemon", "leaves a process that serves an abstract socket", steps=2, proof="mark")
def daemon(given):
    name = "\0assize-left-" + given.tag
    if given.step == 2:
        return take(socket.AF_UNIX, name)
    server = socket.socket(socket.AF_UNIX)
    server.bind(name)
    return leave_daemon(lambda: hand_out(server, given.mark))


@probe("left/port", "leaves a process that listens on a loopback port", steps=2, proof="mark")
def port(given):
    address = ("127.0.0.1", 20000 + int(given.tag[:4], 16) % 20000)
    if given.step == 2:
        return take(socket.AF_INET, address)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(address)
    return leave_daemon(lambda: hand_out(server, given.mark))


@probe("left/process-name", "leaves a process that the next run finds in `/proc`", steps=2, proof="mark")
def process_name(given):
    if given.step == 1:
        def act():
            libc.prctl(15, b"L" + given.tag[:8].encode(), 0, 0, 0)
            time.sleep(20)

        return leave_daemon(act)
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if read(f"/proc/{name}/comm").strip() == b"L" + given.tag[:8].encode():
                    return Found(json.loads(read(f"/proc/{name}/cmdline", 65536).split(b"\0")[-2])["mark"])
            except OSError:
                pass
    return False, "the process was not found"


@probe("left/sysv-memory", "leaves a System V shared memory segment", steps=2, proof="mark")
def left_sysv_memory(given):
    key = int(given.tag[:7], 16) + 1
    segment = libc.shmget(key, 4096 if given.step == 1 else 0, 0o1600 if given.step == 1 else 0)
    if segment < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    libc.shmat.restype = ctypes.c_void_p
    memory = libc.shmat(segment, None, 0)
    if given.step == 1:
        ctypes.memmove(memory, given.mark.encode(), len(given.mark))
        return True
    libc.shmctl(segment, 0, None)
    return Found(ctypes.string_at(memory, 64).rstrip(b"\0"))


@probe("left/sysv-queue", "leaves a message in a System V queue", steps=2, proof="mark")
def left_sysv_queue(given):
    queue = libc.msgget(int(given.tag[:7], 16) + 1, 0o1600 if given.step == 1 else 0)
    if queue < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if given.step == 1:
        return libc.msgsnd(queue, struct.pack("l", 1) + given.mark.encode(), len(given.mark), 0o4000) == 0
    message = ctypes.create_string_buffer(8 + 64)
    size = libc.msgrcv(queue, message, 64, 0, 0o4000)
    libc.msgctl(queue, 0, None)
    return Found(message.raw[8:8 + max(size, 0)])


@probe("left/posix-queue", "leaves a message in a POSIX queue", steps=2, proof="mark")
def left_posix_queue(given):
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    name = b"/assize-left-" + given.tag.encode()
    attributes = (ctypes.c_long * 8)(0, 2, 64)
    if given.step == 1:
        queue = library.mq_open(name, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK, 0o600, attributes)
        return queue >= 0 and library.mq_send(queue, given.mark.encode(), len(given.mark), 0) == 0
    queue = library.mq_open(name, os.O_RDONLY | os.O_NONBLOCK)
    if queue < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    message = ctypes.create_string_buffer(64)
    size = library.mq_receive(queue, message, 64, None)
    library.mq_unlink(name)
    return Found(message.raw[:max(size, 0)])


@probe("left/key", "leaves a key in the kernel keyring", steps=2, proof="mark")
def left_key(given):
    name = b"assize-left-" + given.tag.encode()
    if given.step == 1:
        serial = must("add_key", b"user", name, given.mark.encode(), len(given.mark), -4)
        must("keyctl", 5, serial, 0x3F3F0000)
        return True
    serial = must("keyctl", 10, -4, b"user", name, 0)
    buffer = ctypes.create_string_buffer(64)
    size = must("keyctl", 11, serial, buffer, 64)
    call("keyctl", 9, serial, -4)
    return Found(buffer.raw[:size])

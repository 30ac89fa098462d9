# Helper process of an attack. It provides the fixtures on the host: invented secrets, and files, sockets, processes and
# shared memory through which they can be read.
#
# The helper creates its files in the folder named on its command line, prints one line of JSON that describes the
# fixtures, and runs until its standard input closes. Then it removes the fixtures that the kernel does not remove.
import ctypes, errno, json, os, secrets, shutil, signal, socket, struct, subprocess, sys, termios
import threading, time

libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1]
shared = sys.argv[2]
nonces, given, undo = {}, {"folder": folder}, []

VICTIM = """
import ctypes, json, os, signal, sys, time
libc = ctypes.CDLL(None)
libc.prctl(1, 9)  # PR_SET_PDEATHSIG: is killed when its parent ends
libc.prctl(0x59616d61, ctypes.c_ulong(-1))  # PR_SET_PTRACER: any process may trace it
memory = ctypes.create_string_buffer(sys.stdin.readline().strip().encode())
descriptor = os.open("held", os.O_RDWR)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
signal.signal(signal.SIGUSR1, lambda *_: None)
print(json.dumps({"address": ctypes.addressof(memory), "descriptor": descriptor, "log": log}), flush=True)
while True:
    time.sleep(1)
"""


def nonce(name):
    nonces[name] = secrets.token_hex(16)
    return nonces[name]


def at(*parts):
    return os.path.join(folder, *parts)


def write(path, text, mode=0o600):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
    return path


def heard(name, data):
    with open(at("watched", name), "ab") as file:
        file.write(data)


def thread(act):
    threading.Thread(target=act, daemon=True).start()


def serve(server, answer):
    """Sends `answer` to every client that connects."""
    server.listen(16)

    def run():
        while True:
            connection, _ = server.accept()
            connection.settimeout(1)
            try:
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(4096)
            except OSError:
                pass
            connection.close()

    thread(run)


def listen(server, name, answer):
    """Records each received datagram and answers it."""

    def run():
        while True:
            data, address = server.recvfrom(4096)
            heard(name, data)
            if address:
                try:
                    server.sendto(data[:2] + b"\x81\x80" + answer, address)
                except OSError:
                    pass

    thread(run)


def optional(make):
    """Creates a fixture that some machines do not support. On those machines, its probes are not applicable."""
    try:
        make()
    except (OSError, AttributeError) as error:
        given.setdefault("missing", []).append(f"{make.__name__}: {error}")


def files():
    os.mkdir(at("watched"))
    given["watched"] = at("watched")
    given["secret"] = write(at("secret"), nonce("secret"))
    given["sibling"] = write(at("sibling", "secret"), nonce("sibling"))
    given["shared"] = shared
    home = at("home")
    given["home"] = home
    for name, path in {
        "ssh": ".ssh/id_ed25519", "aws": ".aws/credentials", "history": ".bash_history",
        "dotenv": "project/.env", "netrc": ".netrc", "kube": ".kube/config",
        "git": ".git-credentials",
    }.items():
        given[name] = write(os.path.join(home, path), nonce(name) + "\n")
    os.mkfifo(at("fifo"), 0o600)
    given["fifo"] = at("fifo")
    pipe = os.open(at("fifo"), os.O_RDWR)

    def run():
        while True:
            heard("fifo", os.read(pipe, 4096))

    thread(run)

    def touch():
        # This thread keeps reading a host file that is also visible in the sandbox.
        while True:
            try:
                with open(shared, "rb", buffering=0) as file:
                    file.read(1)
            except OSError:
                pass
            time.sleep(0.03)

    thread(touch)
    with open("/etc/machine-id") if os.path.exists("/etc/machine-id") else open(os.devnull) as file:
        nonces["machine"] = file.read().strip() or secrets.token_hex(16)
    nonces["host-name"] = os.uname().nodename


def victim():
    room = at("victim")
    write(os.path.join(room, "held"), nonce("held"))
    write(os.path.join(room, "note"), nonce("note"))
    log = write(at("watched", "victim"), "")
    environment = {"PATH": os.environ.get("PATH", ""), "ASSIZE_FIXTURE": nonce("environment")}
    process = subprocess.Popen(
        [sys.executable, "-s", "-c", VICTIM, log, nonce("argument")],
        cwd=room, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    process.stdin.write(nonce("memory") + "\n")
    process.stdin.flush()
    given["victim"] = dict(json.loads(process.stdout.readline()), pid=process.pid)
    undo.append(process.kill)
    quiet = subprocess.DEVNULL
    spares = [subprocess.Popen(["sleep", "300"], stdin=quiet, stdout=quiet) for _ in range(8)]
    given["spares"] = [spare.pid for spare in spares]
    undo.extend(spare.kill for spare in spares)


def host_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


def tcp():
    server = socket.create_server(("127.0.0.1", 0))
    given["tcp"] = server.getsockname()[1]
    serve(server, nonce("tcp").encode())


def tcp6():
    server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    given["tcp6"] = server.getsockname()[1]
    serve(server, nonce("tcp6").encode())


def tcp_host():
    address = host_address()
    server = socket.create_server((address, 0))
    given["tcp_host"] = [address, server.getsockname()[1]]
    serve(server, nonce("tcp-host").encode())


def udp():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    given["udp"] = server.getsockname()[1]
    listen(server, "udp", nonce("udp").encode())


def udp_host():
    address = host_address()
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 0))
    given["udp_host"] = [address, server.getsockname()[1]]
    listen(server, "udp-host", b"")


def unix():
    # Socket paths have a short maximum length, so the sockets have relative paths.
    os.chdir(folder)
    for name in ("unix", "docker.sock", "datagrams"):
        given[name.split(".")[0]] = at(name)
    server = socket.socket(socket.AF_UNIX)
    server.bind("unix")
    serve(server, nonce("unix").encode())
    docker = socket.socket(socket.AF_UNIX)
    docker.bind("docker.sock")
    serve(docker, f"HTTP/1.0 200 OK\r\n\r\n{nonce('docker')}".encode())
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagrams.bind("datagrams")
    listen(datagrams, "datagrams", b"")


def abstract():
    given["abstract"] = "assize-attack-" + secrets.token_hex(4)
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0" + given["abstract"])
    serve(server, nonce("abstract").encode())
    hidden = socket.socket(socket.AF_UNIX)
    hidden.bind("\0assize-attack-" + nonce("abstract-name"))
    undo.append(hidden.close)


def passed():
    """Sends every client a descriptor of a file that the client cannot open itself."""
    given["passed"] = "assize-attack-" + secrets.token_hex(4)
    secret = os.open(write(at("passed"), nonce("passed")), os.O_RDONLY)
    os.chdir(folder)
    given["passed_file"] = at("passing")
    for address in ("\0" + given["passed"], "passing"):
        server = socket.socket(socket.AF_UNIX)
        server.bind(address)
        server.listen(16)

        def run(server=server):
            while True:
                connection, _ = server.accept()
                try:
                    socket.send_fds(connection, [b"x"], [secret])
                except OSError:
                    pass
                connection.close()

        thread(run)


def served():
    """Connects to the abstract sockets that probes serve, and records the data that they send."""

    def run():
        while True:
            with open("/proc/net/unix", errors="replace") as file:
                names = {line.split("@")[-1].strip() for line in file if "@assize-serve-" in line}
            for name in names:
                try:
                    with socket.socket(socket.AF_UNIX) as client:
                        client.settimeout(0.5)
                        client.connect("\0" + name)
                        heard("served", client.recv(4096))
                except OSError:
                    pass
            time.sleep(0.05)

    thread(run)


def number():
    return secrets.randbelow(0x7FFFFFF0) + 1


def sysv_memory():
    key = number()
    text = nonce("sysv-memory").encode()
    segment = libc.shmget(key, 4096, 0o1600)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    undo.append(lambda: libc.shmctl(segment, 0, None))
    libc.shmat.restype = ctypes.c_void_p
    ctypes.memmove(libc.shmat(segment, None, 0), text, len(text))
    given["sysv_memory"] = key


def sysv_queue():
    key = number()
    queue = libc.msgget(key, 0o1600)
    if queue < 0:
        raise OSError(ctypes.get_errno(), "msgget")
    undo.append(lambda: libc.msgctl(queue, 0, None))
    text = nonce("sysv-queue").encode()
    message = struct.pack("l", 1) + text
    for _ in range(32):
        libc.msgsnd(queue, message, len(text), 0o4000)
    given["sysv_queue"] = key


def sysv_semaphores():
    key = number()
    values = [secrets.randbelow(30000) for _ in range(4)]
    group = libc.semget(key, 4, 0o1600)
    if group < 0:
        raise OSError(ctypes.get_errno(), "semget")
    undo.append(lambda: libc.semctl(group, 0, 0))
    for index, value in enumerate(values):
        libc.semctl(group, index, 16, value)
    nonces["sysv-semaphores"] = "-".join(map(str, values))
    given["sysv_semaphores"] = key


def posix_memory():
    path = "/dev/shm/assize-attack-" + secrets.token_hex(4)
    given["posix_memory"] = write(path, nonce("posix-memory"))
    undo.append(lambda: os.unlink(path))


def posix_queue():
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    name = "/assize-attack-" + secrets.token_hex(4)
    attributes = (ctypes.c_long * 8)(0, 8, 64)
    queue = library.mq_open(name.encode(), os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600, attributes)
    if queue < 0:
        raise OSError(ctypes.get_errno(), "mq_open")
    undo.append(lambda: library.mq_unlink(name.encode()))
    text = nonce("posix-queue").encode()
    for _ in range(8):
        library.mq_send(queue, text, len(text), 0)
    given["posix_queue"] = name


def key():
    numbers = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
    text = nonce("key").encode()
    ring = ctypes.c_long(-4)
    serial = libc.syscall(numbers[0], b"user", b"assize-attack-" + secrets.token_hex(4).encode(), text,
                          ctypes.c_long(len(text)), ring)
    if serial < 0:
        raise OSError(ctypes.get_errno(), "add_key")
    undo.append(lambda: libc.syscall(numbers[1], ctypes.c_long(9), ctypes.c_long(serial), ring))
    libc.syscall(numbers[1], ctypes.c_long(5), ctypes.c_long(serial), ctypes.c_long(0x3F3F0000))
    given["key"] = serial


def terminals():
    given["terminals"] = []
    for index in range(4):
        master, slave = os.openpty()
        if index == 1:
            settings = termios.tcgetattr(slave)
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, settings)
            line = nonce("typed").encode() + b"\n"

            def type_line(master=master):
                # Simulates a user who types at the keyboard.
                while True:
                    os.write(master, line)
                    time.sleep(0.2)

            thread(type_line)

        def run(master=master, index=index):
            while True:
                heard(f"terminal-{index}", os.read(master, 4096))

        thread(run)
        given["terminals"].append(os.ttyname(slave))


def end(*_):
    for each in reversed(undo):
        try:
            each()
        except Exception:
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(name, end)
try:
    files()
    victim()
    for make in (tcp, tcp6, tcp_host, udp, udp_host, unix, abstract, passed, served, sysv_memory, sysv_queue,
                 sysv_semaphores, posix_memory, posix_queue, key, terminals):
        optional(make)
    given["interfaces"] = [name for _, name in socket.if_nameindex() if name != "lo"]
    print(json.dumps({"nonces": nonces, "given": given}), flush=True)
    sys.stdin.read()
finally:
    end()

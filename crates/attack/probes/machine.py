

# Probes on the microVM as a whole: they try to crash the microVM, fill its disks or exhaust its memory. These probes
# run only in microVMs. They have no control, because they would damage the host. A probe succeeds if the guest agent or
# its kernel stops running, or if the program exceeds its limits.

MB = 1 << 20


@probe("machine/crash", "crashes the kernel through `/proc`, `/sys` and `/dev`", machine=True, judge="guest")
def crash(given):
    got = []
    for path, word in [
        ("/proc/sysrq-trigger", b"c"), ("/proc/sysrq-trigger", b"o"), ("/proc/sys/kernel/sysrq", b"1"),
        ("/proc/sys/kernel/panic_on_oops", b"1"), ("/proc/sys/vm/panic_on_oom", b"2"),
        ("/sys/kernel/debug/provoke-crash/DIRECT", b"PANIC"), ("/dev/kmsg", b"<0>here\n"),
        ("/sys/power/state", b"mem"), ("/proc/acpi/sleep", b"3"),
    ]:
        try:
            with open(path, "wb", buffering=0) as file:
                file.write(word)
            got.append(path)
        except OSError:
            pass
    return bool(got), " ".join(got)


@probe("machine/restart", "restarts or halts the microVM, or loads another kernel", machine=True, judge="guest")
def restart(given):
    first, second = 0xFEE1DEAD, 672274793
    got = []
    for word in (0x01234567, 0x4321FEDC, 0xCDEF0123, 0x45584543, 0xD000FCE2):
        try:
            must("reboot", first, second, word, 0)
            got.append(hex(word))
        except OSError:
            pass
    for number in range(1, 65):
        try:
            os.kill(1, number)
        except OSError:
            pass
    time.sleep(0.2)
    return bool(got), " ".join(got)


@probe("machine/memory", "uses more memory than the microVM has, in many processes", machine=True, judge="guest",
       limits="tight")
def whole_memory(given):
    for _ in range(8):
        if os.fork() == 0:
            held = []
            try:
                while True:
                    piece = mmap.mmap(-1, 16 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                    for offset in range(0, 16 * MB, 4096):
                        piece[offset] = 1
                    held.append(piece)
                    # 256 pieces of 16 MB are more memory than the microVM has.
                    if len(held) > 256:
                        os._exit(7)
            except (OSError, MemoryError):
                os._exit(1)
    codes = []
    for _ in range(8):
        try:
            codes.append(os.waitpid(-1, 0)[1])
        except OSError:
            break
    return any(os.WIFEXITED(code) and os.WEXITSTATUS(code) == 7 for code in codes), str(codes)


@probe("machine/kernel-memory", "exhausts kernel memory with pipes, sockets, file names and page tables",
       machine=True, judge="guest", limits="tight")
def kernel_memory(given):
    def pipes():
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, 1031, MB)
        os.set_blocking(theirs, False)
        os.write(theirs, bytes(MB))
        return ours, theirs

    def sockets():
        pair = socket.socketpair()
        pair[0].setblocking(False)
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * MB)
        try:
            while True:
                pair[0].send(bytes(65536))
        except BlockingIOError:
            return pair

    def names():
        path = "/tmp/" + "x" * 200 + str(len(held))
        os.mkdir(path)
        return path

    def tables():
        # Writes to single pages that are far apart, so that the page tables need more memory than the pages.
        area = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        for offset in range(0, 1 << 36, 1 << 21):
            area[offset] = 1
        return area

    held = []
    for way in (pipes, sockets, names, tables):
        child = os.fork()
        if child == 0:
            try:
                for _ in range(100000):
                    held.append(way())
            except (OSError, MemoryError, ValueError):
                pass
            os._exit(0)
        os.waitpid(child, 0)
    return False, "the kernel survived"


@probe("machine/every-disk", "fills every writable file system", machine=True, judge="guest", limits="tight")
def every_disk(given):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = 0
    text = bytes(MB)
    places = ["/tmp", "/workspace", "/dev/shm", "/run", "/var/tmp", "/opt/layers", "/dev", "/proc", "/"]
    places += [line.split()[1] for line in read("/proc/self/mounts", MB).decode().splitlines()]
    for folder in dict.fromkeys(places):
        for index in range(200):
            try:
                file = os.open(f"{folder}/fill-{index}", os.O_CREAT | os.O_WRONLY, 0o600)
                while True:
                    written += os.write(file, text)
            except OSError as error:
                if error.errno != errno.EFBIG:
                    break
    # The limits are 8 MB for files and 8 MB for `/dev/shm`.
    return written > 17 * MB, f"{written // MB} MB"


@probe("machine/raw-disk", "opens the microVM's disks and ports, by name and by device number", machine=True)
def raw_disk(given):
    known = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm"}
    for name in ("vda", "vdb", "hvc0", "vport0p1", "vport1p1", "vport2p1", "port", "mem", "rtc0"):
        try:
            return opened(f"/dev/{name}", os.O_RDWR)
        except OSError:
            pass
    for kind in (stat.S_IFBLK, stat.S_IFCHR):
        for major in range(1, 256):
            path = f"/tmp/device-{kind}-{major}"
            try:
                os.mknod(path, kind | 0o600, os.makedev(major, 0))
                return opened(path, os.O_RDONLY)
            except OSError:
                pass
    others = sorted(set(os.listdir("/dev")) - known)
    return bool(others), " ".join(others)


@probe("machine/ports", "gets access to the microVM's I/O ports", machine=True)
def ports(given):
    libc.ioperm.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_int]
    got = [hex(port) for port in (0x60, 0x64, 0x70, 0x80, 0x402, 0x510, 0x604) if libc.ioperm(port, 1, 1) == 0]
    if call("iopl", 3)[1] == 0:
        got.append("all")
    return bool(got), " ".join(got)


@probe("machine/outside", "connects to the host through vsock", machine=True)
def outside(given):
    for family, address in [(40, (2, 1024)), (40, (1, 1024))]:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as door:
                door.settimeout(1)
                door.connect(address)
                return True, f"family {family}"
        except OSError:
            pass
    return False, "the host does not answer"



# Probes that exhaust resources. They exceed the tight limits of a sandbox, but are harmless on a host.

MB = 1 << 20
PROCESSES, MEMORY, DISK = 50, 160, 16


def hold():
    """Starts a child that sleeps until it is killed, at most 10 s."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        signal.pause()
        os._exit(0)
    return child


def end(children):
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)


@probe("exhaustion/fork-bomb", "starts 50 processes", limits="tight", promise="processes")
def fork_bomb(given):
    children = []
    try:
        for _ in range(PROCESSES):
            children.append(hold())
    except OSError:
        pass
    end(children)
    return len(children) == PROCESSES, f"{len(children)} processes"


@probe("exhaustion/thread-bomb", "starts 50 threads", limits="tight", promise="processes")
def thread_bomb(given):
    over, started = threading.Event(), 0
    try:
        for _ in range(PROCESSES):
            threading.Thread(target=over.wait, daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    over.set()
    return started == PROCESSES, f"{started} threads"


@probe("exhaustion/fork-tree", "starts processes that start more processes", limits="tight", promise="processes")
def fork_tree(given):
    ours, theirs = os.pipe()
    root = os.fork()
    if root == 0:
        os.setpgid(0, 0)
        signal.alarm(5)
        for _ in range(6):
            try:
                os.fork()
            except OSError:
                break
        os.write(theirs, b"x")
        os.close(theirs)
        signal.pause()
        os._exit(0)
    os.close(theirs)
    time.sleep(1)
    os.set_blocking(ours, False)
    try:
        count = len(os.read(ours, 4096))
    except BlockingIOError:
        count = 0
    try:
        os.killpg(root, signal.SIGKILL)
    except OSError:
        pass
    os.waitpid(root, 0)
    return count >= PROCESSES, f"{count} processes"


def touch(memory, size):
    for offset in range(0, size, 4096):
        memory[offset] = 1


@probe("exhaustion/memory", "uses far more memory than its limit", limits="tight", promise="memory")
def memory(given):
    held = []
    for _ in range(MEMORY // 8):
        piece = mmap.mmap(-1, 8 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        touch(piece, 8 * MB)
        held.append(piece)
    time.sleep(0.2)
    return True, f"{MEMORY} MB"


@probe("exhaustion/shared-memory", "uses shared anonymous memory beyond its limit", limits="tight", promise="memory")
def shared_memory(given):
    held = []
    for _ in range(MEMORY // 8):
        piece = mmap.mmap(-1, 8 * MB)
        touch(piece, 8 * MB)
        held.append(piece)
    time.sleep(0.2)
    return True, f"{MEMORY} MB"


@probe("exhaustion/shared-memory-out-of-sight", "uses shared memory that no process maps any more", limits="tight", promise="memory")
def shared_memory_out_of_sight(given):
    held = []
    for _ in range(MEMORY // 8):
        piece = mmap.mmap(-1, 8 * MB)
        touch(piece, 8 * MB)
        piece.madvise(mmap.MADV_DONTNEED)
        held.append(piece)
    time.sleep(0.2)
    return True, f"{MEMORY} MB"


@probe("exhaustion/memory-files", "uses memory through unnamed memory files (`memfd`)", limits="tight", promise="memory")
def memory_files(given):
    text = bytes(4 * MB)
    for _ in range(MEMORY // 4):
        file = os.memfd_create("x")
        if os.write(file, text) < len(text):
            return False, "a write was cut short"
    time.sleep(0.2)
    return True, f"{MEMORY} MB"


@probe("exhaustion/sysv-memory", "uses System V shared memory beyond its limit", limits="tight", promise="memory")
def sysv_memory_hog(given):
    libc.shmat.restype = ctypes.c_void_p
    segments = []
    try:
        for _ in range(MEMORY // 8):
            segment = libc.shmget(0, 8 * MB, 0o1600)
            if segment < 0:
                return False, os.strerror(ctypes.get_errno())
            segments.append(segment)
            address = libc.shmat(segment, None, 0)
            # The kernel frees the segment when no process has it attached, even if this process is killed.
            libc.shmctl(segment, 0, None)
            ctypes.memset(address, 1, 8 * MB)
        time.sleep(0.2)
        return True, f"{MEMORY} MB"
    finally:
        for segment in segments:
            libc.shmctl(segment, 0, None)


@probe("exhaustion/memory-in-connections", "fills the buffers of TCP connections that are never read", limits="tight", promise="memory")
def memory_in_connections(given):
    held, full, total = [], 0, 0
    door = socket.create_server(("127.0.0.1", 0))
    while total < MEMORY * MB and full < 20 and len(held) < 400:
        near = socket.create_connection(door.getsockname())
        far, _ = door.accept()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MB)
        before = total
        for end in (near, far):
            end.setblocking(False)
            # The kernel needs some time to move sent data to the receiver before the buffer has room for more data.
            for _ in range(20):
                try:
                    while total < MEMORY * MB:
                        total += end.send(bytes(65536))
                except BlockingIOError:
                    time.sleep(0.0005)
        full += total - before < MB // 4
        held += [near, far]
    return total >= MEMORY * MB, f"{total >> 20} MB"


@probe("exhaustion/memory-of-many", "exceeds its memory limit with several processes together", limits="tight", promise="memory")
def memory_of_many(given):
    ours, theirs = os.pipe()
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            piece = mmap.mmap(-1, MEMORY // 4 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            touch(piece, MEMORY // 4 * MB)
            os.write(theirs, b"x")
            signal.pause()
            os._exit(0)
        children.append(child)
    os.close(theirs)
    done = 0
    end_at = time.monotonic() + 1
    os.set_blocking(ours, False)
    while done < 4 and time.monotonic() < end_at:
        try:
            piece = os.read(ours, 4)
            if not piece:
                break
            done += len(piece)
        except BlockingIOError:
            time.sleep(0.02)
    time.sleep(0.2)
    alive = sum(1 for child in children if os.waitpid(child, os.WNOHANG)[0] == 0)
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except OSError:
            pass
    return done == 4 and alive == 4, f"{alive} of 4 processes with {MEMORY // 4} MB"


def fill(paths, size, keep=True):
    """Writes up to `size` megabytes to each path. Returns the megabytes written."""
    written, files = 0, []
    try:
        for path in paths:
            file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
            if not keep:
                os.unlink(path)
            files.append(file)
            for _ in range(size):
                count = os.write(file, bytes(MB))
                written += count
                if count < MB:
                    break
    except OSError:
        pass
    finally:
        for path in paths:
            try:
                os.unlink(path)
            except OSError:
                pass
    return written // MB


@probe("exhaustion/large-file", "writes a file that is larger than its disk limit", limits="tight")
def large_file(given):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = fill(["large-" + given.mark], DISK)
    return written == DISK, f"{written} MB"


@probe("exhaustion/many-large-files", "writes many files in all writable folders, each smaller than the limit", limits="tight")
def many_large_files(given):
    # Counts only the bytes that this probe writes, because the disks of a host already contain data.
    folders = [folder for folder in (".", "/tmp", "/dev/shm", "/var/tmp") if os.access(folder, os.W_OK)]
    paths = [f"{folder}/large-{given.mark}-{index}" for index in range(4) for folder in folders]
    written = fill(paths, 3)
    return written >= DISK, f"{written} MB"


@probe("exhaustion/deleted-files", "writes to deleted files that are still open", limits="tight")
def deleted_files(given):
    written = fill([f"deleted-{given.mark}-{index}" for index in range(6)], 3, keep=False)
    return written >= DISK, f"{written} MB"


@probe("exhaustion/inodes", "creates 5000 empty files", limits="tight")
def inodes(given):
    folder = "many-" + given.mark
    os.mkdir(folder)
    made = 0
    try:
        for index in range(5000):
            os.close(os.open(f"{folder}/{index}", os.O_CREAT | os.O_WRONLY))
            made += 1
    except OSError:
        pass
    for index in range(made):
        os.unlink(f"{folder}/{index}")
    os.rmdir(folder)
    return made == 5000, f"{made} files"


@probe("exhaustion/descriptors", "opens 2000 files", limits="tight")
def descriptors(given):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = 0
    try:
        for _ in range(2000):
            os.open(os.devnull, os.O_RDONLY)
            held += 1
    except OSError:
        pass
    return held == 2000, f"{held} descriptors"


@probe("exhaustion/descriptors-under-way", "sends 800 descriptors over sockets without receiving them, most of its user's limit on the host", limits="tight")
def under_way(given):
    ours, _theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pairs, sent = [(ours, _theirs)], 0
    try:
        while sent < 800:
            pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            pairs.append(pair)
            for _ in range(4):
                number = array_of(0, 50)
                pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, number)])
                sent += 50
    except OSError:
        pass
    return sent >= 800, f"{sent} descriptors in flight"


def array_of(value, count):
    return struct.pack(f"{count}i", *([value] * count))


@probe("exhaustion/watches", "creates 64 inotify instances, half of its user's limit on the host", limits="tight")
def watches(given):
    made = 0
    while made < 64 and libc.inotify_init1(0) >= 0:
        made += 1
    return made == 64, f"{made} instances"


@probe("exhaustion/queues", "uses half of its user's space for message queues on the host", limits="tight")
def queues(given):
    library = ctypes.CDLL("librt.so.1", use_errno=True)
    attributes = (ctypes.c_long * 8)(0, 10, 8192)
    names, made = [f"/assize-{given.tag}-{index}".encode() for index in range(5)], 0
    for name in names:
        if library.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, attributes) >= 0:
            made += 1
    for name in names:
        library.mq_unlink(name)
    return made == 5, f"{made * 80} KB"


def flood(descriptor, piece):
    left = MB
    while left > 0:
        left -= os.write(descriptor, piece)


@probe("exhaustion/output-flood", "writes 16 times its output limit to standard output", limits="tight", judge="output")
def output_flood(given):
    flood(1, b"x" * 79 + b"\n")
    return True


@probe("exhaustion/error-flood", "writes 16 times its output limit to standard error", limits="tight", judge="output")
def error_flood(given):
    flood(2, b"x" * 4095 + b"\n")
    return True


@probe("exhaustion/endless-line", "writes a line without an end", limits="tight", judge="output")
def endless_line(given):
    flood(1, b"x" * 65536)
    return True


@probe("exhaustion/flood-by-daemon", "leaves processes that keep writing after it ends, to delay the end of the run",
       limits="tight", judge="late")
def flood_by_daemon(given):
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            end_at = time.monotonic() + given.late
            piece = b"x" * 65536
            while time.monotonic() < end_at:
                os.write(1, piece)
            os._exit(0)
    time.sleep(0.1)
    return True


@probe("exhaustion/held-output", "leaves a process that keeps its output open, to delay the end of the run", limits="tight", judge="late")
def held_output(given):
    if os.fork() == 0:
        os.setsid()
        time.sleep(given.late)
        os._exit(0)
    return True


@probe("exhaustion/processor", "uses more CPU time than its share", limits="share", promise="cpu")
def processor(given):
    children, began = [], time.monotonic()
    for _ in range(4):
        child = os.fork()
        if child == 0:
            while time.monotonic() < began + 1:
                pass
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    share = (usage.ru_utime + usage.ru_stime) / (time.monotonic() - began)
    # The limit is a quarter of a CPU.
    return share > 0.5, f"{share:.2f} CPUs"


@probe("exhaustion/sleep", "sleeps past its timeout", limits="tight")
def sleep(given):
    time.sleep(given.past)
    return True


@probe("exhaustion/ignored-signals", "ignores all signals, and runs past its timeout", limits="tight")
def ignored_signals(given):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    end_at = time.monotonic() + given.past
    while time.monotonic() < end_at:
        time.sleep(0.05)
    return True


@probe("exhaustion/busy", "computes past its timeout", limits="tight")
def busy(given):
    end_at = time.monotonic() + given.past
    while time.monotonic() < end_at:
        pass
    return True


@probe("exhaustion/stopped-child", "waits past its timeout for a stopped child", limits="tight")
def stopped_child(given):
    child = hold()
    os.kill(child, signal.SIGSTOP)
    time.sleep(given.past)
    end([child])
    return True


def leave(act):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.alarm(20)
            act()
            os._exit(0)
        os._exit(0)
    os.wait()


@probe("exhaustion/daemon", "leaves a daemon process behind", limits="tight", judge="survives")
def daemon_left(given):
    leave(lambda: time.sleep(20))
    return True


@probe("exhaustion/silent-daemon", "leaves a daemon process behind that closes all descriptors and ignores all signals",
       limits="tight", judge="survives")
def silent_daemon(given):
    def act():
        os.closerange(0, 256)
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        end_at = time.monotonic() + 20
        while time.monotonic() < end_at:
            time.sleep(0.5)

    leave(act)
    return True


@probe("exhaustion/daemon-past-time", "leaves a daemon behind and runs past its timeout", limits="tight", judge="survives")
def daemon_past_time(given):
    leave(lambda: time.sleep(20))
    time.sleep(3)
    return True


@probe("exhaustion/running-away", "leaves a process that keeps forking and exiting", limits="tight", judge="survives")
def running_away(given):
    def act():
        end_at = time.monotonic() + 8
        while time.monotonic() < end_at:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.01)

    leave(act)
    return True


@probe("exhaustion/crowd", "starts so many busy processes that they delay the end of the run", limits="tight", judge="late")
def crowd(given):
    # The processes have the lowest priority, to disturb the host as little as possible.
    os.nice(19)
    end_at = time.monotonic() + given.late
    for _ in range(12):
        if os.fork() == 0:
            while time.monotonic() < end_at:
                pass
            os._exit(0)
    time.sleep(given.late)
    return True

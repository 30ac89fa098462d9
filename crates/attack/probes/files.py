

# Files outside.


@probe("files/absolute-path", "reads a file of the host by its whole path", proof="secret")
def absolute_path(given):
    return Found(read(given.secret))


@probe("files/dot-dot", "climbs out of the working folder with more `..` than there are folders", proof="secret")
def dot_dot(given):
    return Found(read("../" * 40 + given.secret.lstrip("/")))


@probe("files/symlink", "reads through a link that leads out", proof="secret")
def symlink(given):
    os.symlink(given.secret, "link-" + given.mark)
    return Found(read("link-" + given.mark))


@probe("files/link-in-parts", "reads through a chain of links, each of which looks harmless", proof="sibling")
def link_in_parts(given):
    os.mkdir("chain-" + given.mark)
    os.symlink("../" * 40, "chain-" + given.mark + "/up")
    os.symlink("up" + os.path.dirname(given.sibling), "chain-" + given.mark + "/there")
    return Found(read("chain-" + given.mark + "/there/" + os.path.basename(given.sibling)))


@probe("files/hard-link", "gives a file of the host a second name in the working folder", proof="secret")
def hard_link(given):
    os.link(given.secret, "hard-" + given.mark)
    return Found(read("hard-" + given.mark))


@probe("files/proc-self-root", "goes through `/proc/self/root`", proof="secret")
def proc_self_root(given):
    return Found(read("/proc/self/root" + given.secret))


@probe("files/proc-self-cwd", "goes through `/proc/self/cwd` and up", proof="secret")
def proc_self_cwd(given):
    return Found(read("/proc/self/cwd/" + "../" * 40 + given.secret.lstrip("/")))


def processes():
    return sorted({int(name) for name in os.listdir("/proc") if name.isdigit()})


@probe("files/parent-root", "goes through the root folder of its parent", proof="secret")
def parent_root(given):
    return Found(read(f"/proc/{os.getppid()}/root{given.secret}"))


@probe("files/any-root", "goes through the root folder of every process there is", proof="secret")
def any_root(given):
    for pid in processes():
        try:
            return Found(read(f"/proc/{pid}/root{given.secret}"), f"through process {pid}")
        except OSError:
            pass
    return False


@probe("files/any-cwd", "looks for a file in the working folder of every process there is", proof="note")
def any_cwd(given):
    for pid in processes():
        try:
            return Found(read(f"/proc/{pid}/cwd/note"), f"through process {pid}")
        except OSError:
            pass
    return False


def openat2(folder, path, resolve):
    """Opens a file for reading with rules on how its path is resolved."""
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY | os.O_CLOEXEC, 0, resolve)
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        return must("openat2", handle, path.encode(), how, 24)
    finally:
        os.close(handle)


@probe("files/openat2-up", "climbs out of a folder by the call that says how paths are resolved", proof="secret")
def openat2_up(given):
    return Found(os.read(openat2(".", "../" * 40 + given.secret.lstrip("/"), 0), 4096))


@probe("files/openat2-in-root", "has a path resolved as if the root of the first process were its own", proof="secret")
def openat2_in_root(given):
    return Found(os.read(openat2("/proc/1/root", given.secret, 0x10), 4096))


@probe("files/openat2-beneath", "stays beneath the root folder of its parent, which is elsewhere", proof="secret")
def openat2_beneath(given):
    return Found(os.read(openat2(f"/proc/{os.getppid()}/root", given.secret.lstrip("/"), 0x08), 4096))


@probe("files/folder-handle", "keeps the root folder open, changes the root, and climbs from the old one", proof="secret")
def folder_handle(given):
    def act():
        old = os.open("/", os.O_RDONLY)
        os.mkdir("cell-" + given.mark)
        try:
            os.chroot("cell-" + given.mark)
        except PermissionError:
            leave_for(0x00020000)
            os.chroot("cell-" + given.mark)
        os.fchdir(old)
        return read("../" * 40 + given.secret.lstrip("/"))

    got, text = in_child(act)
    return Found(text) if got else (False, text)


@probe("files/by-handle", "opens a file of the host by the handle the kernel gives out for it", proof="secret")
def by_handle(given):
    # The head of a handle is its size and kind; the file system is that of the working folder, so
    # that guessed handles work too.
    handle = ctypes.create_string_buffer(struct.pack("Ii", 120, 0) + bytes(120))
    mount = ctypes.c_int()
    must("name_to_handle_at", -100, given.secret.encode(), handle, ctypes.byref(mount), 0)
    folder = os.open(".", os.O_RDONLY)
    descriptor = must("open_by_handle_at", folder, handle, os.O_RDONLY)
    return Found(os.read(descriptor, 100))


@probe("files/inode-two", "opens the root of the disk by a guessed handle")
def inode_two(given):
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))
    for path in (os.__file__, "/usr", "/etc", "."):
        folder = os.open(path, os.O_RDONLY)
        descriptor, error = call("open_by_handle_at", folder, handle, os.O_RDONLY)
        if not error:
            return True, f"{path}: {os.listdir(descriptor)[:5]}"
    return False, os.strerror(error)


@probe("files/write-outside", "writes a file into a folder of the host", judge="heard")
def write_outside(given):
    with open(f"{given.watched}/{given.mark}", "w") as file:
        file.write("here")
    return True


@probe("files/make-folders", "makes the host's folders in the sandbox and hopes that they are the same", judge="heard")
def make_folders(given):
    os.makedirs(given.watched, exist_ok=True)
    with open(f"{given.watched}/{given.mark}", "w") as file:
        file.write("here")
    return True


@probe("files/rename-out", "moves a file from the working folder into one of the host", judge="heard")
def rename_out(given):
    with open("mine-" + given.mark, "w") as file:
        file.write("here")
    os.rename("mine-" + given.mark, f"{given.watched}/{given.mark}")
    return True


@probe("files/link-outside", "plants a link in a folder of the host", judge="heard")
def link_outside(given):
    os.symlink("/nowhere", f"{given.watched}/{given.mark}")
    return True


@probe("files/pipe-outside", "writes into a named pipe that somebody on the host reads", judge="heard")
def pipe_outside(given):
    pipe = os.open(given.fifo, os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, given.mark.encode())
    return True


@probe("files/list-temporary", "lists the host's folder for temporary files, and finds ours in it")
def list_temporary(given):
    above, name = os.path.split(given.folder)
    return name in os.listdir(above), f"listed {above}"


@probe("files/change-passwords", "opens `/etc/passwd` for writing, and writes nothing")
def change_passwords(given):
    return opened("/etc/passwd", os.O_WRONLY | os.O_APPEND)


@probe("files/change-loader", "opens the loader's list of libraries for writing, and writes nothing")
def change_loader(given):
    return opened("/etc/ld.so.cache", os.O_WRONLY | os.O_APPEND)


@probe("files/change-interpreter", "opens the interpreter's own library for writing, and writes nothing")
def change_interpreter(given):
    return opened(os.path.realpath(os.__file__), os.O_WRONLY | os.O_APPEND)


@probe("files/write-programs", "makes a nameless file on the disk that holds the system's programs")
def write_programs(given):
    return opened("/usr", os.O_TMPFILE | os.O_RDWR)


@probe("files/write-root", "makes a nameless file in the root folder")
def write_root(given):
    return opened("/", os.O_TMPFILE | os.O_RDWR)


@probe("files/raw-disk", "makes a device of the disk that programs lie on, and reads its first bytes")
def raw_disk(given):
    path = "disk-" + given.mark
    os.mknod(path, stat.S_IFBLK | 0o600, os.stat(os.__file__).st_dev)
    try:
        return len(read(path, 16)) == 16
    finally:
        os.unlink(path)


@probe("files/watch-host", "watches a file that the host reads too, and learns when it does")
def watch_host(given):
    watch = libc.inotify_init1(os.O_NONBLOCK)
    if watch < 0 or libc.inotify_add_watch(watch, given.shared.encode(), 0x21) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    time.sleep(0.5)
    events = len(os.read(watch, 65536)) // 16
    return events >= 4, f"{events} events"


@probe("files/watch-host-folder", "has the kernel signal when the host reads files of a folder")
def watch_host_folder(given):
    seen = []
    signal.signal(signal.SIGIO, lambda *_: seen.append(1))
    folder = os.open(os.path.dirname(given.shared), os.O_RDONLY)
    fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.02)
    fcntl.fcntl(folder, fcntl.F_NOTIFY, 0)
    return len(seen) >= 4, f"{len(seen)} signals"


@probe("files/lease", "takes a lease on a library, which makes the host wait whenever it opens it")
def lease(given):
    # Only its owner may. It is given back at once.
    path = os.path.realpath(os.__file__)
    file = os.open(path, os.O_RDONLY)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True, f"leased {path}"


# Files that the host collects from a program, or writes for the next one. Whatever the program put in their place, what
# the host reads and writes must be the sandbox's own.


def swap(path, other):
    """Puts one file in the place of another and back, for as long as the host takes to collect them a few times."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        # Both names are always there: this is RENAME_EXCHANGE.
        libc.renameat2(-100, path.encode(), -100, other.encode(), 2)


@probe("files/collected-link", "leaves a link to a file of the host for the host to collect", judge="collected", host="collect", proof="secret")
def collected_link(given):
    os.symlink(given.secret, "result-" + given.tag)
    return True


@probe("files/collected-swap", "swaps a file with a link to one of the host while it is collected", judge="collected", host="collect", proof="secret")
def collected_swap(given):
    with open("result-" + given.tag, "w") as file:
        file.write("mine")
    os.symlink(given.secret, "other-" + given.tag)
    swap("result-" + given.tag, "other-" + given.tag)
    return True


@probe("files/collected-folder-swap", "swaps a folder with a link to one of the host while it is collected", judge="collected", host="collect", proof="secret")
def collected_folder_swap(given):
    above, name = os.path.split(given.secret)
    os.mkdir("results-" + given.tag)
    with open(f"results-{given.tag}/{name}", "w") as file:
        file.write("mine")
    os.symlink(above, "other-" + given.tag)
    swap("results-" + given.tag, "other-" + given.tag)
    return True


@probe("files/given-link", "puts a link to a file of the host where the host writes an input next", judge="heard", host="give")
def given_link(given):
    os.symlink(f"{given.watched}/{given.mark}", "given-" + given.tag)
    return True



# Probes on host files.


@probe("files/absolute-path", "reads a host file by its absolute path", proof="secret")
def absolute_path(given):
    return Found(read(given.secret))


@probe("files/dot-dot", "leaves the working folder with more `..` than it has parent folders", proof="secret")
def dot_dot(given):
    return Found(read("../" * 40 + given.secret.lstrip("/")))


@probe("files/symlink", "reads a host file through a symbolic link", proof="secret")
def symlink(given):
    os.symlink(given.secret, "link-" + given.mark)
    return Found(read("link-" + given.mark))


@probe("files/link-in-parts", "reads a host file through a chain of symbolic links", proof="sibling")
def link_in_parts(given):
    os.mkdir("chain-" + given.mark)
    os.symlink("../" * 40, "chain-" + given.mark + "/up")
    os.symlink("up" + os.path.dirname(given.sibling), "chain-" + given.mark + "/there")
    return Found(read("chain-" + given.mark + "/there/" + os.path.basename(given.sibling)))


@probe("files/hard-link", "creates a hard link to a host file in the working folder", proof="secret")
def hard_link(given):
    os.link(given.secret, "hard-" + given.mark)
    return Found(read("hard-" + given.mark))


@probe("files/proc-self-root", "reads a host file through `/proc/self/root`", proof="secret")
def proc_self_root(given):
    return Found(read("/proc/self/root" + given.secret))


@probe("files/proc-self-cwd", "reads a host file through `/proc/self/cwd` and `..`", proof="secret")
def proc_self_cwd(given):
    return Found(read("/proc/self/cwd/" + "../" * 40 + given.secret.lstrip("/")))


def processes():
    return sorted({int(name) for name in os.listdir("/proc") if name.isdigit()})


@probe("files/parent-root", "reads a host file through the root folder of its parent process", proof="secret")
def parent_root(given):
    return Found(read(f"/proc/{os.getppid()}/root{given.secret}"))


@probe("files/any-root", "reads a host file through the root folder of any visible process", proof="secret")
def any_root(given):
    for pid in processes():
        try:
            return Found(read(f"/proc/{pid}/root{given.secret}"), f"through process {pid}")
        except OSError:
            pass
    return False


@probe("files/any-cwd", "reads a file in the working folder of any visible process", proof="note")
def any_cwd(given):
    for pid in processes():
        try:
            return Found(read(f"/proc/{pid}/cwd/note"), f"through process {pid}")
        except OSError:
            pass
    return False


def openat2(folder, path, resolve):
    """Opens a file for reading with `openat2` and its path resolution flags."""
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY | os.O_CLOEXEC, 0, resolve)
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        return must("openat2", handle, path.encode(), how, 24)
    finally:
        os.close(handle)


@probe("files/openat2-up", "leaves the working folder with `..` through `openat2`", proof="secret")
def openat2_up(given):
    return Found(os.read(openat2(".", "../" * 40 + given.secret.lstrip("/"), 0), 4096))


@probe("files/openat2-in-root", "reads a host file with `openat2`, resolving the path in the root of process 1", proof="secret")
def openat2_in_root(given):
    return Found(os.read(openat2("/proc/1/root", given.secret, 0x10), 4096))


@probe("files/openat2-beneath", "reads a host file with `openat2` beneath the root folder of its parent process", proof="secret")
def openat2_beneath(given):
    return Found(os.read(openat2(f"/proc/{os.getppid()}/root", given.secret.lstrip("/"), 0x08), 4096))


@probe("files/folder-handle", "keeps the root folder open, changes the root with `chroot`, and leaves it through the open folder", proof="secret")
def folder_handle(given):
    def act():
        old = os.open("/", os.O_RDONLY)
        os.mkdir("cell-" + given.mark)
        try:
            os.chroot("cell-" + given.mark)
        except PermissionError:
            enter_namespaces(0x00020000)
            os.chroot("cell-" + given.mark)
        os.fchdir(old)
        return read("../" * 40 + given.secret.lstrip("/"))

    got, text = in_child(act)
    return Found(text) if got else (False, text)


@probe("files/by-handle", "opens a host file by its file handle", proof="secret")
def by_handle(given):
    # A file handle starts with its size and type. It is opened on the file system of the working folder, so that
    # guessed handles also work.
    handle = ctypes.create_string_buffer(struct.pack("Ii", 120, 0) + bytes(120))
    mount = ctypes.c_int()
    must("name_to_handle_at", -100, given.secret.encode(), handle, ctypes.byref(mount), 0)
    folder = os.open(".", os.O_RDONLY)
    descriptor = must("open_by_handle_at", folder, handle, os.O_RDONLY)
    return Found(os.read(descriptor, 100))


@probe("files/inode-two", "opens the root of the disk by a guessed file handle")
def inode_two(given):
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0))
    for path in (os.__file__, "/usr", "/etc", "."):
        folder = os.open(path, os.O_RDONLY)
        descriptor, error = call("open_by_handle_at", folder, handle, os.O_RDONLY)
        if not error:
            return True, f"{path}: {os.listdir(descriptor)[:5]}"
    return False, os.strerror(error)


@probe("files/write-outside", "writes a file into a host folder", judge="heard")
def write_outside(given):
    with open(f"{given.watched}/{given.mark}", "w") as file:
        file.write("here")
    return True


@probe("files/make-folders", "creates the path of a host folder in the sandbox, and writes a file there", judge="heard")
def make_folders(given):
    os.makedirs(given.watched, exist_ok=True)
    with open(f"{given.watched}/{given.mark}", "w") as file:
        file.write("here")
    return True


@probe("files/rename-out", "moves a file from the working folder into a host folder", judge="heard")
def rename_out(given):
    with open("mine-" + given.mark, "w") as file:
        file.write("here")
    os.rename("mine-" + given.mark, f"{given.watched}/{given.mark}")
    return True


@probe("files/link-outside", "creates a symbolic link in a host folder", judge="heard")
def link_outside(given):
    os.symlink("/nowhere", f"{given.watched}/{given.mark}")
    return True


@probe("files/pipe-outside", "writes to a named pipe that a host process reads", judge="heard")
def pipe_outside(given):
    pipe = os.open(given.fifo, os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, given.mark.encode())
    return True


@probe("files/list-temporary", "finds the attack's own folder in the host's folder of temporary files")
def list_temporary(given):
    above, name = os.path.split(given.folder)
    return name in os.listdir(above), f"listed {above}"


@probe("files/change-passwords", "opens `/etc/passwd` for writing")
def change_passwords(given):
    return opened("/etc/passwd", os.O_WRONLY | os.O_APPEND)


@probe("files/change-loader", "opens the dynamic loader's cache for writing")
def change_loader(given):
    return opened("/etc/ld.so.cache", os.O_WRONLY | os.O_APPEND)


@probe("files/change-interpreter", "opens the interpreter's standard library for writing")
def change_interpreter(given):
    return opened(os.path.realpath(os.__file__), os.O_WRONLY | os.O_APPEND)


@probe("files/write-programs", "creates an unnamed file on the disk with the system's programs")
def write_programs(given):
    return opened("/usr", os.O_TMPFILE | os.O_RDWR)


@probe("files/write-root", "creates an unnamed file in the root folder")
def write_root(given):
    return opened("/", os.O_TMPFILE | os.O_RDWR)


@probe("files/raw-disk", "creates a device node for the disk with the system's programs, and reads its first bytes")
def raw_disk(given):
    path = "disk-" + given.mark
    os.mknod(path, stat.S_IFBLK | 0o600, os.stat(os.__file__).st_dev)
    try:
        return len(read(path, 16)) == 16
    finally:
        os.unlink(path)


@probe("files/watch-host", "observes with inotify when the host reads a shared file")
def watch_host(given):
    watch = libc.inotify_init1(os.O_NONBLOCK)
    if watch < 0 or libc.inotify_add_watch(watch, given.shared.encode(), 0x21) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    time.sleep(0.5)
    events = len(os.read(watch, 65536)) // 16
    return events >= 4, f"{events} events"


@probe("files/watch-host-folder", "observes with directory notifications when the host reads files of a folder")
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


@probe("files/lease", "takes a lease on a library, which blocks the host when it opens that file")
def lease(given):
    # Only the owner of the file may take a lease. The lease is released at once.
    path = os.path.realpath(os.__file__)
    file = os.open(path, os.O_RDONLY)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return True, f"leased {path}"


# Probes on files that the host collects from a program, or writes for the next program. If a program replaces these
# files by links, the host must still read and write only files of the sandbox.


def swap(path, other):
    """Swaps two paths back and forth for 2 s, while the host collects files several times."""
    end = time.monotonic() + 2
    while time.monotonic() < end:
        # With RENAME_EXCHANGE (2), both names exist at all times.
        libc.renameat2(-100, path.encode(), -100, other.encode(), 2)


@probe("files/collected-link", "leaves a symbolic link to a host file for the host to collect", judge="collected", host="collect", proof="secret")
def collected_link(given):
    os.symlink(given.secret, "result-" + given.tag)
    return True


@probe("files/collected-swap", "swaps a file with a link to a host file while the host collects it", judge="collected", host="collect", proof="secret")
def collected_swap(given):
    with open("result-" + given.tag, "w") as file:
        file.write("mine")
    os.symlink(given.secret, "other-" + given.tag)
    swap("result-" + given.tag, "other-" + given.tag)
    return True


@probe("files/collected-folder-swap", "swaps a folder with a link to a host folder while the host collects it", judge="collected", host="collect", proof="secret")
def collected_folder_swap(given):
    above, name = os.path.split(given.secret)
    os.mkdir("results-" + given.tag)
    with open(f"results-{given.tag}/{name}", "w") as file:
        file.write("mine")
    os.symlink(above, "other-" + given.tag)
    swap("results-" + given.tag, "other-" + given.tag)
    return True


@probe("files/given-link", "creates a link to a host file where the host writes the next input", judge="heard", host="give")
def given_link(given):
    os.symlink(f"{given.watched}/{given.mark}", "given-" + given.tag)
    return True

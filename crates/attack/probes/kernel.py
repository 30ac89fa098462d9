

# Probes on kernel interfaces that control or reveal the state of the whole machine. Most probes only open the interface
# and write nothing to it.

WRITE = os.O_WRONLY
READ = os.O_RDONLY

FILES = {
    "core-pattern": (["/proc/sys/kernel/core_pattern"], WRITE, "opens the setting of the program that the kernel runs for crashes"),
    "module-loader": (["/proc/sys/kernel/modprobe"], WRITE, "opens the setting of the program that loads kernel modules"),
    "hotplug": (["/sys/kernel/uevent_helper", "/proc/sys/kernel/hotplug"], WRITE,
                "opens the setting of the program that the kernel runs for new devices"),
    "sysrq": (["/proc/sysrq-trigger"], WRITE, "opens the SysRq trigger, which can restart the machine"),
    "sysrq-mask": (["/proc/sys/kernel/sysrq"], WRITE, "opens the setting of the allowed SysRq functions"),
    "panic": (["/proc/sys/kernel/panic"], WRITE, "opens the setting of the reaction to a kernel panic"),
    "address-layout": (["/proc/sys/kernel/randomize_va_space"], WRITE, "opens the setting of address space randomization"),
    "overcommit": (["/proc/sys/vm/overcommit_memory"], WRITE, "opens the setting of memory overcommit"),
    "drop-caches": (["/proc/sys/vm/drop_caches"], WRITE, "opens the setting that drops the host's caches"),
    "program-formats": (["/proc/sys/fs/binfmt_misc/register"], WRITE, "opens the registration of executable formats"),
    "huge-pages": (["/sys/kernel/mm/transparent_hugepage/enabled"], WRITE, "opens the setting of huge pages in `/sys`"),
    "block-queue": (["/sys/block/vda/queue/nr_requests", "/sys/block/sda/queue/nr_requests",
                     "/sys/block/nvme0n1/queue/nr_requests", "/sys/block/loop0/queue/nr_requests"], WRITE,
                    "opens a setting of the disk in `/sys`"),
    "power": (["/sys/power/state", "/sys/power/pm_test"], WRITE, "opens the setting that suspends the machine"),
    "memory-device": (["/dev/mem", "/dev/port", "/dev/kmem"], READ, "opens the machine's physical memory"),
    "kernel-log": (["/dev/kmsg"], READ, "opens the kernel log"),
    "disk": (["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"], READ, "opens the machine's disk"),
    "loop-control": (["/dev/loop-control"], READ, "opens the control device of loop disks"),
    "virtual-machines": (["/dev/kvm"], READ, "opens the KVM device"),
    "fuse": (["/dev/fuse"], os.O_RDWR, "opens the FUSE device"),
    "tunnel": (["/dev/net/tun"], os.O_RDWR, "opens the TUN device"),
    "fault-device": (["/dev/userfaultfd"], READ, "opens the userfaultfd device"),
    "input": (["/dev/uinput", "/dev/input/event0"], READ, "opens an input device, such as a keyboard"),
}
for _name, (_paths, _flags, _description) in FILES.items():
    probe(f"kernel/{_name}", _description)(lambda given, paths=_paths, flags=_flags: any_opened(paths, flags))


@probe("kernel/memory-file", "reads the kernel's memory through `/proc/kcore`")
def memory_file(given):
    return read("/proc/kcore", 4) == b"\x7fELF"


@probe("kernel/addresses", "reads addresses of kernel symbols")
def addresses(given):
    first = read("/proc/kallsyms", 4096).split(b"\n")[0]
    return int(first.split()[0], 16) != 0, first.decode()


@probe("kernel/page-numbers", "reads the physical addresses of its own memory")
def page_numbers(given):
    page = mmap.mmap(-1, 4096)
    page[0] = 1
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // 4096 * 8)
        return struct.unpack("Q", file.read(8))[0] & ((1 << 55) - 1) != 0


@probe("kernel/messages", "reads the kernel log with `syslog`")
def messages(given):
    buffer = ctypes.create_string_buffer(1024)
    return must("syslog", 3, buffer, 1024) > 0


def groups():
    """Yields the mount points of cgroups v1 and v2."""
    for line in read("/proc/self/mounts", 1 << 20).decode().split("\n"):
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] in ("cgroup", "cgroup2"):
            yield fields[1]
    yield "/sys/fs/cgroup"


def own_groups():
    """Yields the folders of the cgroups that contain this process."""
    lines = read("/proc/self/cgroup", 65536).decode().split("\n")
    paths = {line.split(":", 2)[2] for line in lines if line.count(":") >= 2}
    for folder in groups():
        for path in sorted(paths):
            yield folder + path.rstrip("/")


@probe("kernel/release-agent", "opens the setting of the program that the kernel runs for an empty cgroup")
def release_agent(given):
    return any_opened([f"{folder}/release_agent" for folder in groups()], WRITE)


@probe("kernel/leave-groups", "opens the process list of the root cgroup, which has no limits")
def leave_groups(given):
    return any_opened([f"{folder}/cgroup.procs" for folder in groups()], WRITE)


@probe("kernel/own-group", "creates a cgroup")
def own_group(given):
    last = None
    for folder in groups():
        path = f"{folder}/assize-attack-{given.mark}"
        try:
            os.mkdir(path)
            os.rmdir(path)
            return True, path
        except OSError as error:
            last = error
    raise last


@probe("kernel/raise-limit", "opens the limits of its own cgroup for writing")
def raise_limit(given):
    names = ("memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max", "cpu.shares")
    return any_opened([f"{folder}/{name}" for folder in own_groups() for name in names], WRITE)


@probe("kernel/freeze-group", "opens the control that freezes or kills all processes of its cgroup")
def freeze_group(given):
    names = ("cgroup.kill", "cgroup.freeze", "freezer.state")
    return any_opened([f"{folder}/{name}" for folder in own_groups() for name in names], WRITE)


@probe("kernel/allow-devices", "opens the list of devices that its cgroup allows")
def allow_devices(given):
    return any_opened([f"{folder}/devices.allow" for folder in own_groups()], WRITE)


@probe("kernel/mount-groups", "mounts the cgroup file system")
def mount_groups(given):
    def act():
        must("unshare", 0x00020000)
        # Makes all mounts private, so that no other process sees new mounts.
        must("mount", b"none", b"/", 0, 0x44000, 0)
        os.mkdir("groups-" + given.mark)
        path = ("groups-" + given.mark).encode()
        if call("mount", b"none", path, b"cgroup2", 0, 0)[1]:
            must("mount", b"none", path, b"cgroup", 0, b"memory")
        return b"mounted"

    return in_child(act)


@probe("kernel/mount-proc", "mounts a complete `/proc`")
def mount_proc(given):
    def act():
        must("unshare", 0x00020000)
        must("mount", b"none", b"/", 0, 0x44000, 0)
        os.mkdir("proc-" + given.mark)
        must("mount", b"none", ("proc-" + given.mark).encode(), b"proc", 0, 0)
        return b"mounted" if os.path.exists(f"proc-{given.mark}/sys/kernel") else b""

    return in_child(act)


@probe("kernel/debugging", "lists the kernel's debugging files")
def debugging(given):
    for folder in ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security"):
        try:
            if os.listdir(folder):
                return True, folder
        except OSError:
            pass
    return False, "no debugging file is listed"


@probe("kernel/devices", "finds hardware devices in `/dev`")
def devices(given):
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    seen = []
    for name in os.listdir("/dev"):
        mode = os.lstat(f"/dev/{name}").st_mode
        if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and name not in harmless:
            seen.append(name)
    return bool(seen), f"{seen[:5]}"


@probe("kernel/randomness", "changes the kernel's entropy count")
def randomness(given):
    with open("/dev/urandom", "wb") as file:
        fcntl.ioctl(file, 0x40085203, struct.pack("ii", 0, 0))
    return True

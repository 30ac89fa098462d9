

# Probes on the guest agent, which started this program, and on the agent's channel to the host.
#
# Inside a sandbox, the guest agent is process 1. On the host, the control attacks another process of its user instead.


def guest_file(given, name):
    return f"/proc/{given.guest}/{name}"


@probe("channel/environment", "reads the guest agent's environment")
def guest_environment(given):
    read(guest_file(given, "environ"))
    return True


@probe("channel/memory-map", "reads the guest agent's memory map")
def memory_map(given):
    return len(read(guest_file(given, "maps"))) > 0


def first_mapping(given):
    """Returns the address of the guest agent's first page, or a guess if the memory map is not readable."""
    try:
        return int(read(guest_file(given, "maps")).split(b"-")[0], 16)
    except (OSError, ValueError):
        return 0x400000


@probe("channel/memory-file", "reads the guest agent's memory through `/proc`")
def guest_memory(given):
    with open(guest_file(given, "mem"), "rb", buffering=0) as memory:
        memory.seek(first_mapping(given))
        return len(memory.read(4)) == 4


@probe("channel/memory-call", "reads the guest agent's memory with `process_vm_readv`")
def guest_memory_call(given):
    buffer = ctypes.create_string_buffer(4)
    ours = struct.pack("PN", ctypes.addressof(buffer), 4)
    theirs = struct.pack("PN", first_mapping(given), 4)
    return must("process_vm_readv", given.guest, ours, 1, theirs, 1, 0) == 4


@probe("channel/memory-write", "writes to the guest agent's memory (at an invalid address)")
def guest_memory_write(given):
    buffer = ctypes.create_string_buffer(4)
    ours = struct.pack("PN", ctypes.addressof(buffer), 4)
    theirs = struct.pack("PN", 8, 4)
    _, error = call("process_vm_writev", given.guest, ours, 1, theirs, 1, 0)
    return error == errno.EFAULT, os.strerror(error)


@probe("channel/debugger", "attaches to the guest agent with `ptrace`")
def guest_debugger(given):
    must("ptrace", 0x4206, given.guest, 0, 0)
    return True


@probe("channel/descriptor-list", "lists the guest agent's open descriptors")
def descriptor_list(given):
    return len(os.listdir(guest_file(given, "fd"))) > 0


@probe("channel/descriptor-open", "opens the guest agent's channel through `/proc`")
def descriptor_open(given):
    return any_opened([guest_file(given, f"fd/{number}") for number in range(10)], os.O_WRONLY)


@probe("channel/descriptor-take", "copies the guest agent's channel with `pidfd_getfd`")
def descriptor_take(given):
    os.close(must("pidfd_getfd", must("pidfd_open", given.guest, 0), 0, 0))
    return True


@probe("channel/program", "opens the guest agent's executable for reading")
def guest_program(given):
    return opened(guest_file(given, "exe"), os.O_RDONLY)


@probe("channel/namespaces", "reads the guest agent's mount namespace")
def guest_namespaces(given):
    return bool(os.readlink(guest_file(given, "ns/mnt")))


@probe("channel/system-call", "reads the guest agent's current system call")
def guest_call(given):
    return bool(read(guest_file(given, "syscall")))


@probe("channel/root", "lists the guest agent's root folder through `/proc`")
def guest_root(given):
    return bool(os.listdir(guest_file(given, "root/")))


def state(pid):
    try:
        return read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1].decode()
    except OSError:
        return "gone"


@probe("channel/kill", "kills the guest agent", judge="guest")
def kill_guest(given):
    os.kill(given.spare[0], signal.SIGKILL)
    time.sleep(0.3)
    return state(given.spare[0]) in ("gone", "Z", "X"), state(given.spare[0])


@probe("channel/stop", "stops the guest agent with SIGSTOP", judge="guest")
def stop_guest(given):
    os.kill(given.spare[1], signal.SIGSTOP)
    time.sleep(0.3)
    return state(given.spare[1]) == "T", state(given.spare[1])


@probe("channel/signals", "sends all signals to the guest agent", judge="guest")
def signal_guest(given):
    for number in range(1, 65):
        if number not in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            try:
                os.kill(given.spare[2], number)
            except OSError:
                pass
    time.sleep(0.3)
    return state(given.spare[2]) in ("gone", "Z", "X"), state(given.spare[2])


@probe("channel/limits", "lowers the guest agent's limits on descriptors, CPU time and memory", judge="guest")
def limit_guest(given):
    pid, done = given.spare[3], []
    for name in ("RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_DATA"):
        try:
            resource.prlimit(pid, getattr(resource, name), (1, 1))
            done.append(name)
        except OSError:
            pass
    return bool(done), f"{done}"


@probe("channel/priority", "lowers the guest agent's scheduling priority", judge="guest")
def slow_guest(given):
    pid, done = given.spare[4], []
    for act in (
        lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
        lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
        lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}),
    ):
        try:
            act()
            done.append(True)
        except OSError:
            pass
    return bool(done), f"{len(done)} of 3 ways"


@probe("channel/priority-of-all", "lowers the priority of all processes of its user, including the guest agent", judge="guest")
def slow_all(given):
    # On the host, the probe slows down only its own process group, so that no other process is affected.
    def act():
        os.setpgid(0, 0)
        child = hold_still()
        which, who = (os.PRIO_USER, 0) if given.guest == 1 else (os.PRIO_PGRP, 0)
        os.setpriority(which, who, 15)
        slow = os.getpriority(os.PRIO_PROCESS, 1 if given.guest == 1 else child)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return b"slow" if slow == 15 else b""

    return in_child(act)


def hold_still():
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        signal.pause()
        os._exit(0)
    return child


@probe("channel/inherited", "reads a descriptor that its parent process left open", proof="inherited")
def inherited(given):
    for number in range(3, 1024):
        try:
            return Found(os.pread(number, 100, 0), f"descriptor {number}")
        except OSError as error:
            if error.errno != errno.EBADF:
                return Found("open", f"descriptor {number}")
    return False, "no inherited descriptor is open"


# Probes that forge results. They write a forged exit code and exit with code 7. The control is a careless runner that
# parses the output of its program as messages of the guest agent.


def frame(kind, stream, payload):
    return struct.pack("<IBI", 5 + len(payload), kind, stream) + payload


def forgery():
    reply = json.dumps({"ended": {"exit_code": 0, "micros": 1}}).encode()
    return b"".join(frame(6, stream, reply) for stream in range(1, 9))


@probe("channel/forge-output", "writes a forged result to standard output", judge="forged", exit=7)
def forge_output(given):
    os.write(1, forgery())
    return True


@probe("channel/forge-errors", "writes a forged result to standard error", judge="forged", exit=7)
def forge_errors(given):
    os.write(2, forgery())
    return True


@probe("channel/forge-anywhere", "writes a forged result to every open descriptor", judge="forged", exit=7)
def forge_anywhere(given):
    for number in range(3, 1024):
        try:
            os.write(number, forgery())
        except OSError:
            pass
    return True


@probe("channel/forge-input", "writes a forged result to standard input", judge="forged", exit=7)
def forge_input(given):
    try:
        os.write(0, forgery())
    except OSError:
        path = "/proc/self/fd/0"
        os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), forgery())
    return True


@probe("channel/endless-frame", "writes the header of a 4 GB protocol frame to standard output", judge="forged", exit=7)
def endless_frame(given):
    os.write(1, struct.pack("<IBI", 0xFFFFFFFF, 3, 1))
    return True


@probe("channel/no-frame", "writes an invalid protocol frame to standard output", judge="forged", exit=7)
def no_frame(given):
    os.write(1, struct.pack("<IBI", 5, 0xEE, 0xFFFFFFFF))
    return True


@probe("channel/closed", "closes all descriptors and exits without output", judge="forged", exit=7)
def closed(given):
    os.closerange(0, 1024)
    os._exit(7)


@probe("channel/end-by-child", "has a child process write a forged result and exit with 0", judge="forged", exit=7)
def end_by_child(given):
    if os.fork() == 0:
        os.write(1, forgery())
        os._exit(0)
    os.wait()
    return True

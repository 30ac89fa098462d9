# Common code of all probes. The same program runs inside a sandbox and, as its control, on the host.
#
# A probe tries one kind of attack and returns the result: True or False        whether the attack succeeded (bool,
# "detail")     whether the attack succeeded, and a detail for the report Found(text)          the text that the probe
# found; the runner checks whether it is the nonce of a host fixture An OSError means that the sandbox stopped the
# attack. Controls run on a real host: the effects of a probe must be small and temporary, and a probe must not change
# anything that existed before.
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import stat
import struct
import sys
import threading
import time

PROBES = {}


class Found:
    def __init__(self, text, detail=""):
        self.text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        self.detail = detail


class Given:
    """Input from the runner: paths and addresses of the fixtures, and the mark of this run."""

    def __init__(self, values):
        self.__dict__.update(values)


def probe(name, description, **more):
    def register(function):
        assert name not in PROBES, name
        PROBES[name] = (function, dict(more, name=name, description=description))
        return function

    return register


libc = ctypes.CDLL(None, use_errno=True)

# System call numbers: first on x86-64, then on architectures with the generic table, such as aarch64.
NUMBERS = {
    "ptrace": (101, 117), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "setns": (308, 268), "unshare": (272, 97), "clone": (56, 220), "clone3": (435, 435),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "reboot": (169, 142), "swapon": (167, 224), "acct": (163, 89),
    "quotactl": (179, 60), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262), "fsopen": (430, 430), "open_tree": (428, 428),
    "move_pages": (279, 239), "process_madvise": (440, 440), "syslog": (103, 116),
    "clock_settime": (227, 112), "settimeofday": (164, 170), "clock_adjtime": (305, 266),
    "socketpair": (53, 199), "getpid": (39, 172), "iopl": (172, None),
    "openat2": (437, 437),
}


def call(name, *arguments):
    """Makes a system call. Returns its value and its errno, which is 0 for success."""
    numbers = NUMBERS[name]
    number = numbers[0] if os.uname().machine == "x86_64" else numbers[1]
    if number is None:
        return -1, errno.ENOSYS
    ctypes.set_errno(0)
    plain = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    value = libc.syscall(ctypes.c_long(number), *plain)
    return value, ctypes.get_errno() if value == -1 else 0


def must(name, *arguments):
    value, error = call(name, *arguments)
    if error:
        raise OSError(error, os.strerror(error))
    return value


def answered(name, *arguments):
    """Whether the kernel executed the system call, instead of a filter or a permission check rejecting it."""
    value, error = call(name, *arguments)
    word = errno.errorcode.get(error, "success")
    return error not in (errno.EPERM, errno.ENOSYS, errno.EACCES), f"{name}: {word}"


def read(path, most=4096):
    with open(path, "rb") as file:
        return file.read(most)


def opened(path, flags):
    """Opens a path without reading or writing. Raises OSError if the path cannot be opened."""
    os.close(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY))
    return True, f"opened {path}"


def any_opened(paths, flags):
    """Opens the first path that can be opened. Raises the last error if no path can be opened."""
    last = FileNotFoundError(errno.ENOENT, "none exists")
    for path in paths:
        try:
            return opened(path, flags)
        except OSError as error:
            last = error
    raise last


def in_child(act):
    """Runs `act` in a child process, so that its changes end with the child. Returns success and its answer."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b""
        try:
            answer = act() or b""
        except OSError as error:
            answer = b"!" + os.strerror(error.errno or 0).encode()
        except BaseException as error:
            answer = b"!" + repr(error).encode()
        os.write(theirs, answer)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False, f"killed by signal {os.WTERMSIG(status)}"
    if answer.startswith(b"!"):
        return False, answer[1:].decode("utf-8", "replace")
    return bool(answer), answer.decode("utf-8", "replace")


def enter_namespaces(namespaces):
    """Moves this process to new namespaces. If that requires root, also creates a new user namespace."""
    if call("unshare", namespaces)[1]:
        must("unshare", namespaces | 0x10000000)


def print_answer(answer):
    sys.stdout.flush()
    line = ("\n" + json.dumps(answer) + "\n").encode()
    while line:
        line = line[os.write(1, line):]


def main():
    if sys.argv[1] == "list":
        print(json.dumps([about for _, about in PROBES.values()]))
        return
    function, about = PROBES[sys.argv[1]]
    answer = {"reached": False, "detail": "", "nonce": None}
    try:
        result = function(Given(json.loads(sys.argv[2])))
        if isinstance(result, Found):
            answer.update(reached=bool(result.text), detail=result.detail, nonce=result.text)
        elif isinstance(result, tuple):
            answer.update(reached=bool(result[0]), detail=result[1])
        else:
            answer.update(reached=bool(result))
    except (OSError, MemoryError, RuntimeError) as error:
        answer.update(detail=f"{type(error).__name__}: {error}")
    except Exception as error:
        answer = {"broke": f"{type(error).__name__}: {error}"}
    print_answer(answer)
    # Exits at once, without waiting for the threads or exit handlers of the probe.
    os._exit(about.get("exit", 0))

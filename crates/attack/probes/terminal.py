

# Probes on the terminal of the user that runs the sandbox.

TIOCSTI, TIOCSCTTY, TIOCLINUX = 0x5412, 0x540E, 0x541C


def terminal(path, flags=os.O_RDWR | os.O_NOCTTY):
    return os.open(path, flags | os.O_NONBLOCK)


@probe("terminal/write", "writes to a user's terminal", judge="heard")
def write_terminal(given):
    os.write(terminal(given.terminals[0]), given.mark.encode())
    return True


@probe("terminal/read", "reads what a user types", proof="typed")
def read_terminal(given):
    typed = terminal(given.terminals[1])
    for _ in range(20):
        try:
            return Found(os.read(typed, 4096).split(b"\n")[0])
        except BlockingIOError:
            time.sleep(0.05)
    return False, "no input from the terminal"


@probe("terminal/type", "injects input into a user's terminal", judge="heard")
def type_terminal(given):
    def act():
        os.setsid()
        typed = terminal(given.terminals[2], os.O_RDWR)
        for letter in given.mark + "\n":
            fcntl.ioctl(typed, TIOCSTI, letter.encode())
        return b"typed"

    return in_child(act)


@probe("terminal/type-on-its-own", "injects input into a new terminal of its own")
def type_own(given):
    def act():
        os.setsid()
        _, slave = os.openpty()
        fcntl.ioctl(slave, TIOCSCTTY, 0)
        fcntl.ioctl(slave, TIOCSTI, b"x")
        return b"typed"

    return in_child(act)


@probe("terminal/take-over", "makes a user's terminal its controlling terminal")
def take_over(given):
    def act():
        os.setsid()
        fcntl.ioctl(terminal(given.terminals[3]), TIOCSCTTY, 0)
        return b"taken"

    return in_child(act)


@probe("terminal/console", "opens the machine's console for writing")
def console(given):
    return any_opened(["/dev/console", "/dev/tty0", "/dev/tty1"], os.O_WRONLY)


@probe("terminal/screen", "opens the contents of the machine's screen")
def screen(given):
    return any_opened(["/dev/vcs1", "/dev/vcs"], os.O_RDONLY)


@probe("terminal/serial", "opens the machine's serial port")
def serial(given):
    return any_opened(["/dev/ttyS0", "/dev/hvc0", "/dev/ttyAMA0"], os.O_RDWR)


@probe("terminal/paste", "pastes the selection into the machine's console")
def paste(given):
    def act():
        console = terminal("/dev/tty1")
        try:
            # The subcode is invalid, so that nothing is pasted.
            fcntl.ioctl(console, TIOCLINUX, b"\x7f")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        return b"asked"

    return in_child(act)

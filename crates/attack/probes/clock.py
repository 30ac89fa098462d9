

# The clock, which everybody on the machine shares.


@probe("clock/set", "sets the clock to a time that does not exist", syscall=True)
def set_clock(given):
    return answered("clock_settime", 0, struct.pack("ll", 0, -1))


@probe("clock/set-the-old-way", "sets the clock to a time that does not exist, the old way", syscall=True)
def set_the_old_way(given):
    return answered("settimeofday", struct.pack("ll", 0, -1), 0)


@probe("clock/rate", "has the clock run at the rate at which it runs")
def rate(given):
    # A timex: what is to be set comes first; the length of a tick is its twelfth word.
    timex = ctypes.create_string_buffer(256)
    must("clock_adjtime", 0, timex)
    tick = struct.unpack_from("q", timex.raw, 88)[0]
    struct.pack_into("I", timex, 0, 0x4000)
    struct.pack_into("q", timex, 88, tick)
    must("clock_adjtime", 0, timex)
    return True, f"a tick of {tick} µs"


@probe("clock/hardware", "opens the clock that runs while the machine is off")
def hardware(given):
    return any_opened(["/dev/rtc0", "/dev/rtc"], os.O_RDONLY)


@probe("clock/wake-up", "has the machine woken up from sleep for it")
def wake_up(given):
    for number in (8, 9):
        timer = libc.timerfd_create(number, 0)
        if timer < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        os.close(timer)
    return True


@probe("clock/precise-clock-device", "opens the precise clock of a network card or of the machine outside")
def precise_clock(given):
    return any_opened(["/dev/ptp0", "/dev/pps0", "/dev/hpet"], os.O_RDONLY)


@probe("clock/slack", "has a process of the host woken up later than it asked for")
def slack(given):
    path = f"/proc/{given.spares[1]}/timerslack_ns"
    now = read(path)
    with open(path, "wb", buffering=0) as file:
        file.write(now)
    return True

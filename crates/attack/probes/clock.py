

# Probes on the clock, which all processes of the machine share.


@probe("clock/set", "sets the clock (to an invalid time) with `clock_settime`", syscall=True)
def set_clock(given):
    return answered("clock_settime", 0, struct.pack("ll", 0, -1))


@probe("clock/set-the-old-way", "sets the clock (to an invalid time) with `settimeofday`", syscall=True)
def set_the_old_way(given):
    return answered("settimeofday", struct.pack("ll", 0, -1), 0)


@probe("clock/rate", "sets the rate of the clock (to its current rate)")
def rate(given):
    # In `struct timex`, the mode is the first field, and the tick length is the twelfth 64-bit word.
    timex = ctypes.create_string_buffer(256)
    must("clock_adjtime", 0, timex)
    tick = struct.unpack_from("q", timex.raw, 88)[0]
    struct.pack_into("I", timex, 0, 0x4000)
    struct.pack_into("q", timex, 88, tick)
    must("clock_adjtime", 0, timex)
    return True, f"a tick of {tick} µs"


@probe("clock/hardware", "opens the hardware clock")
def hardware(given):
    return any_opened(["/dev/rtc0", "/dev/rtc"], os.O_RDONLY)


@probe("clock/wake-up", "creates a timer that wakes the machine from sleep")
def wake_up(given):
    for number in (8, 9):
        timer = libc.timerfd_create(number, 0)
        if timer < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        os.close(timer)
    return True


@probe("clock/precise-clock-device", "opens a precise hardware clock, such as that of a network card or hypervisor")
def precise_clock(given):
    return any_opened(["/dev/ptp0", "/dev/pps0", "/dev/hpet"], os.O_RDONLY)


@probe("clock/slack", "changes the timer slack of a host process")
def slack(given):
    path = f"/proc/{given.spares[1]}/timerslack_ns"
    now = read(path)
    with open(path, "wb", buffering=0) as file:
        file.write(now)
    return True

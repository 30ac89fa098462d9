# Runs in every Python interpreter of a sandbox, after its startup and before the program. Compiling a module takes the
# interpreter two milliseconds, so jails do the same in one line of `assize.pth`.
import os
import sys


def _begin():
    # Line buffering, so that output is visible as it is printed.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)
    if "ASSIZE_GATE" in os.environ:
        import assize_gate

        assize_gate.wait()
    # Hides the folder of this file from the program. The folder is the first entry of the search path and of
    # PYTHONPATH.
    folder = sys.path.pop(0)
    if os.environ.get("PYTHONUSERBASE") == folder:
        del os.environ["PYTHONUSERBASE"]
    _, _, rest = os.environ.pop("PYTHONPATH", "").partition(":")
    if rest:
        os.environ["PYTHONPATH"] = rest


_begin()
del _begin

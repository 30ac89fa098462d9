# Run by every interpreter of a sandbox, after its start and before the program under trial.
import os
import sys


def _begin():
    # What is printed is seen as it comes, a line at a time.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)
    if "ASSIZE_GATE" in os.environ:
        import assize_gate

        assize_gate.wait()
    # We leave as we came. Our own folder is the first of the search path.
    del sys.path[0]
    _, _, rest = os.environ.pop("PYTHONPATH", "").partition(":")
    if rest:
        os.environ["PYTHONPATH"] = rest


_begin()
del _begin

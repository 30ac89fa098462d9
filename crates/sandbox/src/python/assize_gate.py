"""Waits, with what programs commonly use imported, until there is a program to run.

Every module also costs at the end of the interpreter: what takes long to be torn down (dataclasses,
traceback and all that they bring along) is left to those who need it.
"""
import bisect, collections, copy, csv, datetime, decimal, enum, functools, gc, heapq  # noqa
import io, itertools, json, math, operator, os, pathlib, random, re, statistics  # noqa
import string, sys, time, typing  # noqa


CODE = "/tmp/code.py"


def rehearse():
    """Has a child do all that a program does, to its very end.

    Where code is translated when it is first met, this is when that is done, and not when somebody waits.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os.unlink(CODE)
        return b""
    nothing = os.open("/dev/null", os.O_RDWR)
    for output in (1, 2):
        os.dup2(nothing, output)
    with open(CODE, "w") as file:
        file.write("print(1)\n")
    return json.dumps({"args": [], "env": dict(os.environ), "cwd": os.getcwd()}).encode() + b"\n"


def wait():
    gate = int(os.environ["ASSIZE_GATE"])
    # Nothing that is there now need ever be looked through again: not while it runs, not at its end.
    gc.collect()
    gc.freeze()
    order = rehearse() if "ASSIZE_REHEARSE" in os.environ else b""
    if not order:
        os.write(gate, b"!")
    while not order.endswith(b"\n"):
        piece = os.read(gate, 65536)
        if not piece:
            os._exit(0)
        order += piece
    os.close(gate)
    order = json.loads(order)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv[1:] = order["args"]
    # The folders that were named since the start, after our own, which is about to go.
    named = os.environ.get("PYTHONPATH", "").split(":")[1:]
    sys.path[1:1] = [folder for folder in named if folder not in sys.path]
    random.seed()

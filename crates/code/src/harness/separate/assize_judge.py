"""The judge's view of the program under test: a module whose functions and classes run in the program's process."""

import ast
import builtins
import os
import sys
import traceback
import types

from assize_peer import Peer
from assize_values import CannotCross

# First byte of the message with the test report. Messages to the program begin with a brace.
REPORT = b"R"


class Judge(Peer):
    def __init__(self, descriptor):
        super().__init__(descriptor, is_judge=True)
        self.show_printed = self._show_printed

    def _show_printed(self, stream, text):
        # A test may have replaced the stream, to see what the program prints.
        getattr(sys, "stderr" if stream == "stderr" else "stdout").write(str(text))

    def _check(self, reference, target, operation, name):
        if operation != "input":
            super()._check(reference, target, operation, name)

    def perform_more(self, operation, target, name, args, kwargs):
        if operation == "input":
            return str(builtins.input(*[str(one) for one in args]))
        return super().perform_more(operation, target, name, args, kwargs)

    def load(self, path, tests):
        """Runs the program and returns its module. `tests` is the syntax tree of the tests."""
        names, parts = self.call("load", None, None, (path,))
        module = Solution("solution")
        vars(module).update({name: value for name, value in parts.items() if type(name) is str})
        vars(module)["__all__"] = [name for name in names if type(name) is str and not name.startswith("_")]
        used = {node.id for node in ast.walk(tests) if isinstance(node, ast.Name)}
        used |= {node.attr for node in ast.walk(tests) if isinstance(node, ast.Attribute)}
        # A class that is called like a function is not a class that the tests are about.
        classes = {name for name in used if name[:1].isupper()}
        self.stand_ins.is_tested = lambda cls: any(one.__name__ in classes for one in cls.__mro__)
        return module

    def report(self, report):
        data = REPORT + report
        data = len(data).to_bytes(4, "big") + data
        with self.lock:
            while data:
                data = data[os.write(self.descriptor, data) :]


def explain(error):
    """Describes an error of a test, without the frames of these modules, and with the traceback of the program."""
    described = traceback.TracebackException(type(error), error, error.__traceback__)
    folder = os.path.dirname(os.path.abspath(__file__))
    chain = [described]
    while chain:
        one = chain.pop()
        frames = [frame for frame in one.stack if os.path.dirname(os.path.abspath(frame.filename)) != folder]
        one.stack = traceback.StackSummary.from_list(frames)
        chain += [other for other in (one.__cause__, one.__context__) if other is not None]
    text = "".join(described.format()).strip()
    of_program = getattr(error, "_assize_traceback", None)
    return "%s\n\nIn the program:\n%s" % (text, of_program.strip()) if of_program else text


class Solution(types.ModuleType):
    """Module of the program. Its functions and classes are stand-ins; other globals are read at each use."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        from assize_stand_ins import connection

        return connection.call("global", None, name)

    def __setattr__(self, name, value):
        raise CannotCross("the tests cannot replace `%s` in the program, which runs in another sandbox" % name)

    __delattr__ = lambda self, name: self.__setattr__(name, None)

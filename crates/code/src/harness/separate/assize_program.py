"""Process of the program under test: runs the program, and answers the calls of the tests."""

import builtins
import importlib.util
import io
import os
import sys
import types

from assize_peer import Peer

# What is printed beyond this size between two messages goes to the standard streams of this process.
MAX_PRINTED = 1 << 20


class Collector(io.RawIOBase):
    """Stream that keeps what the program prints until the next message to the tests."""

    def __init__(self, descriptor):
        self.descriptor, self.pieces, self.size = descriptor, [], 0

    def writable(self):
        return True

    def fileno(self):
        return self.descriptor

    def write(self, data):
        data = bytes(data)
        if self.size + len(data) > MAX_PRINTED:
            os.write(self.descriptor, data)
        else:
            self.pieces.append(data)
            self.size += len(data)
        return len(data)

    def take(self):
        data = b"".join(self.pieces)
        self.pieces, self.size = [], 0
        return data.decode("utf-8", "replace")


class Program(Peer):
    def __init__(self, descriptor):
        self.module = None
        self.collectors = {"stdout": Collector(1), "stderr": Collector(2)}
        for name, collector in self.collectors.items():
            setattr(sys, name, io.TextIOWrapper(collector, "utf-8", "backslashreplace", write_through=True))
        super().__init__(descriptor, is_judge=False)
        self.take_printed = self._take_printed
        builtins.input = lambda prompt="": self.call("input", None, None, (str(prompt),))

    def _take_printed(self):
        printed = [[name, collector.take()] for name, collector in self.collectors.items()]
        return [[name, text] for name, text in printed if text]

    def perform_more(self, operation, target, name, args, kwargs):
        if operation == "load":
            return self._load(*args)
        if operation == "global":
            return getattr(self.module, name)
        return super().perform_more(operation, target, name, args, kwargs)

    def _load(self, path):
        """Runs the program. Returns the names of its globals, and its functions and classes."""
        spec = importlib.util.spec_from_file_location("solution", path)
        module = self.module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = module
        spec.loader.exec_module(module)
        names, parts = [], {}
        for name, value in vars(module).items():
            if name.startswith("__") or isinstance(value, types.ModuleType):
                continue
            names.append(name)
            if isinstance(value, (type, types.FunctionType)):
                parts[name] = value
        return names, parts


Program(int(sys.argv[1]) if len(sys.argv) > 1 else 3).serve()

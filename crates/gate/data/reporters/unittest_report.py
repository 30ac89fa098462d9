"""Runs `python3 -m unittest` and writes each test's outcome as a line of JSON: REPORT ARGUMENTS..."""

import json
import os
import sys
import unittest

# Processes that tests start with `multiprocessing` load this file under another name.
report = None
if __name__ == "__main__":
    report = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    # As with `-m`: import modules from the current folder, not from the folder of this script.
    sys.path[0] = os.getcwd()


def write(record, report=report, write=os.write, dumps=json.dumps):
    write(report, (dumps(record) + "\n").encode())


def file_of(test):
    return getattr(sys.modules.get(type(test).__module__), "__file__", None)


class Result(unittest.TextTestResult):
    def record(self, test, outcome):
        write({"name": test.id(), "file": file_of(test), "outcome": outcome})

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.record(test, "passed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.record(test, "failed")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record(test, "failed")


class Runner(unittest.TextTestRunner):
    resultclass = Result

    def __init__(self, **options):
        # Every test is run, so that all of them are in the report.
        options["failfast"] = False
        super().__init__(**options)

    def run(self, test):
        result = super().run(test)
        write({"finished": True})
        return result


if __name__ == "__main__":
    unittest.main(module=None, argv=["python3 -m unittest", *sys.argv[2:]], testRunner=Runner)

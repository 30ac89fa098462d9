"""A pytest plugin that writes each test's outcome as a line of JSON to $ASSIZE_REPORT."""

import json
import os


def pytest_configure(config):
    # Workers of pytest-xdist send their reports to the process that started them.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(os.environ["ASSIZE_REPORT"], str(config.rootpath)))


class Report:
    def __init__(self, path, root):
        self.root = root
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.report = os.open(path, flags, 0o600)
        self.outcomes = {}

    def write(self, record, write=os.write, dumps=json.dumps):
        write(self.report, (dumps(record) + "\n").encode())

    def pytest_runtest_logreport(self, report):
        # One record for each test, after its last phase.
        worst = self.outcomes.setdefault(report.nodeid, report.outcome)
        if report.outcome in ("failed", "rerun") or (report.outcome == "skipped" and worst == "passed"):
            self.outcomes[report.nodeid] = report.outcome
        if report.when == "teardown":
            outcome = self.outcomes.pop(report.nodeid)
            # pytest-rerunfailures runs the test again.
            if outcome == "rerun":
                return
            file = os.path.join(self.root, report.fspath)
            self.write({"name": report.nodeid, "file": file, "outcome": outcome})

    def pytest_collectreport(self, report):
        if report.failed:
            self.write({"name": report.nodeid, "file": None, "outcome": "failed"})

    def pytest_sessionfinish(self, session, exitstatus):
        self.write({"finished": True})

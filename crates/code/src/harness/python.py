"""Test harness: runs a user's tests against a program, and writes a report only after all tests have finished.

The harness reads the tests and the name of the report file from standard input before the program runs. It also stores
references to the functions that it needs later, so that a program that changes files, modules or exit handlers does not
affect the result. If the process exits before the tests have finished, there is no report.
"""


def harness():
    import ast
    import asyncio
    import builtins
    import importlib.util
    import json
    import linecache
    import os
    import sys
    import traceback
    import types
    import unittest

    code_path, tests_path, longest, max_listed = "/tmp/code.py", "/tmp/tests.py", 2000, 50
    dumps, leave, write = json.dumps, os._exit, os.write
    format_exception, extract_tb = traceback.format_exception, traceback.extract_tb
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    function, generators = types.FunctionType, (types.GeneratorType, types.AsyncGeneratorType)
    coroutine, run_coroutine, testcase = types.CoroutineType, asyncio.run, unittest.TestCase
    load_case = unittest.TestLoader().loadTestsFromTestCase

    with os.fdopen(os.dup(0)) as given:
        todo = json.load(given)
    # If the program runs in another sandbox, this is the connection to it.
    judge = None
    if "separate" in todo:
        sys.path.insert(0, todo["separate"])
        import assize_judge

        sys.path.pop(0)
        judge = assize_judge.Judge(3)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Hide the harness from the program, which could change the harness through `__main__`.
    sys.modules["__main__"] = types.ModuleType("__main__")
    passed, wrong = [], []

    def why(error):
        if judge:
            return assize_judge.explain(error)[-longest:]
        return "".join(format_exception(error)).strip()[-longest:]

    def fail(name, error):
        wrong.append({"name": str(name), "error": error if isinstance(error, str) else why(error)})

    class Results(unittest.TestResult):
        def addSuccess(self, test):
            passed.append(str(test))

        def addFailure(self, test, error):
            fail(test, error[1])

        addError = addFailure

        def addSkip(self, test, reason):
            method = getattr(test, getattr(test, "_testMethodName", ""), None)
            meant = getattr(type(test), "__unittest_skip__", False) or getattr(method, "__unittest_skip__", False)
            if not meant:
                fail(test, "the program under test skipped this test")

        def addUnexpectedSuccess(self, test):
            fail(test, "the test was expected to fail, but it passed")

        def addSubTest(self, test, subtest, error):
            if error is not None:
                fail(subtest, error[1])

    class Watcher:
        """pytest plugin that records the results of the tests."""

        remaining = 0

        def pytest_collection_finish(self, session):
            self.remaining = len(session.items)

        def pytest_runtest_logfinish(self):
            self.remaining -= 1

        def pytest_collectreport(self, report):
            if report.failed:
                fail("before the first test", report.longreprtext[-longest:])

        def pytest_runtest_makereport(self, item, call):
            # A skip that was raised by the program under test counts as a failure.
            frames = extract_tb(call.excinfo.tb) if call.excinfo and call.excinfo.typename == "Skipped" else []
            if any(frame.filename == code_path for frame in frames):
                fail(item.nodeid, "the program under test skipped this test")

        def pytest_runtest_logreport(self, report):
            if report.failed:
                fail(report.nodeid, report.longreprtext[-longest:])
            elif report.passed and report.when == "call":
                passed.append(report.nodeid)

    def imported(tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (one.name.split(".")[0] for one in node.names)
            if isinstance(node, ast.ImportFrom):
                yield (node.module or "").split(".")[0]

    def load_program(tests):
        if judge:
            module = sys.modules["solution"] = judge.load(code_path, tests)
            return module
        spec = importlib.util.spec_from_file_location("solution", code_path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = module
        spec.loader.exec_module(module)
        return module

    def load_tests(text, names):
        module = types.ModuleType("tests")
        module.__file__ = tests_path
        vars(module).update(names)
        sys.modules["tests"] = module
        linecache.cache[tests_path] = (len(text), None, text.splitlines(True), tests_path)
        exec(compile(text, tests_path, "exec"), vars(module))
        return module

    def public(program):
        """Returns the program's names that become globals of the tests, without those that shadow builtins or hooks."""
        taken = set(vars(builtins)) | {"load_tests", "setUpModule", "tearDownModule"}
        return {
            name: getattr(program, name)
            for name in (program.__all__ if judge else list(vars(program)))
            if not name.startswith("_") and name not in taken and not name.lower().startswith("test")
        }

    def plain_tests(module):
        """Yields the functions and methods whose names mark them as tests, as in pytest."""
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != "tests":
                continue
            if name.startswith("test") and isinstance(value, function):
                yield name, value
            plain = isinstance(value, type) and not issubclass(value, testcase)
            if name.startswith("Test") and plain:
                for method in [method for method in dir(value) if method.startswith("test")]:
                    yield f"{name}.{method}", lambda value=value, method=method: getattr(value(), method)()

    def run_plain(tree, text, program):
        tests = load_tests(text, public(program))
        found = 0
        for value in list(vars(tests).values()):
            own = isinstance(value, type) and issubclass(value, testcase) and value.__module__ == "tests"
            if own:
                suite = load_case(value)
                found += suite.countTestCases()
                suite.run(Results())
        for name, test in plain_tests(tests):
            found += 1
            try:
                result = test()
                if isinstance(result, coroutine):
                    run_coroutine(result)
                elif isinstance(result, generators):
                    raise TypeError("a test function must not yield, because it is not run to its end")
                passed.append(name)
            except BaseException as error:
                fail(name, error)
        # A test file with only plain assertions, without test functions, counts as one passed test. Definitions alone
        # do not count as a test.
        quiet = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign)
        acts = [node for node in tree.body if not isinstance(node, quiet)]
        acts = [node for node in acts if not isinstance(node, ast.Expr) or isinstance(node.value, (ast.Call, ast.Await))]
        if acts and not found and not wrong:
            passed.append("the test file")

    def run_pytest(text):
        import pytest
        options = ["-q", "-c", os.devnull, "--rootdir=/tmp", "-p", "no:cacheprovider", tests_path]
        main, create = pytest.main, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        watcher = Watcher()

        def start():
            file = os.open(tests_path, create, 0o600)
            write(file, text.encode())
            os.close(file)
            main(options, plugins=[watcher])
            if watcher.remaining:
                fail("the test session", "the program under test ended the test session before all tests had run")

        return start

    def run_tests(text):
        """Runs the tests. Returns why the tests cannot be run with any program, or None."""
        try:
            tree = ast.parse(text, tests_path)
            # Import pytest before the program runs, so that the program cannot change the module.
            start_pytest = run_pytest(text) if "pytest" in set(imported(tree)) else None
        except (SyntaxError, ValueError, ModuleNotFoundError) as error:
            return why(error)
        try:
            program = load_program(tree)
            if start_pytest:
                start_pytest()
            else:
                run_plain(tree, text, program)
        except ModuleNotFoundError as error:
            ours = [frame.filename for frame in extract_tb(error.__traceback__)]
            ours = [name for name in ours if name in (code_path, tests_path)][-1:]
            if ours == [tests_path] and (error.name or "").split(".")[0] != "solution":
                return why(error)
            fail("before the first test", error)
        except BaseException as error:
            fail("before the first test", error)
        return None

    broken = run_tests(todo["tests"])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    listed = wrong[:max_listed]
    report = {"passed": len(passed), "failed": listed, "failed_not_listed": len(wrong) - len(listed), "broken": broken}
    if judge:
        judge.report(dumps({**report, "nonce": todo["record"], "asked": judge.stand_ins.asked}).encode())
        leave(1 if wrong or broken else 0)
    record = dumps(report).encode()
    file = os.open(f"/tmp/{todo['record']}", flags, 0o600)
    while record:
        record = record[write(file, record):]
    # Exit immediately, so that exit handlers of the program cannot change the report.
    leave(1 if wrong or broken else 0)


harness()

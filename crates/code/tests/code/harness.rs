//! Tests of the test harnesses and of expected output.

use assize_code::{CodeFailure, CodeTask, CodeVerdict};
use assize_sandbox::Language;

use crate::fixture::{Fixture, Script, code, critique};

async fn tested(fixture: &Fixture, language: Language, program: &str, tests: &str) -> CodeVerdict {
    let model = Script::new([code(program), critique("x", "y")]);
    let tests = Some(tests.to_owned());
    let task = CodeTask { language, tests, max_attempts: 1, ..CodeTask::new("pass the tests") };
    let result = fixture.run_task(&model, task).await;
    assert!(model.prompt(0).contains("All of them must pass"));
    result.verdict.unwrap()
}

const TESTS: &str = "
import unittest
from solution import double

assert double(1) == 2

def test_two(): assert double(2) == 4
def test_text(): assert solution_name() == 'doubler'

class More(unittest.TestCase):
    def test_zero(self): self.assertEqual(double(0), 0)
    def test_many(self):
        for n in range(3):
            with self.subTest(n=n): self.assertEqual(double(n), n + n)
";

#[tokio::test(flavor = "multi_thread")]
async fn failed_tests_are_reported_and_fail_the_attempt() {
    let fixture = Fixture::new().await;
    let program = "def double(n): return n * 2\ndef solution_name(): return 'doubler'\nif __name__ == '__main__': print('doubler')";
    let passed = tested(&fixture, Language::Python, program, TESTS).await;
    assert!(passed.success, "{passed:?}");
    // The answer is the output of the program itself, not of the tests.
    assert_eq!(passed.answer.as_deref(), Some("doubler\n"));
    let report = passed.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
    assert_eq!((report.passed, report.failed.len()), (4, 0));

    let program =
        "def double(n): return n + 1 if n == 1 else n * 3\ndef solution_name(): return 'tripler'";
    let failed = tested(&fixture, Language::Python, program, TESTS).await;
    assert_eq!(failed.error.as_deref(), Some("3 of 4 tests failed"), "{failed:?}");
    let report = failed.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
    assert!(report.failed.iter().any(|test| test.name == "test_text"), "{report:?}");
    assert!(report.failed[0].error.contains("AssertionError"), "{report:?}");

    let broken = tested(&fixture, Language::Python, "1 / 0", TESTS).await;
    assert_eq!(broken.error.as_deref(), Some("the program exited with code 1"));
    let by_itself = "def double(n): return n * 2\nif __name__ == '__main__': raise SystemExit(9)";
    let broken = tested(&fixture, Language::Python, by_itself, "assert double(1) == 2").await;
    assert_eq!(broken.error.as_deref(), Some("the program exited with code 9"));
    let plain = tested(&fixture, Language::Python, "x = 1", "assert x == 1").await;
    assert!(plain.success, "{plain:?}");
}

/// The report lists only the first failed tests, but counts all of them.
#[tokio::test(flavor = "multi_thread")]
async fn all_failed_tests_are_counted() {
    let fixture = Fixture::new().await;
    let python = "for n in range(60): exec(f'def test_{n}(): assert {n} >= 55')";
    let javascript =
        "for (let n = 0; n < 60; n += 1) exports[`test_${n}`] = () => { if (n < 55) throw n; };";
    for (language, tests) in [(Language::Python, python), (Language::JavaScript, javascript)] {
        if language == Language::JavaScript && !has_node() {
            continue;
        }
        let verdict = tested(&fixture, language, "1", tests).await;
        assert_eq!(verdict.error.as_deref(), Some("55 of 60 tests failed"), "{verdict:?}");
        let report = verdict.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
        assert_eq!((report.failed.len(), report.failed_not_listed), (50, 5));
    }
}

/// Code that looks like a test must either run or make the attempt fail.
#[tokio::test(flavor = "multi_thread")]
async fn tests_that_do_not_run_never_count_as_passed() {
    let fixture = Fixture::new().await;
    for tests in [
        "class TestX:\n    def test_one(self): assert False",
        "def check(candidate): assert False",
        "{\"task_id\": \"a\", \"test\": \"assert False\"}",
        "async def test_one(): assert False",
        "def test_one():\n    yield 1",
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test_one(self): pass",
    ] {
        let verdict = tested(&fixture, Language::Python, "x = 1", tests).await;
        assert!(!verdict.success, "{tests}");
    }
    let fine =
        "class TestX:\n    def test_one(self): assert x == 1\nasync def test_two(): assert x == 1";
    assert!(tested(&fixture, Language::Python, "x = 1", fine).await.success);
    // A Bash program cannot disable the detection of failures with shell options.
    let tests = "source \"$SOLUTION\"\ntest_add() { [ \"$(add 1 2)\" = 3 ]; }";
    let verdict = tested(&fixture, Language::Bash, "set +e\nadd() { echo 4; }", tests).await;
    assert!(!verdict.success);
    assert!(tested(&fixture, Language::Bash, "add() { echo $(($1 + $2)); }", tests).await.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_exits_before_the_tests_finish_fails() {
    let fixture = Fixture::new().await;
    let tests = "from solution import double\ndef test_one(): assert double(1) == 2";
    for program in [
        "import os; os._exit(0)",
        "def double(n):\n    import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys, threading\nthreading.Timer(0, lambda: __import__('os')._exit(0)).start()\n__import__('time').sleep(5)",
    ] {
        let left = tested(&fixture, Language::Python, program, tests).await;
        assert!(!left.success, "{program}");
    }
    let left = tested(&fixture, Language::Python, "import os; os._exit(0)", tests).await;
    assert_eq!(left.history[0].error, Some(CodeFailure::LeftEarly));
    // The harness catches `SystemExit` and reports it as a failed test.
    let left = tested(&fixture, Language::Python, "raise SystemExit(0)", tests).await;
    assert_eq!(left.error.as_deref(), Some("1 of 1 tests failed"));
}

/// Each program changes files, modules or hooks that the harness uses.
#[tokio::test(flavor = "multi_thread")]
async fn program_cannot_pass_tests_by_tampering_with_the_harness() {
    let fixture = Fixture::new().await;
    let plain = "from solution import add\ndef test_add(): assert add(1, 2) == 3";
    let cases = "import unittest\nfrom solution import add\nclass T(unittest.TestCase):\n    def test_add(self): self.assertEqual(add(1, 2), 3)\n    def test_other(self): pass";
    let assertions = "assert all(add(n, 1) == n + 1 for n in range(3))";
    for (program, tests) in [
        ("open('/tmp/tests.py', 'w').write('')", plain),
        (
            "import json; json.dump = json.dumps = lambda *_: '{\"passed\": 1, \"failed\": []}'",
            plain,
        ),
        ("import __main__; __main__.plain_tests = lambda _: []", plain),
        ("import inspect; inspect.isfunction = lambda _: False", plain),
        ("import unittest\ndef load_tests(*_): return unittest.TestSuite()", cases),
        ("import unittest\ndef add(a, b): raise unittest.SkipTest('no')", cases),
        ("import unittest\nclass TestOwn(unittest.TestCase):\n    def test(self): pass", cases),
        ("def all(_): return True", assertions),
        (
            "import atexit, os, glob\ndef end():\n    for one in glob.glob('/tmp/*'):\n        if len(one) > 60: open(one, 'w').write('{\"passed\": 1, \"failed\": []}')\n    os._exit(0)\natexit.register(end)",
            plain,
        ),
    ] {
        // The wrong definition of `add` comes first, so that a definition of `add` in the program replaces it.
        let program = format!("def add(a, b): return 0\n{program}");
        let verdict = tested(&fixture, Language::Python, &program, tests).await;
        let report = verdict.history[0].execution.as_ref().unwrap().tests.clone();
        let failed = report.is_some_and(|report| !report.failed.is_empty());
        assert!(!verdict.success && failed, "{program}: {:?}", verdict.error);
    }
    let tests = "source \"$SOLUTION\"\ntest_add() { [ \"$(add 1 2)\" = 3 ]; }";
    let lines = "source \"$SOLUTION\"\n[ \"$(add 1 2)\" = 3 ]\ntrue";
    for program in ["set -e; trap true ERR; set +e", "compgen() { :; }", "set +e; trap - ERR"] {
        for tests in [tests, lines] {
            let program = format!("add() {{ echo 0; }}\n{program}");
            assert!(!tested(&fixture, Language::Bash, &program, tests).await.success, "{program}");
        }
    }
    // A correct program passes although it changes shell settings.
    let fine = "IFS=,\ntest_own() { false; }\nadd() { echo $(($1 + $2)); }";
    let two = format!("{tests}\ntest_more() {{ [ \"$(add 2 2)\" = 4 ]; }}");
    let verdict = tested(&fixture, Language::Bash, fine, &two).await;
    assert!(verdict.success, "{verdict:?}");
    if !has_node() {
        return;
    }
    let own = "const assert = require('assert');\nconst { add } = require('solution');\nexports.test_add = () => assert.strictEqual(add(1, 2), 3);";
    let waits = "const assert = require('node:assert');\n(async () => { await null; assert.equal(add(1, 2), 3); })();";
    let runner = "const { test } = require('node:test');\ntest('add', async () => { await new Promise(r => setTimeout(r, 50)); if (add(1, 2) !== 3) throw 'x'; });";
    for program in [
        "require('fs').writeFileSync('/tmp/tests.js', '')",
        "JSON.stringify = () => '{\"passed\": 1, \"failed\": []}'",
        "require('assert').strictEqual = require('assert').equal = () => {}",
        "process.on('exit', () => { process.exitCode = 0; })",
        "process.on('unhandledRejection', () => {})",
        "setTimeout(() => process.exit(0), 20)",
    ] {
        for tests in [own, waits, runner] {
            let program = format!("exports.add = () => 0;\n{program}");
            let verdict = tested(&fixture, Language::JavaScript, &program, tests).await;
            assert!(!verdict.success, "{program}: {tests}");
        }
    }
    let fine = "require('fs').readFileSync(0);\nexports.add = (a, b) => a + b;";
    for tests in [own, waits, runner] {
        let verdict = tested(&fixture, Language::JavaScript, fine, tests).await;
        assert!(verdict.success, "{tests}: {verdict:?}");
    }
}

/// With invalid tests, every program would fail, so the model is not called again.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_tests_end_the_code_run_after_one_attempt() {
    let fixture = Fixture::new().await;
    for (language, tests, expected) in [
        (Language::Python, "def test_one(:", "SyntaxError"),
        (Language::Python, "import assizenone\ndef test_one(): pass", "'assizenone'"),
        (Language::Python, "def helper(): pass", "contains no tests"),
        (Language::Bash, "if true; then", "syntax error"),
        (Language::JavaScript, "function test_one( {", "SyntaxError"),
        (Language::JavaScript, "require('assizenone')", "assizenone"),
    ] {
        if language == Language::JavaScript && !has_node() {
            continue;
        }
        let program = if language == Language::Bash { "true" } else { "1" };
        let model = Script::new([code(program)]);
        let task = CodeTask { language, tests: Some(tests.to_owned()), ..CodeTask::new("x") };
        let verdict = fixture.run_task(&model, task).await.verdict.unwrap();
        let error = verdict.error.unwrap();
        assert!(error.contains("tests") && error.contains(expected), "{tests}: {error}");
        assert_eq!((verdict.attempts, model.calls()), (1, 1));
    }
}

fn has_node() -> bool {
    std::process::Command::new("node").arg("-v").output().is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn harness_runs_tests_of_bash_and_javascript_programs() {
    let fixture = Fixture::new().await;
    let run = async |language, program: &str, tests: &str| {
        tested(&fixture, language, program, tests)
            .await
            .error
            .unwrap_or_else(|| "passed".to_owned())
    };
    let tests = "source \"$SOLUTION\"\n[ \"$(double 2)\" = 4 ]";
    assert_eq!(run(Language::Bash, "double() { echo $(($1 * 2)); }", tests).await, "passed");
    assert_eq!(run(Language::Bash, "double() { echo 5; }", tests).await, "1 of 1 tests failed");
    assert_eq!(
        run(Language::Bash, "exit 0", tests).await,
        "the program exited before the tests finished"
    );
    if !has_node() {
        return;
    }
    let tests = "const assert = require('node:assert');\nexports.test_two = () => assert.equal(solution.double(2), 4);";
    let double = "exports.double = n => n * 2;";
    assert_eq!(run(Language::JavaScript, double, tests).await, "passed");
    let wrong = "exports.double = n => n * 3;";
    assert_eq!(run(Language::JavaScript, wrong, tests).await, "1 of 1 tests failed");
    let early = "process.exit(0)";
    let left = "the program exited before the tests finished";
    assert_eq!(run(Language::JavaScript, early, tests).await, left);
    // These tests are not exported, require the program, or use Node's test runner.
    for tests in [
        "const { double } = require('./solution');\nfunction test_two() { if (double(2) !== 4) throw 'x'; }",
        "const { test } = require('node:test');\ntest('two', async () => { if (double(2) !== 4) throw 'x'; });",
        "const test = require('node:test');\nconst { double } = require('solution');\ntest.describe('x', () => test.it('two', () => { if (double(2) !== 4) throw 'x'; }));",
    ] {
        assert_eq!(run(Language::JavaScript, double, tests).await, "passed", "{tests}");
        assert_eq!(run(Language::JavaScript, wrong, tests).await, "1 of 1 tests failed", "{tests}");
        let early = "exports.double = () => process.exit(0);";
        assert_eq!(run(Language::JavaScript, early, tests).await, left, "{tests}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn program_with_unexpected_output_is_retried() {
    let fixture = Fixture::new().await;
    let model =
        Script::new([code("print(54)"), critique("off by one", "add one"), code("print(55)")]);
    let task =
        CodeTask { expect: Some("/^55$/".parse().unwrap()), ..CodeTask::new("fibonacci(10)") };
    let verdict = fixture.run_task(&model, task).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 2));
    let error = verdict.history[0].error.as_ref().unwrap().to_string();
    assert_eq!(error, "the program printed `54`, but `/^55$/` was expected");
    assert!(model.prompt(0).contains("Its output must fit what is expected of it: /^55$/"));
}

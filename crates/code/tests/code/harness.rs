//! The user's own tests, and what is expected.

use assize_code::{CodeFailure, Task, Verdict};
use assize_sandbox::Language;

use crate::bench::{Bench, Script, code, critique};

async fn tested(bench: &Bench, language: Language, program: &str, tests: &str) -> Verdict {
    let model = Script::new([code(program), critique("x", "y")]);
    let tests = Some(tests.to_owned());
    let task = Task { language, tests, max_attempts: 1, ..Task::new("pass the tests") };
    let tried = bench.try_task(&model, task).await;
    assert!(model.told(0).contains("All of them must pass"));
    tried.verdict.unwrap()
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
async fn tests_decide_and_what_failed_is_named() {
    let bench = Bench::new().await;
    let program = "def double(n): return n * 2\ndef solution_name(): return 'doubler'\nif __name__ == '__main__': raise SystemExit(9)";
    let passed = tested(&bench, Language::Python, program, TESTS).await;
    assert!(passed.success, "{passed:?}");
    let report = passed.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
    assert_eq!((report.passed, report.failed.len()), (4, 0));

    let program =
        "def double(n): return n + 1 if n == 1 else n * 3\ndef solution_name(): return 'tripler'";
    let failed = tested(&bench, Language::Python, program, TESTS).await;
    assert_eq!(failed.error.as_deref(), Some("3 of 4 tests failed"), "{failed:?}");
    let report = failed.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
    assert!(report.failed.iter().any(|test| test.name == "test_text"), "{report:?}");
    assert!(report.failed[0].error.contains("AssertionError"), "{report:?}");

    let broken = tested(&bench, Language::Python, "1 / 0", TESTS).await;
    assert_eq!(broken.error.as_deref(), Some("1 of 1 tests failed"));
    let plain = tested(&bench, Language::Python, "x = 1", "assert x == 1").await;
    assert!(plain.success, "{plain:?}");
}

/// Whatever looks like a test is run, or fails.
#[tokio::test(flavor = "multi_thread")]
async fn tests_that_never_ran_are_no_pass() {
    let bench = Bench::new().await;
    for tests in [
        "class TestX:\n    def test_one(self): assert False",
        "async def test_one(): assert False",
        "def test_one():\n    yield 1",
        "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test_one(self): pass",
    ] {
        let verdict = tested(&bench, Language::Python, "x = 1", tests).await;
        assert!(!verdict.success, "{tests}");
    }
    let fine =
        "class TestX:\n    def test_one(self): assert x == 1\nasync def test_two(): assert x == 1";
    assert!(tested(&bench, Language::Python, "x = 1", fine).await.success);
    // In Bash too, and whatever the program has told the shell.
    let tests = "source \"$SOLUTION\"\ntest_add() { [ \"$(add 1 2)\" = 3 ]; }";
    let verdict = tested(&bench, Language::Bash, "set +e\nadd() { echo 4; }", tests).await;
    assert!(!verdict.success);
    assert!(tested(&bench, Language::Bash, "add() { echo $(($1 + $2)); }", tests).await.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_early_is_no_pass() {
    let bench = Bench::new().await;
    let tests = "from solution import double\ndef test_one(): assert double(1) == 2";
    for program in [
        "import os; os._exit(0)",
        "def double(n):\n    import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys, threading\nthreading.Timer(0, lambda: __import__('os')._exit(0)).start()\n__import__('time').sleep(5)",
    ] {
        let left = tested(&bench, Language::Python, program, tests).await;
        assert!(!left.success, "{program}");
    }
    let left = tested(&bench, Language::Python, "import os; os._exit(0)", tests).await;
    assert_eq!(left.history[0].error, Some(CodeFailure::LeftEarly));
    // Caught by the harness, and told.
    let left = tested(&bench, Language::Python, "raise SystemExit(0)", tests).await;
    assert_eq!(left.error.as_deref(), Some("1 of 1 tests failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_languages_are_tested_too() {
    let bench = Bench::new().await;
    let run = async |language, program: &str, tests: &str| {
        tested(&bench, language, program, tests).await.error.unwrap_or_else(|| "passed".to_owned())
    };
    let tests = "source \"$SOLUTION\"\n[ \"$(double 2)\" = 4 ]";
    assert_eq!(run(Language::Bash, "double() { echo $(($1 * 2)); }", tests).await, "passed");
    assert_eq!(
        run(Language::Bash, "double() { echo 5; }", tests).await,
        "it ended with exit code 1"
    );
    assert_eq!(
        run(Language::Bash, "exit 0", tests).await,
        "it ended before the tests were through"
    );
    if std::process::Command::new("node").arg("-v").output().is_err() {
        return;
    }
    let tests = "const assert = require('node:assert');\nexports.test_two = () => assert.equal(solution.double(2), 4);";
    let double = "exports.double = n => n * 2;";
    assert_eq!(run(Language::JavaScript, double, tests).await, "passed");
    let wrong = "exports.double = n => n * 3;";
    assert_eq!(run(Language::JavaScript, wrong, tests).await, "1 of 1 tests failed");
    let early = "process.exit(0)";
    assert_eq!(
        run(Language::JavaScript, early, tests).await,
        "it ended before the tests were through"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_expected_must_be_printed() {
    let bench = Bench::new().await;
    let model =
        Script::new([code("print(54)"), critique("off by one", "add one"), code("print(55)")]);
    let task = Task { expect: Some("/^55$/".parse().unwrap()), ..Task::new("fibonacci(10)") };
    let verdict = bench.try_task(&model, task).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 2));
    let error = verdict.history[0].error.as_ref().unwrap().to_string();
    assert_eq!(error, "its output is not what was expected: `/^55$/`");
    assert!(model.told(0).contains("Its output must fit what is expected of it: /^55$/"));
}

//! Changes that forge the result of the project's own tests, in a real sandbox with real test runners.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Home;
use crate::drafts::{Client, project};

/// A change of the corpus.
struct Case {
    runners: Vec<&'static str>,
    file: &'static str,
    verdict: &'static str,
    title: &'static str,
    text: &'static str,
}

fn corpus() -> Vec<Case> {
    let text = include_str!("../../../draft/corpus/forged.txt");
    let cases = text.split("\n== ").skip(1).map(|case| {
        let (head, text) = case.split_once('\n').unwrap();
        let [runners, file, verdict, title] = head.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{head}")
        };
        Case { runners: runners.split(' ').collect(), file, verdict, title, text }
    });
    cases.collect()
}

/// A project with tests of a small module.
fn with_tests(runner: &str) -> Home {
    let home =
        project().set("PATH", "/usr/local/bin:/usr/bin:/bin").set("ASSIZE_DRAFT_MAX_DELETION", "1");
    home.write("src/__init__.py", "\n");
    home.write("tests/__init__.py", "\n");
    home.write(
        "src/calc.py",
        "def add(a, b):\n    return a + b\n\n\ndef half(a):\n    return a / 2\n",
    );
    home.write(
        "tests/test_calc.py",
        "import unittest\n\nfrom src.calc import add, half\n\n\nclass CalcTest(unittest.TestCase):\n    \
         def test_add_small(self):\n        self.assertEqual(add(1, 2), 3)\n\n    \
         def test_half_even(self):\n        self.assertEqual(half(4), 2)\n",
    );
    home.write("src/calc.js", "exports.add = (a, b) => a + b;\nexports.half = (a) => a / 2;\n");
    home.write(
        "tests/calc.test.js",
        "const test = require(\"node:test\");\nconst assert = require(\"node:assert\");\n\
         const { add, half } = require(\"../src/calc.js\");\n\n\
         test.test(\"adds small numbers\", () => {\n  assert.strictEqual(add(1, 2), 3);\n});\n\n\
         test.test(\"halves even numbers\", () => {\n  assert.strictEqual(half(4), 2);\n});\n",
    );
    let verify = match runner {
        "unittest" => r#"{"command": "python3 -m unittest discover -s tests -t ."}"#,
        "pytest" => r#"{"command": "python3 -m pytest -q tests", "python": ".venv"}"#,
        "node" => r#"{"command": "node --test tests"}"#,
        other => panic!("{other}"),
    };
    let contract = format!(r#"{{"version": 1, "verify": {verify}}}"#);
    home.write("_handoff/TASK_CONTRACT.json", &contract);
    home
}

/// Puts pytest into a virtual environment of the project; `false` where there is no registry to get it from.
fn install_pytest(home: &Home) -> bool {
    let venv = home.work().join(".venv");
    let made = Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).status().unwrap();
    assert!(made.success());
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest==8.4.2"];
    let installed = Command::new(venv.join("bin/python3")).args(pip).status().unwrap();
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(installed.success() || !required.contains("pypi"), "pytest cannot be installed");
    installed.success()
}

/// Tries changes of the corpus with a runner: every third, or all of them in a full run.
fn try_all(runner: &str, home: &Home) {
    let all = std::env::var_os("ASSIZE_TEST_FULL").is_some();
    let mut client = Client::start(home, &["--isolation", "jail"]);
    let cases = corpus().into_iter().filter(|case| case.runners.contains(&runner));
    for (index, case) in cases.enumerate().filter(|(index, _)| all || index % 3 == 0) {
        let (task, title) = (format!("t{index}"), case.title);
        let original = std::fs::read(home.work().join(case.file)).unwrap();
        let mut submitted = client.propose(case.file, &task, case.text);
        while submitted["verdict"] == "pending" {
            submitted = client.submit_again(case.file, &task);
        }
        assert_eq!(submitted["verdict"], case.verdict, "{runner}: {title}: {submitted}");
        let evidence = submitted["verified"]["evidence"].as_str().unwrap();
        match case.verdict {
            "accepted" => {
                assert!(evidence.contains("code and tests shared a process"), "{evidence}");
                std::fs::write(home.work().join(case.file), original).unwrap();
            }
            "escalated" => {
                assert_eq!(submitted["reasons"][0]["rule"], "verify", "{title}: {submitted}");
                let number = submitted["submission"].to_string();
                assert_eq!(home.run(&["gate", "reject", &number]).code, 0);
            }
            _ => {}
        }
    }
    client.end();
}

impl Client {
    /// Asks once more for the verdict on a draft, and waits for it as long as the server does.
    fn submit_again(&mut self, path: &str, task: &str) -> Value {
        let name = path.rsplit('/').next().unwrap();
        let draft = format!("_handoff/drafts/{name}.{task}.draft");
        let submit = json!({"draft_path": draft, "original_path": path, "task_id": task,
                            "change_summary": "a change"});
        self.call("ollama_submit_draft", submit).unwrap()
    }
}

#[test]
fn forged_unittest_results_escalate() {
    try_all("unittest", &with_tests("unittest"));
}

#[test]
fn forged_pytest_results_escalate() {
    let home = with_tests("pytest");
    if install_pytest(&home) {
        try_all("pytest", &home);
    }
}

#[test]
fn forged_node_test_results_escalate() {
    if Path::new("/usr/bin/node").exists() || Path::new("/usr/local/bin/node").exists() {
        try_all("node", &with_tests("node"));
    }
}

#[test]
fn verdict_of_an_unknown_command_rests_on_its_exit_code() {
    let home = with_tests("unittest");
    let contract = r#"{"version": 1, "verify": {"command": "python3 -m unittest discover -s tests -t . && true"}}"#;
    home.write("_handoff/TASK_CONTRACT.json", contract);
    let mut client = Client::start(&home, &["--isolation", "jail"]);
    let submitted = client.propose(
        "src/calc.js",
        "t1",
        "exports.add = (a, b) => b + a;\nexports.half = (a) => a / 2;\n",
    );
    client.end();
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
    let evidence = submitted["verified"]["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("only the exit code was seen"), "{evidence}");
}

//! Tests of the gate with drafts that forge the result of a project's tests, in real sandboxes with real test runners.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Home;
use crate::drafts::{StdioMcpClient, home_with_project};

/// Creates a project for a test runner: a small module, tests of the module, and a task contract whose verification
/// command runs the tests.
fn project_with_tests(runner: &str) -> Home {
    let path = "/usr/local/bin:/usr/bin:/bin";
    let home = home_with_project().set("PATH", path).set("ASSIZE_DRAFT_MAX_DELETION", "1");
    for (path, text) in assize_gate::corpus::project(runner).unwrap() {
        home.write(path, &text);
    }
    let contract = "_handoff/TASK_CONTRACT.json";
    let mut read: Value = serde_json::from_str(&home.file_text(contract)).unwrap();
    match runner {
        "pytest" => read["verify"]["python"] = json!(".venv"),
        "cargo" => read["verify"]["layers"] = json!([toolchain()]),
        _ => {}
    }
    home.write(contract, &read.to_string());
    home.set("ASSIZE_DRAFT_VERIFY_LAYERS", toolchain()).set("ASSIZE_DRAFT_VERIFY_MEMORY", "1024MB")
}

/// The folder of the Rust toolchain.
fn toolchain() -> String {
    let printed = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    String::from_utf8(printed.stdout).unwrap().trim().to_owned()
}

/// Returns `installed`: whether the packages that a test needs could be installed from `registry`. Panics if
/// `installed` is false although the environment variable `ASSIZE_TEST_REQUIRE` names the registry.
fn installed_or_panic(registry: &str, installed: bool) -> bool {
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(
        installed || !required.contains(registry),
        "`ASSIZE_TEST_REQUIRE` names {registry}, but its packages cannot be installed"
    );
    installed
}

/// Installs pytest into a virtual environment of the project. Returns `false` if no package registry is reachable.
fn install_pytest(home: &Home) -> bool {
    let venv = home.work_folder().join(".venv");
    let made = Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).status().unwrap();
    assert!(made.success());
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest==8.4.2"];
    let installed = Command::new(venv.join("bin/python3")).args(pip).status().unwrap();
    installed_or_panic("pypi", installed.success())
}

/// Installs a Node.js package into the project's `node_modules`. Returns `false` if no package registry is reachable.
fn install_node_package(home: &Home, package: &str) -> bool {
    let cached = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package);
    if !cached.exists() {
        let new = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let install = ["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
        let ran = Command::new("npm").args(install).arg(package).current_dir(&new).output();
        let installed = ran.is_ok_and(|ran| ran.status.success());
        if !installed_or_panic("npm", installed) {
            return false;
        }
        // The rename fails if another test process has created the folder in the meantime.
        let _ = std::fs::rename(new.path(), &cached);
    }
    let copied = Command::new("cp")
        .arg("-R")
        .args([cached.join("node_modules"), home.work_folder().join("node_modules")])
        .status();
    copied.unwrap().success()
}

/// Submits changes that forge the results of a test runner, and checks the gate's decisions. The changes are from
/// `assize_gate::corpus`. If `ASSIZE_TEST_FULL` is set, submits all changes; if not, every third change, or only the
/// first change if the test runner is slow to start.
fn submit_forgeries(runner: &str, home: &Home) {
    let all = std::env::var_os("ASSIZE_TEST_FULL").is_some();
    let slow = ["jest", "vitest", "cargo", "go"].contains(&runner);
    let sampled = |index: usize| if slow { index == 0 } else { index.is_multiple_of(3) };
    let mut client = StdioMcpClient::start(home, &["--isolation", "jail"]);
    let cases = assize_gate::corpus::forgeries().unwrap();
    let cases = cases.into_iter().filter(|case| case.runners.contains(&runner));
    for (index, case) in cases.enumerate().filter(|(index, _)| all || sampled(*index)) {
        let (task, title) = (format!("t{index}"), case.title);
        let original = std::fs::read(home.work_folder().join(case.path)).unwrap();
        let mut submitted = client.propose(case.path, &task, case.text);
        while submitted["verdict"] == "pending" {
            submitted = client.submit_again(case.path, &task);
        }
        // The corpus marks forgeries that the gate is known to accept as `missed`.
        let verdict = if case.verdict == "missed" { "accepted" } else { case.verdict };
        assert_eq!(submitted["verdict"], verdict, "{runner}: {title}: {submitted}");
        let evidence = submitted["verified"]["evidence"].as_str().unwrap();
        match verdict {
            "accepted" => {
                assert!(evidence.contains("code and tests ran in the same process"), "{evidence}");
                std::fs::write(home.work_folder().join(case.path), original).unwrap();
            }
            "escalated" => {
                assert_eq!(submitted["reasons"][0]["rule"], "verify", "{title}: {submitted}");
                let number = submitted["submission"].to_string();
                assert_eq!(home.run(&["gate", "reject", &number]).code, 0);
            }
            _ => {}
        }
    }
    client.close();
}

impl StdioMcpClient {
    /// Submits a draft again while its first submission is still being verified. Returns the decision on the first
    /// submission; the verdict is `pending` if there is no decision yet.
    fn submit_again(&mut self, path: &str, task: &str) -> Value {
        let name = path.rsplit('/').next().unwrap();
        let draft = format!("_handoff/drafts/{name}.{task}.draft");
        let submit = json!({"draft_path": draft, "original_path": path, "task_id": task,
                            "change_summary": "a change"});
        self.call("ollama_submit_draft", submit).unwrap()
    }
}

#[test]
fn draft_that_forges_unittest_results_escalates() {
    submit_forgeries("unittest", &project_with_tests("unittest"));
}

#[test]
fn draft_that_forges_pytest_results_escalates() {
    let home = project_with_tests("pytest");
    if install_pytest(&home) {
        submit_forgeries("pytest", &home);
    }
}

#[test]
fn draft_that_forges_node_test_results_escalates() {
    submit_forgeries("node", &project_with_tests("node"));
}

#[test]
fn draft_that_forges_jest_results_escalates() {
    let home = project_with_tests("jest");
    if install_node_package(&home, "jest@30.0.5") {
        submit_forgeries("jest", &home);
    }
}

#[test]
fn draft_that_forges_vitest_results_escalates() {
    let home = project_with_tests("vitest");
    if install_node_package(&home, "vitest@3.2.4") {
        submit_forgeries("vitest", &home);
    }
}

#[test]
fn draft_that_forges_cargo_test_results_escalates() {
    submit_forgeries("cargo", &project_with_tests("cargo"));
}

#[test]
fn draft_that_forges_go_test_results_escalates() {
    if installed_or_panic("go", Path::new("/usr/bin/go").exists()) {
        submit_forgeries("go", &project_with_tests("go"));
    }
}

#[test]
fn gate_checks_only_the_exit_code_of_an_unknown_test_command() {
    let home = project_with_tests("unittest");
    let contract = r#"{"version": 1, "verify": {"command": "python3 -m unittest discover -s tests -t . && true"}}"#;
    home.write("_handoff/TASK_CONTRACT.json", contract);
    let mut client = StdioMcpClient::start(&home, &["--isolation", "jail"]);
    let text = "def add(a, b):\n    return b + a\n\n\ndef half(a):\n    return a / 2\n";
    let submitted = client.propose("src/calc.py", "t1", text);
    client.close();
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
    let evidence = submitted["verified"]["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("only the exit code was checked"), "{evidence}");
}

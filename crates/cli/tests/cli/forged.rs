//! Changes that forge the result of the project's own tests, in a real sandbox with real test runners.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Home;
use crate::drafts::{Client, project};

/// A project with tests of a small module, and the verification of its changes.
fn with_tests(runner: &str) -> Home {
    let path = "/usr/local/bin:/usr/bin:/bin";
    let home = project().set("PATH", path).set("ASSIZE_DRAFT_MAX_DELETION", "1");
    for (path, text) in assize_gate::corpus::project(runner).unwrap() {
        home.write(path, &text);
    }
    let contract = "_handoff/TASK_CONTRACT.json";
    let mut read: Value = serde_json::from_str(&home.text(contract)).unwrap();
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

/// Whether tests that need a registry must run; it fails those that cannot.
fn required(registry: &str, installed: bool) -> bool {
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(
        installed || !required.contains(registry),
        "packages of {registry} cannot be installed"
    );
    installed
}

/// Puts pytest into a virtual environment of the project; `false` where there is no registry to get it from.
fn install_pytest(home: &Home) -> bool {
    let venv = home.work().join(".venv");
    let made = Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).status().unwrap();
    assert!(made.success());
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest==8.4.2"];
    let installed = Command::new(venv.join("bin/python3")).args(pip).status().unwrap();
    required("pypi", installed.success())
}

/// Puts a package of Node.js into the project's `node_modules`; `false` where there is no registry to get it from.
fn install_node_package(home: &Home, package: &str) -> bool {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package);
    if !kept.exists() {
        let new = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let install = ["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"];
        let ran = Command::new("npm").args(install).arg(package).current_dir(&new).output();
        let installed = ran.is_ok_and(|ran| ran.status.success());
        if !required("npm", installed) {
            return false;
        }
        // Another process may have been faster.
        let _ = std::fs::rename(new.path(), &kept);
    }
    let copied = Command::new("cp")
        .arg("-R")
        .args([kept.join("node_modules"), home.work().join("node_modules")])
        .status();
    copied.unwrap().success()
}

/// Tries changes of the corpus with a runner: all of them in a full run, otherwise every third, or the first two with a runner
/// that is slow to start.
fn try_all(runner: &str, home: &Home) {
    let all = std::env::var_os("ASSIZE_TEST_FULL").is_some();
    let slow = ["jest", "vitest", "cargo", "go"].contains(&runner);
    let sampled = |index: usize| if slow { index < 2 } else { index.is_multiple_of(3) };
    let mut client = Client::start(home, &["--isolation", "jail"]);
    let cases = assize_gate::corpus::forgeries().unwrap();
    let cases = cases.into_iter().filter(|case| case.runners.contains(&runner));
    for (index, case) in cases.enumerate().filter(|(index, _)| all || sampled(*index)) {
        let (task, title) = (format!("t{index}"), case.title);
        let original = std::fs::read(home.work().join(case.path)).unwrap();
        let mut submitted = client.propose(case.path, &task, case.text);
        while submitted["verdict"] == "pending" {
            submitted = client.submit_again(case.path, &task);
        }
        // What is missed is a known gap.
        let verdict = if case.verdict == "missed" { "accepted" } else { case.verdict };
        assert_eq!(submitted["verdict"], verdict, "{runner}: {title}: {submitted}");
        let evidence = submitted["verified"]["evidence"].as_str().unwrap();
        match verdict {
            "accepted" => {
                assert!(evidence.contains("code and tests shared a process"), "{evidence}");
                std::fs::write(home.work().join(case.path), original).unwrap();
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
    try_all("node", &with_tests("node"));
}

#[test]
fn forged_jest_results_escalate() {
    let home = with_tests("jest");
    if install_node_package(&home, "jest@30.0.5") {
        try_all("jest", &home);
    }
}

#[test]
fn forged_vitest_results_escalate() {
    let home = with_tests("vitest");
    if install_node_package(&home, "vitest@3.2.4") {
        try_all("vitest", &home);
    }
}

#[test]
fn forged_cargo_test_results_escalate() {
    try_all("cargo", &with_tests("cargo"));
}

#[test]
fn forged_go_test_results_escalate() {
    if required("go", Path::new("/usr/bin/go").exists()) {
        try_all("go", &with_tests("go"));
    }
}

#[test]
fn verdict_of_an_unknown_command_rests_on_its_exit_code() {
    let home = with_tests("unittest");
    let contract = r#"{"version": 1, "verify": {"command": "python3 -m unittest discover -s tests -t . && true"}}"#;
    home.write("_handoff/TASK_CONTRACT.json", contract);
    let mut client = Client::start(&home, &["--isolation", "jail"]);
    let text = "def add(a, b):\n    return b + a\n\n\ndef half(a):\n    return a / 2\n";
    let submitted = client.propose("src/calc.py", "t1", text);
    client.end();
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
    let evidence = submitted["verified"]["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("only the exit code was seen"), "{evidence}");
}

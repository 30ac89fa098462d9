//! Verification with the project's own Python, and with tools that are missing.

use std::process::Command;

use serde_json::Value;

use crate::Home;
use crate::drafts::{Client, WATCHDOG, project};

/// A project with a virtual environment that has the module `projecttool`.
fn with_environment() -> Home {
    let home = project().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip", ".venv"])
        .current_dir(home.work())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let library = std::fs::read_dir(home.work().join(".venv/lib")).unwrap().next().unwrap();
    let packages = library.unwrap().path().join("site-packages");
    std::fs::write(packages.join("projecttool.py"), "print('checked by the tool')\n").unwrap();
    home
}

fn contract(home: &Home, verify: &str) {
    let text = format!(r#"{{"version": 1, "verify": {verify}}}"#);
    home.write("_handoff/TASK_CONTRACT.json", &text);
}

fn propose(home: &Home, task: &str) -> Value {
    let mut client = Client::start(home, &["--isolation", "jail"]);
    let submitted = client.propose("src/watchdog.py", task, &format!("{WATCHDOG}# {task}\n"));
    client.end();
    submitted
}

#[test]
fn contract_names_a_virtual_environment_of_the_workspace() {
    let home = with_environment();
    contract(&home, r#"{"command": "python3 -m projecttool", "python": ".venv"}"#);
    let submitted = propose(&home, "t1");
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
    assert_eq!(submitted["verified"]["output"], "checked by the tool\n");
}

#[test]
fn active_virtual_environment_is_used() {
    let home = with_environment();
    let active = home.work().join(".venv").to_string_lossy().into_owned();
    let home = home.set("VIRTUAL_ENV", &active);
    contract(&home, r#"{"command": "python3 -m projecttool"}"#);
    let submitted = propose(&home, "t1");
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
}

#[test]
fn missing_tool_escalates_with_its_name() {
    let home = with_environment();
    for (task, command, tool) in [
        ("t1", "python3 -m projecttool", "projecttool"),
        ("t2", "nosuchcommand --all", "nosuchcommand"),
        ("t3", "printf 'sh: 1: mytool: not found\\n'; exit 2", "mytool"),
    ] {
        contract(&home, &format!(r#"{{"command": {}}}"#, serde_json::json!(command)));
        let submitted = propose(&home, task);
        assert_eq!(submitted["verdict"], "escalated", "{submitted}");
        let message = submitted["reasons"][0]["message"].as_str().unwrap();
        assert!(message.contains(tool), "{message}");
        let number = submitted["submission"].to_string();
        assert_eq!(home.run(&["gate", "reject", &number]).code, 0);
    }
    // A module that the change itself imports is its own mistake.
    contract(&home, r#"{"command": "python3 src/watchdog.py"}"#);
    let mut client = Client::start(&home, &["--isolation", "jail"]);
    let wrong = WATCHDOG.replace("import sys", "import sys\nimport nosuchmodule");
    let submitted = client.propose("src/watchdog.py", "t4", &wrong);
    assert_eq!(submitted["verdict"], "rejected", "{submitted}");
    client.end();
}

#[test]
fn virtual_environment_outside_the_workspace_must_be_allowed() {
    let home = with_environment();
    let outside = home.folder.path().join("elsewhere");
    std::fs::rename(home.work().join(".venv"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, home.work().join(".venv")).unwrap();
    contract(&home, r#"{"command": "python3 -m projecttool", "python": ".venv"}"#);
    let refused = propose(&home, "t1");
    assert_eq!(refused["verdict"], "escalated", "{refused}");
    let message = refused["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("draft.verify_python"), "{message}");
    assert_eq!(home.run(&["gate", "reject", "1"]).code, 0);
    let home = home.set("ASSIZE_DRAFT_VERIFY_PYTHON", &*outside.to_string_lossy());
    let accepted = propose(&home, "t2");
    assert_eq!(accepted["verdict"], "accepted", "{accepted}");
}

/// A contract cannot use a virtual environment to show the sandbox files that workers may not see.
#[test]
fn virtual_environment_that_contains_the_workspace_is_refused() {
    let home = with_environment();
    for part in ["bin", "lib", "pyvenv.cfg"] {
        std::fs::rename(home.work().join(".venv").join(part), home.work().join(part)).unwrap();
    }
    home.write(".env", "KEY=1");
    contract(&home, r#"{"command": "cat /opt/layers/*/.env; exit 1", "python": "."}"#);
    let refused = propose(&home, "t1");
    assert_eq!(refused["verdict"], "escalated", "{refused}");
    assert!(!refused.to_string().contains("KEY=1"), "{refused}");
}

//! Tests of the verification of drafts with the project's own Python environment, and with missing tools.

use std::process::Command;

use serde_json::Value;

use crate::Home;
use crate::drafts::{StdioMcpClient, WATCHDOG, home_with_project};

/// Creates a project with a virtual environment that contains the module `projecttool`.
fn project_with_venv() -> Home {
    let home = home_with_project().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let made = Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip", ".venv"])
        .current_dir(home.work_folder())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let library = std::fs::read_dir(home.work_folder().join(".venv/lib")).unwrap().next().unwrap();
    let packages = library.unwrap().path().join("site-packages");
    std::fs::write(packages.join("projecttool.py"), "print('checked by the tool')\n").unwrap();
    home
}

/// Writes a task contract with the given `verify` section.
fn write_contract(home: &Home, verify: &str) {
    let text = format!(r#"{{"version": 1, "verify": {verify}}}"#);
    home.write("_handoff/TASK_CONTRACT.json", &text);
}

/// Submits a harmless change and returns the gate's decision.
fn propose(home: &Home, task: &str) -> Value {
    let mut client = StdioMcpClient::start(home, &["--isolation", "jail"]);
    let submitted = client.propose("src/watchdog.py", task, &format!("{WATCHDOG}# {task}\n"));
    client.close();
    submitted
}

#[test]
fn verification_uses_the_virtual_environment_named_by_the_contract() {
    let home = project_with_venv();
    write_contract(&home, r#"{"command": "python3 -m projecttool", "python": ".venv"}"#);
    let submitted = propose(&home, "t1");
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
    assert_eq!(submitted["verified"]["output"], "checked by the tool\n");
}

#[test]
fn verification_uses_the_active_virtual_environment() {
    let home = project_with_venv();
    let active = home.work_folder().join(".venv").to_string_lossy().into_owned();
    let home = home.set("VIRTUAL_ENV", &active);
    write_contract(&home, r#"{"command": "python3 -m projecttool"}"#);
    let submitted = propose(&home, "t1");
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
}

#[test]
fn draft_escalates_if_a_verification_tool_is_missing_and_the_reason_names_the_tool() {
    let home = project_with_venv();
    for (task, command, tool) in [
        ("t1", "python3 -m projecttool", "projecttool"),
        ("t2", "nosuchcommand --all", "nosuchcommand"),
        ("t3", "printf 'sh: 1: mytool: not found\\n'; exit 2", "mytool"),
    ] {
        write_contract(&home, &format!(r#"{{"command": {}}}"#, serde_json::json!(command)));
        let submitted = propose(&home, task);
        assert_eq!(submitted["verdict"], "escalated", "{submitted}");
        let message = submitted["reasons"][0]["message"].as_str().unwrap();
        assert!(message.contains(tool), "{message}");
        let number = submitted["submission"].to_string();
        assert_eq!(home.run(&["gate", "reject", &number]).code, 0);
    }
    // If the draft itself imports a missing module, the gate rejects the draft.
    write_contract(&home, r#"{"command": "python3 src/watchdog.py"}"#);
    let mut client = StdioMcpClient::start(&home, &["--isolation", "jail"]);
    let wrong = WATCHDOG.replace("import sys", "import sys\nimport nosuchmodule");
    let submitted = client.propose("src/watchdog.py", "t4", &wrong);
    assert_eq!(submitted["verdict"], "rejected", "{submitted}");
    client.close();
}

#[test]
fn virtual_environment_outside_the_workspace_needs_the_verify_python_setting() {
    let home = project_with_venv();
    let outside = home.folder.path().join("elsewhere");
    std::fs::rename(home.work_folder().join(".venv"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, home.work_folder().join(".venv")).unwrap();
    write_contract(&home, r#"{"command": "python3 -m projecttool", "python": ".venv"}"#);
    let refused = propose(&home, "t1");
    assert_eq!(refused["verdict"], "escalated", "{refused}");
    let message = refused["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("draft.verify_python"), "{message}");
    assert_eq!(home.run(&["gate", "reject", "1"]).code, 0);
    let home = home.set("ASSIZE_DRAFT_VERIFY_PYTHON", &*outside.to_string_lossy());
    let accepted = propose(&home, "t2");
    assert_eq!(accepted["verdict"], "accepted", "{accepted}");
}

/// The virtual environment is mounted into the sandbox, so it must not contain files that agents are not allowed to
/// read.
#[test]
fn virtual_environment_that_contains_the_workspace_is_refused() {
    let home = project_with_venv();
    for part in ["bin", "lib", "pyvenv.cfg"] {
        std::fs::rename(home.work_folder().join(".venv").join(part), home.work_folder().join(part))
            .unwrap();
    }
    home.write(".env", "KEY=1");
    write_contract(&home, r#"{"command": "cat /opt/layers/*/.env; exit 1", "python": "."}"#);
    let refused = propose(&home, "t1");
    assert_eq!(refused["verdict"], "escalated", "{refused}");
    assert!(!refused.to_string().contains("KEY=1"), "{refused}");
}

/// `verify` section of a task contract whose command does not use Python.
const VERIFY_WITHOUT_PYTHON: &str = r#"{"command": "test -f src/watchdog.py"}"#;

#[test]
fn verification_ignores_an_unusable_active_virtual_environment() {
    for active in ["/nonexistent/venv", "/usr"] {
        let home = home_with_project().set("VIRTUAL_ENV", active);
        write_contract(&home, VERIFY_WITHOUT_PYTHON);
        let submitted = propose(&home, "t1");
        assert_eq!(submitted["verdict"], "accepted", "{active}: {submitted}");
    }
}

#[test]
fn verify_python_setting_that_names_a_missing_folder_of_the_workspace_is_ignored() {
    let home = home_with_project().set("ASSIZE_DRAFT_VERIFY_PYTHON", ".venv");
    write_contract(&home, VERIFY_WITHOUT_PYTHON);
    let submitted = propose(&home, "t1");
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
    // If the task contract names the missing folder, the gate escalates the draft.
    write_contract(&home, r#"{"command": "true", "python": ".venv"}"#);
    let submitted = propose(&home, "t2");
    assert_eq!(submitted["verdict"], "escalated", "{submitted}");
}

/// The test creates a virtual environment like those of `uv` and `pyenv`: its Python is not in `PATH`, and its
/// interpreter is reached through several symlinks, one of which points to a folder.
#[test]
fn virtual_environment_whose_python_is_not_in_the_path_variable_needs_the_verify_python_setting() {
    use std::os::unix::fs::symlink;
    let home = home_with_project().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let python = |program: &std::path::Path, args: &[&str]| {
        let ran =
            Command::new(program).args(args).current_dir(home.work_folder()).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    let system = std::path::Path::new("/usr/bin/python3");
    let library = python(system, &["-c", "import os; print(os.path.dirname(os.__file__))"]);
    let version = library.rsplit('/').next().unwrap();
    let pythons = home.folder.path().join("pythons");
    let installed = pythons.join("full-version");
    std::fs::create_dir_all(installed.join("bin")).unwrap();
    std::fs::create_dir_all(installed.join("lib")).unwrap();
    std::fs::copy(system.canonicalize().unwrap(), installed.join("bin").join(version)).unwrap();
    symlink(version, installed.join("bin/python3")).unwrap();
    symlink(&library, installed.join("lib").join(version)).unwrap();
    symlink("full-version", pythons.join("minor-version")).unwrap();
    let base = pythons.join("minor-version/bin/python3");
    python(&base, &["-m", "venv", "--without-pip", ".venv"]);
    let link = std::fs::read_link(home.work_folder().join(".venv/bin/python3")).unwrap();
    assert!(link.starts_with(pythons.join("minor-version")), "{link:?}");
    let packages = home.work_folder().join(".venv/lib").join(version).join("site-packages");
    std::fs::write(packages.join("projecttool.py"), "print('checked by the tool')\n").unwrap();

    write_contract(&home, r#"{"command": "python3 -m projecttool", "python": ".venv"}"#);
    let refused = propose(&home, "t1");
    assert_eq!(refused["verdict"], "escalated", "{refused}");
    let message = refused["reasons"][0]["message"].as_str().unwrap();
    assert!(message.contains("draft.verify_python"), "{message}");
    assert_eq!(home.run(&["gate", "reject", "1"]).code, 0);
    let home = home.set("ASSIZE_DRAFT_VERIFY_PYTHON", ".venv");
    let accepted = propose(&home, "t2");
    assert_eq!(accepted["verdict"], "accepted", "{accepted}");
    assert_eq!(accepted["verified"]["output"], "checked by the tool\n");
}

#[test]
fn verification_uses_the_virtual_environment_if_isolation_is_set_to_at_least_jail() {
    let home = project_with_venv();
    let command = r#"test -n \"$VIRTUAL_ENV\" && python3 -m projecttool"#;
    write_contract(&home, &format!(r#"{{"command": "{command}", "python": ".venv"}}"#));
    let mut client = StdioMcpClient::start(&home, &["--isolation", "at-least=jail"]);
    let submitted = client.propose("src/watchdog.py", "t1", &format!("{WATCHDOG}# end\n"));
    client.close();
    assert_eq!(submitted["verdict"], "accepted", "{submitted}");
}

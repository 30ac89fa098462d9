//! Tests of `assize sandbox`: one process (the owner) creates a named sandbox, and other processes use it.

use std::fs;
use std::time::Duration;

use assize_sandbox::jail::Jail;
use assize_sandbox::{SandboxKey, SandboxManager, SandboxSpec};
use serde_json::Value;

use crate::exec::{
    DAEMON, cgroups, count_processes_with_argument, home, registered_sandbox_owners, wait_for,
};
use crate::{CommandOutput, Home};

/// Guard that removes a sandbox when the test ends, even if the test fails.
struct Cleanup<'a>(&'a Home, &'a str);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        self.0.run(&["sandbox", "rm", self.1]);
    }
}

fn list(home: &Home, args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&home.run(&[&["sandbox", "ls", "--json"], args].concat()).out).unwrap()
}

#[test]
fn named_sandbox_is_created_used_and_removed_by_different_processes() {
    let home = home();
    let made = home.run(&[
        "sandbox",
        "create",
        "box",
        "--label",
        "ticker=NVDA",
        "--ttl",
        "10m",
        "--region",
        "here",
    ]);
    let _cleanup = Cleanup(&home, "box");
    assert_eq!((made.code, made.out.as_str()), (0, "box\n"), "{}", made.err);
    assert!(made.err.contains("jail") && made.err.contains("removed after 10m"), "{}", made.err);
    let again = home.run(&["sandbox", "create", "box"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (0, "the sandbox `box` already exists and is not changed\n")
    );
    let other = home.run(&["sandbox", "create", "box", "--memory", "512M"]);
    assert_eq!(other.code, 2);
    assert!(other.err.contains("already exists with a different image, layers"), "{}", other.err);

    let listed = list(&home, &["--label", "ticker=NVDA"]);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["isolation"], &listed[0]["region"]),
        (&"box".into(), &"jail".into(), &"here".into())
    );
    assert!(list(&home, &["--label", "ticker=AMD"]).is_empty());
    assert!(home.run(&["sandbox", "ls"]).out.contains("ticker=NVDA"));

    home.write("in/a.txt", "one");
    home.write("in/deep/b.txt", "two");
    fs::write(home.folder.path().join("secret"), "SECRET").unwrap();
    for (to, at) in [("../../secret", "out"), ("a.txt", "inner"), (".", "loop"), ("no", "broken")] {
        std::os::unix::fs::symlink(to, home.work_folder().join("in").join(at)).unwrap();
    }
    let copied = home.run(&["sandbox", "cp", "in", "box:/workspace/"]);
    assert_eq!(copied.code, 0, "{}", copied.err);
    for left in [
        "in/out` was not copied: a symlink leads out of the copied folder",
        "in/loop` was not copied",
        "in/broken` was",
    ] {
        assert!(copied.err.contains(left), "{left}: {}", copied.err);
    }
    let listed = home.run(&["sandbox", "exec", "box", "sh", "-c", "ls in; cat in/inner"]);
    assert_eq!(listed.out, "a.txt\ndeep\ninner\none", "{}", listed.err);
    let shell = "cat in/a.txt in/deep/b.txt; cat; echo $GIVEN; pwd; exit 9";
    let args = ["sandbox", "exec", "--env", "GIVEN=yes", "box", "sh", "-c", shell];
    let CommandOutput { code, out, err } = home.run_with_input(&args, b"-three-");
    assert_eq!((code, out.as_str()), (9, "onetwo-three-yes\n/workspace\n"), "{err}");
    assert_eq!(home.run(&["sandbox", "cp", "box:in/a.txt", "a.txt"]).code, 0);
    assert_eq!(fs::read_to_string(home.work_folder().join("a.txt")).unwrap(), "one");
    assert_eq!(home.run(&["sandbox", "cp", "box:/workspace/in", "."]).code, 0);
    assert_eq!(home.run(&["sandbox", "cp", "box:/workspace", "all"]).code, 0);
    assert_eq!(fs::read_to_string(home.work_folder().join("all/in/deep/b.txt")).unwrap(), "two");
    let late = home.run(&["sandbox", "exec", "--timeout", "0.2", "box", "sleep", "100"]);
    assert_eq!(late.code, 124, "{}", late.err);

    assert_eq!(home.run(&["sandbox", "rm", "box"]).code, 0);
    wait_for("the owner process of the sandbox to exit", || {
        registered_sandbox_owners(&home).is_empty()
    });
    assert!(list(&home, &[]).is_empty());
}

#[test]
fn path_variable_of_a_sandbox_contains_the_folder_of_the_interpreter() {
    let home = home();
    home.write("env/pyvenv.cfg", "home = /usr/bin\n");
    fs::create_dir(home.work_folder().join("env/bin")).unwrap();
    let python = home.work_folder().join("env/bin/python3");
    std::os::unix::fs::symlink("/usr/bin/python3", &python).unwrap();
    let setting = format!("{}:/usr/bin:/bin", python.parent().unwrap().display());
    let home = home.set("PATH", &setting);
    assert_eq!(home.run(&["sandbox", "create", "box"]).code, 0);
    let _cleanup = Cleanup(&home, "box");
    let CommandOutput { out, err, .. } =
        home.run(&["sandbox", "exec", "box", "sh", "-c", "command -v python3"]);
    assert_eq!(out, "~/work/env/bin/python3\n", "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sandbox_commands_with_the_run_flag_use_the_sandbox_of_that_run() {
    let home = home();
    let folder = home.folder.path().join(".local/state/assize/sandboxes");
    fs::create_dir_all(&folder).unwrap();
    let jail = std::sync::Arc::new(Jail::new(Vec::new()));
    let manager = SandboxManager::open(folder, jail, &[]).await.unwrap();
    let key = SandboxKey::new(Some("run-1"), "box").unwrap();
    manager.create_if_not_exists(&key, SandboxSpec::default()).await.unwrap();
    let home = tokio::task::spawn_blocking(move || {
        let run = |args: &[&str]| {
            let CommandOutput { code, out, .. } = home.run(&[&["sandbox"], args].concat());
            (code, out)
        };
        assert_eq!(run(&["exec", "box", "echo", "hi"]).0, 2);
        assert_eq!(run(&["exec", "--run", "run-1", "box", "echo", "hi"]), (0, "hi\n".to_owned()));
        home.write("file", "text");
        assert_eq!(run(&["cp", "--run", "run-1", "file", "box:/workspace/"]).0, 0);
        assert_eq!(run(&["exec", "--run", "run-1", "box", "cat", "file"]).1, "text");
        assert_eq!(run(&["rm", "box"]).0, 2);
        assert_eq!(run(&["rm", "--run", "run-1", "box"]).0, 0);
        home
    })
    .await
    .unwrap();
    assert!(list(&home, &[]).is_empty());
}

#[test]
fn invalid_sandbox_commands_report_an_error_and_a_hint() {
    let home = home();
    let refusal = |args: &[&str]| {
        let CommandOutput { code, err, .. } = home.run(&[&["sandbox"], args].concat());
        format!("{code} {err}")
    };
    let refusals = [
        refusal(&["exec", "none", "ls"]),
        refusal(&["rm", "none"]),
        refusal(&["create", "Bad Name"]),
        refusal(&["create", "x", "--memory", "1M"]),
        refusal(&["create", "x", "--isolation", "microvm"]),
        refusal(&["cp", "a", "b"]),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r"
    2 error: sandbox `none` not found

    hint: list the sandboxes with `assize sandbox ls`

    2 error: sandbox `none` not found

    hint: list the sandboxes with `assize sandbox ls`

    2 error: invalid sandbox name `Bad Name`

    hint: use 1 to 63 lower-case letters, digits and `-` (not first or last), for example `negotiate-nvda-m1`

    2 error: `--memory` must be a size from 16M to 1024G, not `1M`

    125 error: microvm sandboxes are unavailable: the microVM image is not built

    hint: run `assize image build microvm`

    2 error: exactly one of the two paths must be in a sandbox

    hint: write a path in a sandbox as `my-sandbox:/workspace/file`
    ");
}

#[test]
fn registry_folder_of_a_dead_process_is_kept_when_the_cleanup_of_its_sandboxes_fails() {
    let home = home().set("DOCKER_HOST", "/nonexistent/docker.sock");
    let gone = home.folder.path().join(".local/state/assize/sandboxes/left");
    fs::create_dir_all(&gone).unwrap();
    for name in ["lock", "docker", "jail"] {
        fs::write(gone.join(name), "").unwrap();
    }
    for command in [&["sandbox", "ls"][..], &["doctor", "--offline"], &["sandbox", "ls"]] {
        home.run(command);
        assert_eq!(registered_sandbox_owners(&home), [".gone-left"], "{command:?}");
    }
}

#[test]
fn sandbox_is_removed_after_its_ttl() {
    let home = home();
    assert_eq!(home.run(&["sandbox", "create", "short", "--ttl", "1s"]).code, 0);
    wait_for("the removal of the sandbox", || list(&home, &[]).is_empty());
    wait_for("the owner process of the sandbox to exit", || {
        registered_sandbox_owners(&home).is_empty()
    });
}

#[test]
fn sandbox_ends_when_its_owner_process_is_killed_and_the_next_command_cleans_the_registry() {
    let home = home();
    assert_eq!(home.run(&["sandbox", "create", "box"]).code, 0);
    let seconds = format!("{}.5", fastrand::u32(100_000..1_000_000));
    let code = home.write("daemon.py", DAEMON);
    assert_eq!(
        home.run(&["sandbox", "cp", &code.display().to_string(), "box:/workspace/"]).code,
        0
    );
    let start = format!("python3 daemon.py {seconds} >/dev/null 2>&1 &");
    assert_eq!(home.run(&["sandbox", "exec", "box", "sh", "-c", &start]).code, 0);
    wait_for("`sleep` to start in the sandbox", || count_processes_with_argument(&seconds) > 0);
    let maker = registered_sandbox_owners(&home).pop().unwrap();
    let pid = list(&home, &[])[0]["pid"].as_u64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("the processes of the sandbox to end", || {
        count_processes_with_argument(&seconds) == 0
    });
    wait_for("the removal of the cgroups of the sandbox", || {
        !cgroups().iter().any(|group| group.contains(&maker))
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(list(&home, &[]).is_empty());
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);
    // The name of the lost sandbox can be used again.
    assert_eq!(home.run(&["sandbox", "create", "box"]).code, 0);
    drop(Cleanup(&home, "box"));
}

//! `assize sandbox`: sandboxes that one process holds and others use.

use std::fs;
use std::time::Duration;

use assize_sandbox::jail::Jail;
use assize_sandbox::{Key, Manager, Spec};
use serde_json::Value;

use crate::exec::{DAEMON, groups, home, makers, processes_with, until};
use crate::{Home, Ran};

/// Removes what a test made, however it ended.
struct Made<'a>(&'a Home, &'a str);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        self.0.run(&["sandbox", "rm", self.1]);
    }
}

fn list(home: &Home, args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&home.run(&[&["sandbox", "ls", "--json"], args].concat()).out).unwrap()
}

#[test]
fn a_sandbox_is_made_used_and_removed_by_different_processes() {
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
    let _made = Made(&home, "box");
    assert_eq!((made.code, made.out.as_str()), (0, "box\n"), "{}", made.err);
    assert!(made.err.contains("jail") && made.err.contains("removed after 10m"), "{}", made.err);
    let again = home.run(&["sandbox", "create", "box"]);
    assert_eq!(
        (again.code, again.err.as_str()),
        (0, "`box` is there already, and stays as it is\n")
    );
    let other = home.run(&["sandbox", "create", "box", "--memory", "512M"]);
    assert_eq!(other.code, 2);
    assert!(
        other.err.contains("is there already, and is another one than was asked for"),
        "{}",
        other.err
    );

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
        std::os::unix::fs::symlink(to, home.work().join("in").join(at)).unwrap();
    }
    let copied = home.run(&["sandbox", "cp", "in", "box:/workspace/"]);
    assert_eq!(copied.code, 0, "{}", copied.err);
    for left in
        ["in/out` was not copied: it leads out", "in/loop` was not copied", "in/broken` was"]
    {
        assert!(copied.err.contains(left), "{left}: {}", copied.err);
    }
    let listed = home.run(&["sandbox", "exec", "box", "sh", "-c", "ls in; cat in/inner"]);
    assert_eq!(listed.out, "a.txt\ndeep\ninner\none", "{}", listed.err);
    let shell = "cat in/a.txt in/deep/b.txt; cat; echo $GIVEN; pwd; exit 9";
    let args = ["sandbox", "exec", "--env", "GIVEN=yes", "box", "sh", "-c", shell];
    let Ran { code, out, err } = home.run_with_input(&args, b"-three-");
    assert_eq!((code, out.as_str()), (9, "onetwo-three-yes\n/workspace\n"), "{err}");
    assert_eq!(home.run(&["sandbox", "cp", "box:in/a.txt", "a.txt"]).code, 0);
    assert_eq!(fs::read_to_string(home.work().join("a.txt")).unwrap(), "one");
    assert_eq!(home.run(&["sandbox", "cp", "box:/workspace/in", "."]).code, 0);
    assert_eq!(home.run(&["sandbox", "cp", "box:/workspace", "all"]).code, 0);
    assert_eq!(fs::read_to_string(home.work().join("all/in/deep/b.txt")).unwrap(), "two");
    let late = home.run(&["sandbox", "exec", "--timeout", "0.2", "box", "sleep", "100"]);
    assert_eq!(late.code, 124, "{}", late.err);

    assert_eq!(home.run(&["sandbox", "rm", "box"]).code, 0);
    until("the end of its maker", || makers(&home).is_empty());
    assert!(list(&home, &[]).is_empty());
}

#[test]
fn programs_are_found_where_the_interpreter_is() {
    let home = home();
    home.write("env/pyvenv.cfg", "home = /usr/bin\n");
    fs::create_dir(home.work().join("env/bin")).unwrap();
    let python = home.work().join("env/bin/python3");
    std::os::unix::fs::symlink("/usr/bin/python3", &python).unwrap();
    let setting = format!("{}:/usr/bin:/bin", python.parent().unwrap().display());
    let home = home.set("PATH", &setting);
    assert_eq!(home.run(&["sandbox", "create", "box"]).code, 0);
    let _made = Made(&home, "box");
    let Ran { out, err, .. } =
        home.run(&["sandbox", "exec", "box", "sh", "-c", "command -v python3"]);
    assert_eq!(out, "~/work/env/bin/python3\n", "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_of_a_run_is_reached_by_its_run() {
    let home = home();
    let folder = home.folder.path().join(".local/state/assize/sandboxes");
    fs::create_dir_all(&folder).unwrap();
    let jail = std::sync::Arc::new(Jail::new(Vec::new()));
    let manager = Manager::open(folder, jail, &[]).await.unwrap();
    let key = Key::new(Some("run-1"), "box").unwrap();
    manager.create_if_not_exists(&key, Spec::default()).await.unwrap();
    let home = tokio::task::spawn_blocking(move || {
        let run = |args: &[&str]| {
            let Ran { code, out, .. } = home.run(&[&["sandbox"], args].concat());
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
fn mistakes_are_named() {
    let home = home();
    let told = |args: &[&str]| {
        let Ran { code, err, .. } = home.run(&[&["sandbox"], args].concat());
        format!("{code} {err}")
    };
    let told = [
        told(&["exec", "none", "ls"]),
        told(&["rm", "none"]),
        told(&["create", "Bad Name"]),
        told(&["create", "x", "--memory", "1M"]),
        told(&["create", "x", "--isolation", "microvm"]),
        told(&["cp", "a", "b"]),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    2 error: there is no sandbox `none`

    hint: `assize sandbox ls` shows those there are

    2 error: there is no sandbox `none`

    hint: `assize sandbox ls` shows those there are

    2 error: `Bad Name` is no name for a sandbox

    hint: use lower-case letters, digits and `-`, 63 at most, as in `negotiate-nvda-m1`

    2 error: `--memory` wants a size from 16M to 1024G, not `1M`

    125 error: no microvm sandbox can be made here: its image was not built yet

    hint: make it: `assize image build microvm`

    2 error: one side of a copy is here, and the other in a sandbox

    hint: name a file in a sandbox as in `my-sandbox:/workspace/file`
    ");
}

#[test]
fn what_cannot_be_cleaned_up_yet_is_not_forgotten() {
    let home = home().set("DOCKER_HOST", "/nonexistent/docker.sock");
    let gone = home.folder.path().join(".local/state/assize/sandboxes/left");
    fs::create_dir_all(&gone).unwrap();
    for name in ["lock", "docker", "jail"] {
        fs::write(gone.join(name), "").unwrap();
    }
    for command in [&["sandbox", "ls"][..], &["doctor", "--offline"], &["sandbox", "ls"]] {
        home.run(command);
        assert_eq!(makers(&home), [".gone-left"], "{command:?}");
    }
}

#[test]
fn a_sandbox_goes_when_its_time_is_up() {
    let home = home();
    assert_eq!(home.run(&["sandbox", "create", "short", "--ttl", "1s"]).code, 0);
    until("its end", || list(&home, &[]).is_empty());
    until("the end of its maker", || makers(&home).is_empty());
}

#[test]
fn when_the_maker_is_killed_its_sandbox_goes_and_the_next_start_cleans_up() {
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
    until("the daemon", || processes_with(&seconds) > 0);
    let maker = makers(&home).pop().unwrap();
    let pid = list(&home, &[])[0]["pid"].as_u64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("the end of its processes", || processes_with(&seconds) == 0);
    until("the end of its groups", || !groups().iter().any(|group| group.contains(&maker)));
    std::thread::sleep(Duration::from_millis(50));
    assert!(list(&home, &[]).is_empty());
    assert_eq!(makers(&home), [] as [String; 0]);
    // Its name is free again.
    assert_eq!(home.run(&["sandbox", "create", "box"]).code, 0);
    drop(Made(&home, "box"));
}

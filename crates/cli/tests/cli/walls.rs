//! Containers and attacks, from the built binary.

use serde_json::Value;

use crate::exec::{home, makers, processes_with, start_daemon, until};
use crate::{Home, Ran};

/// A home from which Docker is reached, if it is there and its image is built.
pub(crate) fn with_docker() -> Option<Home> {
    if_there(home(), "docker")
}

/// A home, if such sandboxes can be made from it.
pub(crate) fn if_there(home: Home, isolation: &str) -> Option<Home> {
    let Ran { code, out, err } =
        home.run_with_input(&["exec", "--isolation", isolation, "-"], b"print(1)");
    if (code, out.as_str()) == (0, "1\n") {
        return Some(home);
    }
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.contains(isolation), "{isolation} is required: {err}");
    skipped(&err);
    None
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

#[test]
fn programs_are_tried_in_containers_too() {
    let Some(home) = with_docker() else { return };
    let task = "Read data from users.json and print usernames";
    let tests = home.write(
        "tests.py",
        "from solution import SAMPLE\ndef test_three(): assert len(SAMPLE) == 3",
    );
    let tests = tests.display().to_string();
    let Ran { code, out, err } =
        home.run(&["run", task, "--isolation", "docker", "--tests", &tests]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ada\n"), "{out}");
    assert!(err.contains("FileNotFoundError") && err.contains("docker"), "{err}");
    assert!(err.contains("✓ attempt 2 succeeded, 1 test passed"), "{err}");
}

/// The ids of the sandboxes that a run used, by its log.
fn logged_ids(home: &Home, isolation: &str) -> Vec<String> {
    let logged = ["--log-level", "info", "--log-format", "json", "--quiet"];
    let run = ["run", "Calculate fibonacci(10)", "--isolation", isolation];
    let Ran { code, err, .. } = home.run(&[&run[..], &logged].concat());
    assert_eq!(code, 0, "{err}");
    let lines = err.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.collect();
    let field = |line: &Value, name: &str| {
        line[name].as_str().or_else(|| line["fields"][name].as_str()).map(str::to_owned)
    };
    let started = lines.iter().filter(|line| {
        field(line, "message").is_some_and(|message| message == "Sandbox execution started")
    });
    started.map(|line| field(line, "container_id").unwrap()).collect()
}

#[test]
fn log_names_the_sandbox_by_the_id_of_its_backend() {
    let [id] = logged_ids(&home(), "jail").try_into().unwrap();
    let (maker, number) = id.rsplit_once('-').unwrap();
    assert!(!maker.is_empty() && number.parse::<u64>().is_ok(), "{id}");
    let Some(home) = with_docker() else { return };
    let [id] = logged_ids(&home, "docker").try_into().unwrap();
    assert!(id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
}

#[test]
fn debates_are_held_in_containers_too() {
    let Some(home) = with_docker() else { return };
    let args = ["consult", "CRST", "--rounds", "1", "--moves", "1", "--parallel-moves", "2"];
    let Ran { code, out, err } = home.run(&[&args[..], &["--isolation", "docker"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Recommended to CRST") && err.contains("debates in: docker"), "{err}");
    assert!(!out.contains("no isolation"), "{out}");
    // An image that is asked for and missing is an error, never something weaker.
    home.write("move.md", "# Open a second bakery");
    let missing = ["--image", "no/such:1", "--rounds", "1"];
    for args in [&["debate", "move.md"][..], &["consult", "CRST", "--moves", "1"]] {
        let Ran { code, out, err } = home.run(&[args, &missing].concat());
        assert_eq!((code, out.as_str()), (125, ""), "{err}");
        assert!(err.contains("the engine has no image `no/such:1`"), "{err}");
    }
}

#[test]
fn docker_runs_code_with_the_same_words() {
    let Some(home) = with_docker() else { return };
    home.write("plot.py", "import os, sys, traceback\ntraceback.print_stack()\nprint(sys.argv[1], sys.stdin.read())\nopen('left', 'w').write('x')\nsys.exit(9)");
    let args = ["exec", "--isolation", "at-least=docker", "--json", "--out", "out", "plot.py", "a"];
    let Ran { code, out, err } = home.run_with_input(&args, b"given");
    assert_eq!(code, 9, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["stdout"], &told["isolation"]), (&"a given\n".into(), &"docker".into()));
    assert!(told["stderr"].as_str().unwrap().contains("File \"plot.py\", line 2"), "{told}");
    assert!(home.work().join("out/left").exists());
    let late = home.run_with_input(
        &["exec", "--isolation", "docker", "--timeout", "1", "-"],
        b"while True: pass",
    );
    assert_eq!(
        (late.code, late.err.contains("its time of 1 s is up")),
        (124, true),
        "{}",
        late.err
    );
    let more = b"data = []\nwhile True: data.append(bytearray(1 << 20))";
    let more = home.run_with_input(
        &["exec", "--isolation", "docker", "--memory", "64M", "--disk", "8M", "-"],
        more,
    );
    assert_eq!(
        (more.code, more.err.contains("out of memory, it had 64M")),
        (137, true),
        "{}",
        more.err
    );
    let unknown = home
        .run_with_input(&["exec", "--isolation", "docker", "--image", "no/such:1", "-"], b"pass");
    assert_eq!(unknown.code, 125);
    assert!(unknown.err.contains("the engine has no image `no/such:1`"), "{}", unknown.err);
    let images: Value = serde_json::from_str(&home.run(&["image", "ls", "--json"]).out).unwrap();
    assert!(images.as_array().unwrap().iter().any(|image| image["current"] == true), "{images}");
}

#[test]
fn an_engine_that_is_not_there_is_named() {
    let home = home().set("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let Ran { code, out, err } =
        home.run_with_input(&["exec", "--isolation", "docker", "-"], b"print(1)");
    assert_eq!((code, out.as_str()), (125, ""));
    assert!(
        err.contains(
            "no docker sandbox can be made here: no engine listens at `/nonexistent/docker.sock`"
        ),
        "{err}"
    );
    assert_eq!(home.run(&["image", "build"]).code, 125);
    // A floor is met from below upwards, and nothing beneath it will do.
    let floor = |floor: &str| {
        home.run_with_input(&["exec", "--isolation", floor, "--json", "-"], b"print(1)")
    };
    let met: Value = serde_json::from_str(&floor("at-least=jail").out).unwrap();
    assert_eq!((&met["isolation"], &met["stdout"]), (&"jail".into(), &"1\n".into()));
    let missed = floor("at-least=docker");
    assert_eq!((missed.code, missed.out.as_str()), (125, ""));
    assert!(missed.err.contains("no engine listens at"), "{}", missed.err);
}

/// Where namespaces are refused, as they are to whoever lives in another root than the system's.
#[test]
fn without_a_jail_the_next_stronger_walls_are_taken_and_it_is_said() {
    let Some(home) = with_docker() else { return };
    if !rustix::process::geteuid().is_root() {
        return skipped("only root may live in another root");
    }
    let root = home.work().join("root");
    std::fs::create_dir(&root).unwrap();
    let elsewhere = |home: &Home, args: &[&str]| {
        let inside = home.command(args);
        let mut outside = std::process::Command::new("unshare");
        let script = "mount --rbind / \"$0\" && exec /usr/sbin/chroot \"$0\" \"$@\"";
        outside.args(["--mount", "sh", "-c", script]).arg(&root);
        outside.arg(inside.get_program()).args(inside.get_args()).env_clear();
        outside.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let code = home.write("code.py", "print(1)");
        let ran = outside.arg(code).output().unwrap();
        (
            ran.status.code(),
            String::from_utf8(ran.stdout).unwrap(),
            String::from_utf8(ran.stderr).unwrap(),
        )
    };
    let (code, out, err) = elsewhere(&home, &["exec", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["stdout"], &told["isolation"]), (&"1\n".into(), &"docker".into()));
    let why = told["why"].as_str().unwrap();
    assert!(why.starts_with("auto: no jail sandbox can be made here"), "{why}");
    // Not where the jail was asked for.
    let (code, _, err) = elsewhere(&home, &["exec", "--isolation", "jail"]);
    assert_eq!(code, Some(125));
    assert!(err.contains("no jail sandbox can be made here"), "{err}");
    // And where nothing can be had, that is about the first.
    let home = home.set("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let (code, _, err) = elsewhere(&home, &["exec"]);
    assert_eq!(code, Some(125));
    assert!(err.contains("no jail sandbox can be made here"), "{err}");
}

#[test]
fn when_assize_is_killed_its_container_goes_and_the_next_start_cleans_up() {
    let Some(home) = with_docker() else { return };
    let (mut child, seconds) = start_daemon(&home, &["--isolation", "docker"]);
    let maker = makers(&home).pop().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of its processes", || processes_with(&seconds) == 0);
    let filter = format!("label=assize.maker={maker}");
    until("the end of its container", || {
        let mut list = std::process::Command::new("docker");
        list.args(["ps", "-aq", "--filter", &filter]).output().unwrap().stdout.is_empty()
    });
    assert_eq!(home.run(&["sandbox", "ls"]).code, 0);
    assert_eq!(makers(&home), [] as [String; 0]);
}

#[test]
fn a_container_is_held_and_used_by_different_processes() {
    let Some(home) = with_docker() else { return };
    assert_eq!(home.run(&["sandbox", "create", "box", "--isolation", "docker"]).code, 0);
    assert!(home.run(&["sandbox", "ls"]).out.contains("docker"));
    assert_eq!(home.run(&["sandbox", "exec", "box", "sh", "-c", "echo kept > file"]).code, 0);
    assert_eq!(home.run(&["sandbox", "exec", "box", "cat", "file"]).out, "kept\n");
    assert_eq!(home.run(&["sandbox", "rm", "box"]).code, 0);
    until("the end of its maker", || makers(&home).is_empty());
}

#[test]
fn an_attack_prints_a_scorecard() {
    let home = home();
    let Ran { code, out, err } =
        home.run(&["attack", "--isolation", "jail", "--only", "network/unix", "--json"]);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let probe = &told["backends"][0]["probes"][0];
    assert_eq!(
        (&probe["outcome"], &probe["control"]),
        (&"blocked".into(), &"reached".into()),
        "{probe}"
    );
    for field in ["name", "group", "backend", "detail", "what"] {
        assert!(probe[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    let text =
        home.run(&["attack", "--isolation", "jail", "--only", "network/unix", "--verbose"]).out;
    assert!(
        text.contains("nothing got out") && text.contains("blocked        network/unix"),
        "{text}"
    );
    let none = home.run(&["attack", "--only", "no such probe"]);
    assert_eq!(none.code, 2, "{}", none.err);
    assert_eq!(home.run(&["attack", "--isolation", "microvm"]).code, 125);
}

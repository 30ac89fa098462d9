//! Tests of Docker sandboxes, of the choice of a backend, and of `assize attack`, with the built binary.

use serde_json::Value;

use crate::exec::{
    count_processes_with_argument, home, registered_sandbox_owners, start_daemon, wait_for,
};
use crate::{CommandOutput, Home};

/// Creates a `Home` for tests with Docker. Returns `None` if Docker is unavailable or the sandbox image is not built.
pub(crate) fn with_docker() -> Option<Home> {
    home_if_available(home(), "docker")
}

/// Returns `home` if sandboxes with the backend `isolation` work in it. Otherwise returns `None`, so that the test is
/// skipped, or panics if the environment variable `ASSIZE_TEST_REQUIRE` names the backend.
pub(crate) fn home_if_available(home: Home, isolation: &str) -> Option<Home> {
    let CommandOutput { code, out, err } =
        home.run_with_input(&["exec", "--isolation", isolation, "-"], b"print(1)");
    if (code, out.as_str()) == (0, "1\n") {
        return Some(home);
    }
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.contains(isolation),
        "`ASSIZE_TEST_REQUIRE` names {isolation}, but {isolation} sandboxes do not work: {err}"
    );
    report_skipped(&err);
    None
}

/// Prints why a test is skipped.
#[expect(clippy::print_stderr, reason = "a skipped test reports why")]
fn report_skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}

#[test]
fn run_executes_and_tests_programs_in_docker() {
    let Some(home) = with_docker() else { return };
    let task = "Read data from users.json and print usernames";
    let tests = home.write(
        "tests.py",
        "from solution import SAMPLE\ndef test_three(): assert len(SAMPLE) == 3",
    );
    let tests = tests.display().to_string();
    let CommandOutput { code, out, err } =
        home.run(&["run", task, "--isolation", "docker", "--tests", &tests]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ada\n"), "{out}");
    assert!(err.contains("FileNotFoundError") && err.contains("docker"), "{err}");
    assert!(err.contains("✓ attempt 2 succeeded, 1 test passed"), "{err}");
}

/// Executes `assize run` and returns the ids of its sandboxes from the log field `container_id`.
fn logged_sandbox_ids(home: &Home, isolation: &str) -> Vec<String> {
    let logged = ["--log-level", "info", "--log-format", "json", "--quiet"];
    let run = ["run", "Calculate fibonacci(10)", "--isolation", isolation];
    let CommandOutput { code, err, .. } = home.run(&[&run[..], &logged].concat());
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
fn run_log_contains_the_id_that_the_backend_gave_the_sandbox() {
    let [id] = logged_sandbox_ids(&home(), "jail").try_into().unwrap();
    let (maker, number) = id.rsplit_once('-').unwrap();
    assert!(!maker.is_empty() && number.parse::<u64>().is_ok(), "{id}");
    let Some(home) = with_docker() else { return };
    let [id] = logged_sandbox_ids(&home, "docker").try_into().unwrap();
    assert!(id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
}

#[test]
fn consultation_debates_run_in_docker_and_a_missing_image_is_an_error() {
    let Some(home) = with_docker() else { return };
    let args = ["consult", "CRST", "--rounds", "1", "--moves", "1", "--parallel-moves", "2"];
    let CommandOutput { code, out, err } =
        home.run(&[&args[..], &["--isolation", "docker"]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("Recommended to CRST") && err.contains("isolation of the debates: docker"),
        "{err}"
    );
    assert!(!out.contains("no isolation"), "{out}");
    // With a missing image, the command fails instead of using weaker isolation.
    home.write("move.md", "# Open a second bakery");
    let missing = ["--image", "no/such:1", "--rounds", "1"];
    for args in [&["debate", "move.md"][..], &["consult", "CRST", "--moves", "1"]] {
        let CommandOutput { code, out, err } = home.run(&[args, &missing].concat());
        assert_eq!((code, out.as_str()), (125, ""), "{err}");
        assert!(err.contains("the engine has no image `no/such:1`"), "{err}");
    }
}

#[test]
fn exec_in_docker_reports_output_and_limits_like_other_backends() {
    let Some(home) = with_docker() else { return };
    home.write("plot.py", "import os, sys, traceback\ntraceback.print_stack()\nprint(sys.argv[1], sys.stdin.read())\nopen('left', 'w').write('x')\nsys.exit(9)");
    let args = ["exec", "--isolation", "at-least=docker", "--json", "--out", "out", "plot.py", "a"];
    let CommandOutput { code, out, err } = home.run_with_input(&args, b"given");
    assert_eq!(code, 9, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["stdout"], &report["isolation"]), (&"a given\n".into(), &"docker".into()));
    assert!(report["stderr"].as_str().unwrap().contains("File \"plot.py\", line 2"), "{report}");
    assert!(home.work_folder().join("out/left").exists());
    let late = home.run_with_input(
        &["exec", "--isolation", "docker", "--timeout", "1", "-"],
        b"while True: pass",
    );
    assert_eq!(
        (late.code, late.err.contains("it reached its time limit of 1 s")),
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
        (more.code, more.err.contains("it reached its memory limit of 64M")),
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
fn unreachable_docker_engine_is_an_error_that_names_its_socket() {
    let home = home().set("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let CommandOutput { code, out, err } =
        home.run_with_input(&["exec", "--isolation", "docker", "-"], b"print(1)");
    assert_eq!((code, out.as_str()), (125, ""));
    assert!(
        err.contains(
            "docker sandboxes are unavailable: no container engine listens at `/nonexistent/docker.sock`"
        ),
        "{err}"
    );
    assert_eq!(home.run(&["image", "build"]).code, 125);
    // `at-least=X` selects the weakest available backend that is at least as strong as X.
    let floor = |floor: &str| {
        home.run_with_input(&["exec", "--isolation", floor, "--json", "-"], b"print(1)")
    };
    let met: Value = serde_json::from_str(&floor("at-least=jail").out).unwrap();
    assert_eq!((&met["isolation"], &met["stdout"]), (&"jail".into(), &"1\n".into()));
    let missed = floor("at-least=docker");
    assert_eq!((missed.code, missed.out.as_str()), (125, ""));
    assert!(missed.err.contains("no container engine listens at"), "{}", missed.err);
    // `doctor` fails if the selected backend is unavailable.
    assert_eq!(home.run(&["doctor", "--offline"]).code, 0);
    let selected = home.set("ASSIZE_SANDBOX_ISOLATION", "docker").run(&["doctor", "--offline"]);
    assert_eq!(selected.code, 125, "{}", selected.err);
    assert!(selected.err.contains("no container engine listens at"), "{}", selected.err);
}

/// The test runs assize in a chroot. The kernel refuses user namespaces in a chroot, so assize cannot create a jail.
#[test]
fn auto_isolation_falls_back_from_jail_to_docker_and_reports_it() {
    let Some(home) = with_docker() else { return };
    if !rustix::process::geteuid().is_root() {
        return report_skipped("chroot needs root");
    }
    let root = home.work_folder().join("root");
    std::fs::create_dir(&root).unwrap();
    let in_chroot = |home: &Home, args: &[&str]| {
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
    let (code, out, err) = in_chroot(&home, &["exec", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["stdout"], &report["isolation"]), (&"1\n".into(), &"docker".into()));
    let why = report["why"].as_str().unwrap();
    assert!(why.starts_with("auto: jail sandboxes are unavailable"), "{why}");
    // An explicit `--isolation jail` has no fallback.
    let (code, _, err) = in_chroot(&home, &["exec", "--isolation", "jail"]);
    assert_eq!(code, Some(125));
    assert!(err.contains("jail sandboxes are unavailable"), "{err}");
    // If neither the jail nor Docker is available, the error message is about the jail.
    let home = home.set("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let (code, _, err) = in_chroot(&home, &["exec"]);
    assert_eq!(code, Some(125));
    assert!(err.contains("jail sandboxes are unavailable"), "{err}");
}

#[test]
fn killed_exec_leaves_no_container_and_the_next_command_cleans_the_sandbox_registry() {
    let Some(home) = with_docker() else { return };
    let (mut child, seconds) = start_daemon(&home, &["--isolation", "docker"]);
    let maker = registered_sandbox_owners(&home).pop().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the processes of the sandbox to end", || {
        count_processes_with_argument(&seconds) == 0
    });
    let filter = format!("label=assize.maker={maker}");
    wait_for("the removal of the container", || {
        let mut list = std::process::Command::new("docker");
        list.args(["ps", "-aq", "--filter", &filter]).output().unwrap().stdout.is_empty()
    });
    assert_eq!(home.run(&["sandbox", "ls"]).code, 0);
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);
}

#[test]
fn named_docker_sandbox_keeps_its_files_between_commands() {
    let Some(home) = with_docker() else { return };
    assert_eq!(home.run(&["sandbox", "create", "box", "--isolation", "docker"]).code, 0);
    assert!(home.run(&["sandbox", "ls"]).out.contains("docker"));
    assert_eq!(home.run(&["sandbox", "exec", "box", "sh", "-c", "echo kept > file"]).code, 0);
    assert_eq!(home.run(&["sandbox", "exec", "box", "cat", "file"]).out, "kept\n");
    assert_eq!(home.run(&["sandbox", "rm", "box"]).code, 0);
    wait_for("the process that created the sandbox to exit", || {
        registered_sandbox_owners(&home).is_empty()
    });
}

#[test]
fn attack_reports_the_outcome_of_each_probe() {
    let home = home();
    let CommandOutput { code, out, err } =
        home.run(&["attack", "--isolation", "jail", "--only", "network/unix", "--json"]);
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let probe = &report["backends"][0]["probes"][0];
    assert_eq!(
        (&probe["outcome"], &probe["control"]),
        (&"blocked".into(), &"reached".into()),
        "{probe}"
    );
    for field in ["name", "group", "backend", "detail", "description"] {
        assert!(probe[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    let text =
        home.run(&["attack", "--isolation", "jail", "--only", "network/unix", "--verbose"]).out;
    assert!(
        text.contains("no probe escaped") && text.contains("blocked        network/unix"),
        "{text}"
    );
    let none = home.run(&["attack", "--only", "no such probe"]);
    assert_eq!(none.code, 2, "{}", none.err);
    assert_eq!(home.run(&["attack", "--isolation", "microvm"]).code, 125);
}

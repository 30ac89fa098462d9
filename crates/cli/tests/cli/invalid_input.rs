//! Tests of exit codes and messages for invalid flags, settings and files, and for output that cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::exec::home;
use crate::runs::run_with_own_mounts;
use crate::{CommandOutput, Home, command_output};

/// Every command with an invalid flag or argument exits with 2 before it starts anything.
#[test]
fn invalid_flags_exit_2_with_a_helpful_message() {
    let rows: &[(&[&str], &[&str])] = &[
        (
            &["exec", "--timeout", "-1", "x.py"],
            &["`--timeout` must be a number from 0.001", "not `-1`"],
        ),
        (&["run", "x", "--timeout", "-1"], &["`--timeout` must be a number", "not `-1`"]),
        (&["run", "x", "--max-cost", "-1"], &["`--max-cost` must be a number from 0", "not `-1`"]),
        (&["run", "x", "--memory", "12"], &["`--memory` must be a size from 16M", "not `12`"]),
        (&["ask", "x", "--temperature", "5"], &["`--temperature` must be a number from 0 to 2"]),
        (
            &["run", "x", "--candidates", "0"],
            &["--candidates", "expected a whole number from 1 to 16"],
        ),
        (&["run", "x", "--max-attempts", "-3"], &["expected a whole number from 1 to 20"]),
        (&["eval", "x", "--limit", "0"], &["expected a whole number of at least 1"]),
        (&["consult", "NVDA", "--rounds", "51"], &["expected a whole number from 1 to 50"]),
        (&["worker", "--slots", "0"], &["expected a whole number from 1 to 1000"]),
        (&["work", "x", "--max-steps", "none"], &["expected a whole number from 1 to 500"]),
        (&["sandbox", "create", "x", "--ttl", "5"], &["missing unit: expected `5s`, `5m`, `5h`"]),
        (&["sandbox", "create", "x", "--ttl", "soon"], &["such as `90s`, `30m`, `2h`"]),
        (&["sandbox", "create", "x", "--ttl", "0s"], &["expected a duration from `1s` to `7d`"]),
        (&["sandbox", "create", "x", "--ttl", "8d"], &["expected a duration from `1s` to `7d`"]),
        (&["consult", "Larkspur Kettles"], &["give its name: `--name"]),
        (&["drafts", "clean", "--older-than", "7"], &["missing unit: expected `7s`"]),
        (&["serve", "--port", "8080"], &["`--listen 127.0.0.1:8080` sets address and port"]),
        (&["serve", "--listen", "8080x"], &["such as `127.0.0.1:8080`"]),
        (&["serve", "--listen", "127.0.0.1"], &["an IP address with a port"]),
        (&["serve", "--tls-cert", "no.pem", "--tls-key", "no.pem"], &["cannot use `no.pem`"]),
        (&["serve", "--root", "x=nowhere"], &["there is no folder"]),
        (&["run", "x", "--isolation", "banana"], &["`--isolation` must be jail, docker, microvm"]),
        (&["exec", "--isolation", "banana", "x.py"], &["`--isolation` must be jail, docker"]),
        (&["worker", "--isolation", "banana"], &["`--isolation` must be jail, docker"]),
        (
            &["run", "x", "--provider", "anthropc"],
            &["unknown provider `anthropc`", "did you mean `anthropic`"],
        ),
        (
            &["runs", "list", "--cluster", "http://a"],
            &["`--cluster` must be servers such as `nats://"],
        ),
        (&["ask", "x", "--replay", "none"], &["cannot open the cassette `none`"]),
        (&["exec", "none.py"], &["cannot read `none.py`"]),
        (&["rnu", "x"], &["unrecognized subcommand 'rnu'", "similar subcommand exists: 'run'\n"]),
        (&["runs", "lst"], &["similar subcommand exists: 'list'\n"]),
        (&["frobnicate"], &["unrecognized subcommand 'frobnicate'"]),
        (&["run", "x", "--retries", "3"], &["`--max-attempts NUMBER` sets the maximum number"]),
        (&["run", "x", "--input", "f"], &["`--file PATH` passes a file to the program"]),
        (&["run", "x", "--lang", "python"], &["a similar argument exists: '--language'"]),
        (&["run", "--verbose", "x"], &["`--log-level info`"]),
        (
            &["config", "set", "provider", "anthropc"],
            &["`provider` must be one of", "did you mean `anthropic`?"],
        ),
        (
            &["config", "set", "gateway.retrys", "3"],
            &["unknown setting", "the nearest setting is `gateway.retries`"],
        ),
        (
            &["config", "set", "gateway.retries", "99"],
            &["must be a whole number from 0 to 20, not `99`"],
        ),
        (
            &["config", "set", "gateway.retries", "-1"],
            &["must be a whole number from 0 to 20, not `-1`"],
        ),
        (&["config", "set", "openai.api_key", "x"], &["would contain a secret key", ".env"]),
        (&["config", "set", "model", "sk-abcdefghijklmnop"], &["would contain a secret key"]),
        (&["config", "set", "sandbox.isolation", "banana"], &["must be jail, docker, microvm"]),
        (&["config", "set", "prices.m.cost", "1"], &["the key of a price is `prices.MODEL.FIELD`"]),
        (&["config", "unset", "nothing"], &["unknown setting `nothing`"]),
    ];
    let home = home();
    for (args, contains) in rows {
        let CommandOutput { code, out, err } = home.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        for text in *contains {
            assert!(err.contains(text), "the error message for {args:?} lacks {text:?}: {err}");
        }
        assert!(!err.contains("as a value, use '--"), "{args:?}: {err}");
        assert!(!err.contains("sk-abc"), "{args:?}: {err}");
    }
    // The refused commands wrote no settings file.
    assert!(!home.folder.path().join(".config").exists());
}

/// A command exits with 2 if a flag has an invalid value, and with 3 if an environment variable or a settings file has
/// the same value.
#[test]
fn invalid_settings_exit_3_with_a_message_that_names_their_source() {
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("ASSIZE_SANDBOX_TIMEOUT_SECONDS", "sandbox.timeout_seconds", "-1", &["exec", "x.py"]),
        ("ASSIZE_SANDBOX_ISOLATION", "sandbox.isolation", "banana", &["run", "x"]),
        ("ASSIZE_SANDBOX_MEMORY", "sandbox.memory", "12", &["exec", "x.py"]),
        ("ASSIZE_PROVIDER", "provider", "anthropc", &["ask", "x"]),
        ("ASSIZE_CLUSTER_SERVERS", "cluster.servers", "http://a", &["runs", "list"]),
        ("ASSIZE_TEMPERATURE", "temperature", "5", &["ask", "x"]),
        ("ASSIZE_LOG_LEVEL", "log.level", "loud", &["doctor"]),
    ];
    for (variable, key, value, args) in rows {
        let CommandOutput { code, err, .. } = home().set(variable, *value).run(args);
        assert_eq!(code, 3, "{variable}: {err}");
        assert!(err.contains(&format!("environment, {variable}: must be ")), "{err}");
        let home = home();
        let number = value.parse::<f64>().is_ok() && !key.ends_with("memory");
        let written = if number { (*value).to_owned() } else { format!("\"{value}\"") };
        home.write("assize.toml", &format!("{key} = {written}\n"));
        let CommandOutput { code, err, .. } = home.run(args);
        assert_eq!(code, 3, "{key}: {err}");
        assert!(err.contains(&format!("assize.toml:1: `{key}` must be ")), "{err}");
    }
    for python in ["/nonexistent", "/etc/passwd", "."] {
        let home = home().set("ASSIZE_SANDBOX_PYTHON", python);
        home.write("x.py", "print(1)");
        for args in [
            &["exec", "x.py"][..],
            &["exec", "--isolation", "jail", "x.py"],
            &["run", "Calculate fibonacci(10)"],
        ] {
            let CommandOutput { code, err, .. } = home.run(args);
            assert_eq!(code, 3, "{args:?} {err}");
            let named = "invalid setting `sandbox.python` (environment, ASSIZE_SANDBOX_PYTHON): ";
            assert!(
                err.contains(named) && err.contains("is not an executable file"),
                "{args:?} {err}"
            );
        }
    }
    let CommandOutput { code, err, .. } = Home::new()
        .set("ASSIZE_CLUSTER_SERVERS", "nats://127.0.0.1:9")
        .set("ASSIZE_CLUSTER_CA_FILE", "nowhere.pem")
        .run(&["cluster", "status"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`cluster.ca_file`: file not found"), "{err}");
}

#[test]
fn config_set_writes_the_users_settings_file_and_keeps_its_comments() {
    let home = home();
    let file = home.folder.path().join(".config/assize/config.toml");
    let CommandOutput { code, err, .. } = home.run(&["config", "set", "provider", "rehearsal"]);
    assert_eq!((code, err.as_str()), (0, "set `provider` in `~/.config/assize/config.toml`\n"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("# mine\n{}", text.replace('\n', " # offline\n"))).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(home.run(&["config", "set", "rehearsal.seed", "7"]).code, 0);
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "# mine\nprovider = \"rehearsal\" # offline\n\n[rehearsal]\nseed = 7\n"
    );
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let CommandOutput { out, .. } = home.run(&["config", "show", "--only", "set"]);
    assert!(out.contains("rehearsal.seed   7  (~/.config/assize/config.toml:5)"), "{out}");
    // `config set` reports that a source with higher precedence overrides the new value.
    home.write("assize.toml", "[rehearsal]\nseed = 1\n");
    let CommandOutput { code, err, .. } = home.run(&["config", "set", "rehearsal.seed", "8"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("`rehearsal.seed` has no effect: another source (assize.toml:2)"),
        "{err}"
    );
    assert_eq!(home.run(&["config", "unset", "rehearsal.seed"]).code, 0);
    let CommandOutput { code, err, .. } = home.run(&["config", "unset", "rehearsal.seed"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("is not set in"), "{err}");
}

#[test]
fn config_set_and_unset_repair_an_invalid_settings_file() {
    let home = home();
    let file = home.folder.path().join(".config/assize/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "nosuch = 1\n[sandbox]\ncpus = -5\n").unwrap();
    assert_eq!(home.run(&["exec", "x.py"]).code, 3);
    let CommandOutput { code, err, .. } = home.run(&["config", "set", "sandbox.cpus", "1"]);
    assert_eq!(code, 0, "{err}");
    // The file still contains the other invalid setting, `nosuch`, and a warning names it.
    assert!(err.contains("warning: ") && err.contains("nosuch"), "{err}");
    assert_eq!(home.run(&["config", "unset", "nosuch"]).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "[sandbox]\ncpus = 1\n");
    assert_eq!(home.run(&["config", "unset", "sandbox.cpus"]).code, 0);
    assert_eq!(home.run(&["config", "show"]).code, 0);
    // A model name with a dot may be written with or without quotes. The file stays valid in both cases.
    assert_eq!(home.run(&["config", "set", "prices.\"my-own.model\".input", "0.5"]).code, 0);
    assert_eq!(home.run(&["config", "set", "prices.my-own.model.output", "2"]).code, 0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("[prices.\"my-own.model\"]\ninput = 0.5\noutput = 2\n"), "{text}");
}

/// The state files of this test are the list of trusted folders and the token file.
#[test]
fn unusable_state_file_is_reported_with_a_hint() {
    let home = home();
    let state = home.folder.path().join(".local/state/assize");
    // A folder replaces the state file. Removing permissions would not work, because root can read every file.
    fs::create_dir_all(state.join("trusted.json")).unwrap();
    let CommandOutput { code, err, .. } = home.run(&["ask", "x"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("trusted.json`: not a regular file"), "{err}");
    assert!(err.contains("hint: ") && err.contains("`assize config trust`"), "{err}");
    fs::remove_dir(state.join("trusted.json")).unwrap();
    fs::write(state.join("taken"), "").unwrap();
    let CommandOutput { code, err, .. } =
        home.run(&["serve", "--token-file", "../.local/state/assize/taken/t"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("cannot read or write the token file"), "{err}");
    assert!(err.contains("hint: ") && err.contains("`--token-file FILE`"), "{err}");
}

#[test]
fn commands_with_closed_standard_output_exit_4_before_any_work() {
    let shell = |home: &Home, script: &str| {
        let run = home.command(&[]);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, env!("CARGO_BIN_EXE_assize")])
            .current_dir(home.work_folder())
            .env_clear();
        shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command_output(shell.output().unwrap(), home.folder.path())
    };
    let closed = home();
    let CommandOutput { code, err, .. } =
        shell(&closed, "\"$0\" run 'Calculate fibonacci(10)' --quiet >&-");
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("cannot write to standard output: it is closed"), "{err}");
    assert!(err.contains("`> /dev/null`"), "{err}");
    assert!(!closed.store_path().exists());
    assert_eq!(shell(&closed, "echo 'print(1)' | \"$0\" exec - >&-").code, 4);
    assert_eq!(shell(&closed, "\"$0\" config show >&-").code, 4);
    // A closed standard output is no error if the program prints nothing. Output to `/dev/null` is no error either.
    assert_eq!(shell(&closed, "echo 'x = 1' | \"$0\" exec - >&-").code, 0);
    let discarded = home();
    for to in ["> /dev/null", "1<>/dev/null"] {
        let script = format!("\"$0\" run 'Calculate fibonacci(10)' --quiet {to}");
        let CommandOutput { code, err, .. } = shell(&discarded, &script);
        assert_eq!(code, 0, "{err}");
    }
}

#[test]
fn error_of_a_run_that_cannot_start_on_a_full_disk_does_not_suggest_to_resume_the_run() {
    let home = home().set("ASSIZE_STORE_PATH", "disk/store.db");
    let script = "mkdir disk && mount -t tmpfs -o size=64k tmpfs disk
assize run 'Calculate fibonacci(10)' --quiet";
    let CommandOutput { code, out, err } = run_with_own_mounts(&home, script);
    assert_eq!((code, out.as_str()), (4, ""), "{err}");
    assert!(err.contains("hint: free some disk space and try again"), "{err}");
    assert!(!err.contains("resume"), "{err}");
}

/// The exit code of `assize run` reports the outcome of the run even if the reader closes the output pipe.
#[test]
fn run_with_a_closed_output_pipe_exits_with_the_code_of_its_outcome() {
    let home = home();
    for (expected, code) in [("55", 0), ("99", 1)] {
        let args = ["run", "Calculate fibonacci(10)", "--expect", expected, "--json", "--quiet"];
        let mut child = home.command(&args).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{expected}");
    }
}

//! Tests of `assize run` with the built binary. A model writes a program; assize runs it, and a failed program is
//! criticised and corrected.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use assize_testkit::{FakeKind, FakeProvider, FakeReply};
use serde_json::{Value, json};

use crate::exec::{home, registered_sandbox_owners, wait_for};
use crate::{CommandOutput, Home};

const FIBONACCI: &str = "Calculate fibonacci(10)";
const USERS: &str = "Read data from users.json and print usernames";

#[test]
fn run_with_the_rehearsal_model_corrects_a_failed_program() {
    let home = home();
    let CommandOutput { code, out, err } = home.run(&["run", FIBONACCI]);
    assert_eq!((code, out.as_str()), (0, "55\n"), "{err}");
    assert!(err.contains("[rehearsal, no model was called]"), "{err}");
    assert!(err.contains("✓ attempt 1 succeeded") && err.contains("jail (auto:"), "{err}");

    // For this task, the first program of the rehearsal model fails and the second one succeeds.
    let CommandOutput { code, out, err } = home.run(&["run", USERS, "--show-code"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("users.json not found; using sample data:\nada\n"), "{out}");
    assert!(out.contains("import json"), "{out}");
    assert!(err.contains("✗ attempt 1 failed: the program exited with code 1"), "{err}");
    assert!(
        err.contains("FileNotFoundError") && err.contains("critic: The program opens"),
        "{err}"
    );

    let given = home.write("users.json", r#"[{"username": "zoe"}]"#).display().to_string();
    let CommandOutput { out, err, .. } = home.run(&["run", USERS, "--file", &given, "--quiet"]);
    assert_eq!((out.as_str(), err.as_str()), ("zoe\n", ""));
    // The input file has another structure: if a key is missing, the critic names the key, not a missing file.
    for nested in [r#"{"users": ["zoe"]}"#, r#"{"users": [{"username": "zoe"}]}"#] {
        let nested = home.write("users.json", nested).display().to_string();
        let CommandOutput { code, out, err } =
            home.run(&["run", USERS, "--file", &nested, "--quiet"]);
        assert_eq!((code, out.as_str()), (0, "zoe\n"), "{err}");
    }
    let other = home.write("users.json", r#"[{"login": "zoe"}]"#).display().to_string();
    let CommandOutput { out, err, .. } = home.run(&["run", USERS, "--file", &other]);
    assert_eq!(out, "zoe\n", "{err}");
    assert!(
        err.contains("KeyError: 'username'")
            && err.contains("critic: The program failed: KeyError: 'username'."),
        "{err}"
    );
    assert!(!err.contains("no such file"), "{err}");
    assert_eq!(registered_sandbox_owners(&home), [] as [String; 0]);
}

#[test]
fn run_of_an_unknown_task_without_a_provider_exits_3_and_names_the_known_tasks() {
    let home = home();
    let CommandOutput { code, out, err } = home.run(&["run", "Solve chess"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("only these Python tasks: \"Calculate fibonacci(10)\""), "{err}");
    assert!(err.contains("ANTHROPIC_API_KEY"), "{err}");
    assert_eq!(home.run(&["run", FIBONACCI, "--language", "sh"]).code, 3);
    assert!(home.run(&["runs", "list"]).err.contains("no runs"));
}

#[test]
fn invalid_run_arguments_fail_before_anything_is_started() {
    let home = home();
    home.write("taken.py", "");
    let long = "x".repeat(10 << 20);
    let refusal = |args: &[&str], input: &[u8]| {
        let CommandOutput { code, err, .. } =
            home.run_with_input(&[&["run"], args].concat(), input);
        format!("{code} {}", err.trim_end())
    };
    let refusals = [
        refusal(&[" \n"], b""),
        refusal(&["-"], b""),
        refusal(&["-"], long.as_bytes()),
        refusal(&["-"], b"\xff\xfe"),
        refusal(&["x", "--language", "cobol"], b""),
        refusal(&["taken.py"], b""),
        refusal(&["x", "--expect", "/(/"], b""),
        refusal(&["x", "--file", "nowhere.csv"], b""),
        refusal(&["x", "--tests", "nowhere.py"], b""),
        refusal(&["x", "--save", "taken.py"], b""),
        refusal(&["--resume", "run-nothing"], b""),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

/// Creates a `Home` that uses `fake` as its provider, and whose `PATH` contains the interpreters.
pub(crate) fn with_provider(kind: FakeKind, fake: &FakeProvider) -> Home {
    Home::with_fake_provider(kind, fake).set("PATH", "/usr/local/bin:/usr/bin:/bin")
}

/// JSON answer of a model that contains a program.
pub(crate) fn program(code: &str) -> Value {
    json!({"code": code, "dependencies": [], "reasoning": "so", "confidence": 0.5})
}

#[test]
fn run_saves_the_program_and_copies_its_output_files() {
    let home = home();
    let args = [
        "run",
        "Draw a sine wave as an SVG file",
        "--out",
        "pictures",
        "--save",
        "sine.py",
        "--json",
    ];
    let CommandOutput { code, out, err } = home.run(&args);
    assert_eq!(code, 0, "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&result["success"], &result["attempts"]), (&true.into(), &1.into()));
    assert_eq!(result["artifacts"]["files"][0]["name"], "sine.svg");
    assert_eq!(result["label"], "rehearsal, no model was called");
    assert!(
        fs::read_to_string(home.work_folder().join("pictures/sine.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    let saved = fs::read_to_string(home.work_folder().join("sine.py")).unwrap();
    assert_eq!(result["code"], saved);
    // `runs list` and `runs show` print the result and every attempt of the stored run.
    let run = result["run"].as_str().unwrap();
    assert!(
        home.run(&["runs", "list"]).out.contains("(succeeded at the first attempt, rehearsal)")
    );
    let shown = home.run(&["runs", "show", run, "--transcripts", "--events"]).out;
    assert!(shown.contains("✓ attempt 1 succeeded") && shown.contains("import math"), "{shown}");
    for event in ["code_generated", "execution_started", "execution_complete", "code_finished"] {
        assert!(shown.contains(event), "{event}: {shown}");
    }
}

#[test]
fn run_without_a_successful_program_exits_1_and_reports_why() {
    let home = home();
    let tests = "from solution import fibonacci\ndef test_ten(): assert fibonacci(10) == 56";
    home.write("tests.py", tests);
    let args = ["run", FIBONACCI, "--tests", "tests.py", "--max-attempts", "2"];
    let CommandOutput { code, out, err } = home.run(&args);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("✗ attempt 2 failed: 1 of 1 tests failed"), "{err}");
    // The output contains the failed test, its assertion, and the command that shows all programs.
    assert!(err.contains("    test_ten: assert fibonacci(10) == 56\n"), "{err}");
    assert!(err.contains("failed after 2 attempts: 1 of 1 tests failed\n"), "{err}");
    assert!(err.contains("all programs and their output: `assize runs show run-"), "{err}");
    let args =
        ["run", FIBONACCI, "--expect", "56", "--max-attempts", "1", "--quiet", "--save", "x"];
    let CommandOutput { code, out, err } = home.run(&args);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(
        err.starts_with(
            "failed after 1 attempt: the program printed `55`, but `56` was expected\n"
        ),
        "{err}"
    );
    assert!(err.contains("/x` was not written: no program succeeded"), "{err}");
    let args = ["run", FIBONACCI, "--expect", "/^55$/", "--json"];
    let result: Value = serde_json::from_str(&home.run(&args).out).unwrap();
    assert_eq!(result["success"], true);
}

#[test]
fn killed_run_resumes_without_repeating_its_first_attempt() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "400");
    // Kill the process during the model call of the critic, after the first program was written and run.
    let mut child = home.command(&["run", USERS]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let critic = lines.find(|line| line.as_ref().unwrap().contains("requesting a critique"));
    assert!(critic.is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    assert_eq!(listed[0]["status"], "stopped");
    let run = listed[0]["id"].as_str().unwrap().to_owned();
    let shown = home.run(&["runs", "show", &run]);
    assert!(shown.out.contains("✗ attempt 1 failed"), "{}", shown.out);
    let CommandOutput { code, out, err } = home.run(&["runs", "resume", &run]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ada\n"), "{out}");
    assert!(
        !err.contains("attempt 1 of 3 · writing") && err.contains("attempt 2 of 3 · writing"),
        "{err}"
    );
    // A finished run cannot be resumed.
    let again = home.run(&["runs", "resume", &run]);
    assert_eq!(again.code, 2, "{}", again.err);
    // Every command cleans up, but not before all processes of the killed sandbox have ended.
    wait_for("the cleanup of the sandboxes of the killed process", || {
        assert_eq!(home.run(&["sandbox", "ls"]).code, 0);
        registered_sandbox_owners(&home).is_empty()
    });
}

#[test]
fn run_killed_at_random_moments_resumes_to_the_expected_result_without_duplicate_events() {
    let kills = std::env::var("ASSIZE_TEST_KILLS");
    let kills: u32 = kills.map_or(8, |count| count.parse::<u32>().unwrap() / 5);
    let mut dice = fastrand::Rng::with_seed(0x5eed);
    let mut killed = 0;
    while killed < kills {
        let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "20");
        // Alternate between one candidate program and two candidates in parallel.
        let candidates = if killed % 2 == 0 { "1" } else { "2" };
        let start = Instant::now();
        let mut whole = Duration::ZERO;
        loop {
            let listed: Value =
                serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
            let mut command = match listed[0]["id"].as_str() {
                _ if listed[0]["status"] == "done" => break,
                Some(run) => home.command(&["runs", "resume", run]),
                None => home.command(&["run", USERS, "--candidates", candidates]),
            };
            // `whole` estimates the duration of a run without kills on this machine.
            whole = whole.max(Duration::from_millis(300)).max(start.elapsed() / 4);
            let mut child = command.spawn().unwrap();
            if killed < kills {
                std::thread::sleep(whole.mul_f64(dice.f64()));
                child.kill().unwrap();
                killed += 1;
            }
            child.wait_with_output().unwrap();
        }
        let run = home.run(&["runs", "list", "--json"]).out;
        let run: Value = serde_json::from_str(&run).unwrap();
        let id = run[0]["id"].as_str().unwrap();
        let shown = home.run(&["runs", "show", id, "--events", "--json"]).out;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let result = &shown["result"];
        assert_eq!((&result["success"], &result["attempts"]), (&true.into(), &2.into()), "{shown}");
        let events = shown["events"].as_array().unwrap().iter();
        let events = events.filter(|event| event["name"] != "calls_lost");
        let names: Vec<&str> =
            events.clone().map(|event| event["name"].as_str().unwrap()).collect();
        if candidates == "2" {
            // With two candidates, the order of the events varies, and the last execution may be cancelled.
            let about = events.map(|event| {
                let about = &event["payload"];
                format!("{} {} {}", event["name"], about["attempt"], about["candidate"])
            });
            let about: Vec<String> = about.collect();
            let once: std::collections::BTreeSet<&String> = about.iter().collect();
            assert_eq!(once.len(), about.len(), "{about:?}");
            // If one candidate succeeded before the kill, the resumed run does not generate the other candidate.
            let tried = result["history"].as_array().unwrap().len();
            assert!((3..=4).contains(&tried), "{result}");
            continue;
        }
        let attempt = ["code_generated", "execution_started", "execution_complete"];
        let expected =
            [&attempt[..], &["code_criticised"], &attempt, &["code_finished", "run_ended"]]
                .concat();
        assert_eq!(names, expected);
    }
}

#[test]
fn run_works_with_structured_answers_of_several_providers() {
    let answers = [
        program("print(1 / 0)"),
        json!({"issues": ["division by zero"], "suggested_fixes": ["do not divide"]}),
        program("print(42)"),
    ];
    let answers = answers.map(|answer| FakeReply::text(answer.to_string()));
    for kind in [FakeKind::Anthropic, FakeKind::OpenAi, FakeKind::Ollama] {
        let fake = FakeProvider::scripted(kind, answers.clone());
        let home = with_provider(kind, &fake);
        let CommandOutput { code, out, err } = home.run(&["run", "The answer", "--expect", "42"]);
        assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
        assert_eq!(fake.captured_requests().len(), 3);
        assert_eq!(fake.take_violations(), [] as [String; 0]);
        assert!(err.contains("critic: division by zero"), "{err}");
    }
}

#[test]
fn run_stopped_by_a_provider_error_resumes_without_repeating_calls() {
    let critique = json!({"issues": ["it exits"], "suggested_fixes": ["do not"]});
    let script = [
        FakeReply::text(program("raise SystemExit(3)").to_string()),
        FakeReply::status(401),
        FakeReply::text(critique.to_string()),
        FakeReply::text(program("print('done'); open('left', 'w')").to_string()),
    ];
    let fake = FakeProvider::scripted(FakeKind::Anthropic, script);
    let home = with_provider(FakeKind::Anthropic, &fake);
    let CommandOutput { code, err, .. } = home.run(&["run", "Do it"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("resume with `assize runs resume run-"), "{err}");
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let run = listed[0]["id"].as_str().unwrap();
    // A run can be resumed with `--out`, which is relative to the current folder.
    let CommandOutput { code, out, err } = home.run(&["run", "--resume", run, "--out", "out"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert!(home.work_folder().join("out/left").exists(), "{err}");
    assert_eq!(fake.captured_requests().len(), 4);
}

#[test]
fn budget_of_a_run_also_limits_the_resumed_run() {
    let script = [
        FakeReply::text(program("raise SystemExit(3)").to_string()),
        FakeReply::text(json!({"issues": ["it exits"], "suggested_fixes": ["do not"]}).to_string()),
        FakeReply::text(program("print('done')").to_string()),
    ];
    let fake = FakeProvider::scripted(FakeKind::Anthropic, script);
    let home = with_provider(FakeKind::Anthropic, &fake);
    // The number of tokens reserved for a call depends on this machine, which the prompt describes. The call itself
    // uses fewer tokens.
    let with = |max_tokens: &str| {
        home.run(&["run", "Do it", "--max-output-tokens", "500", "--max-tokens", max_tokens])
    };
    let CommandOutput { code, err, .. } = with("1");
    assert_eq!((code, fake.captured_requests().len()), (5, 0), "{err}");
    let (_, reserved) = err.split_once("another call, which may use up to ").unwrap();
    let reserved = reserved.split(' ').next().unwrap();
    let CommandOutput { code, err, .. } = with(reserved);
    assert_eq!((code, fake.captured_requests().len()), (5, 1), "{err}");
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let run = listed[0]["id"].as_str().unwrap();
    let resume = |more: &[&str]| home.run(&[&["runs", "resume", run], more].concat());
    let raised = (reserved.parse::<u64>().unwrap() + 1).to_string();
    // Without a new budget, a resumed run keeps the budget of the last resume.
    for more in [&["--max-tokens", raised.as_str()][..], &[]] {
        let CommandOutput { code, err, .. } = resume(more);
        assert_eq!((code, fake.captured_requests().len()), (5, 1), "{err}");
        let shown = home.run(&["runs", "show", run]).out;
        assert!(shown.contains(&format!("max_tokens {raised}\n")), "{shown}");
    }
    let CommandOutput { code, out, err } = resume(&["--max-tokens", "100000", "--quiet"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "done\n", ""));
}

#[test]
fn session_keeps_files_between_runs_and_allows_one_run_at_a_time() {
    let counts = "open('n', 'a').write('x'); print(len(open('n').read()))";
    let (shows, waits) = ("print(open('n').read())", "import time; time.sleep(60)");
    let answers = [counts, counts, "1 / 0", shows, waits];
    let critique = json!({"issues": [], "suggested_fixes": []}).to_string();
    let mut script: Vec<FakeReply> =
        answers.iter().map(|code| FakeReply::text(program(code).to_string())).collect();
    script.insert(3, FakeReply::text(critique));
    let fake = FakeProvider::scripted(FakeKind::Anthropic, script);
    let home = with_provider(FakeKind::Anthropic, &fake);
    let run = |more: &[&str]| {
        home.run(&[&["run", "Count", "--session", "tally", "--max-attempts", "1"], more].concat())
    };
    assert_eq!(run(&[]).out, "1\n");
    assert_eq!(run(&[]).out, "2\n");
    let prompt = fake.captured_requests()[1].body.to_string();
    assert!(prompt.contains("Earlier programs left these files"), "{prompt}");
    // A failed program does not change the files of the session.
    assert_eq!(run(&[]).code, 1);
    let files = home.folder.path().join(".local/state/assize/sessions/tally/files");
    assert_eq!(fs::read_to_string(files.join("n")).unwrap(), "xx");
    // An input file hides the session's file of the same name for one run only.
    let given = home.write("given/n", "given").display().to_string();
    assert_eq!(run(&["--file", &given]).out, "given\n");
    assert_eq!(fs::read_to_string(files.join("n")).unwrap(), "xx");
    // A second run cannot use the session at the same time.
    let mut first = home.command(&["run", "Wait", "--session", "tally"]).spawn().unwrap();
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("running the program")));
    let second = run(&[]);
    assert_eq!(second.code, 2);
    assert!(second.err.contains("another run is using the session `tally`"), "{}", second.err);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(home.run(&["run", "x", "--session", "../x"]).code, 2);
}

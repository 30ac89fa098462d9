//! `assize run`: code on trial, from the built binary.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use assize_testkit::{FakeProvider, Kind, Reply};
use serde_json::{Value, json};

use crate::exec::{home, makers, until};
use crate::{Home, Ran};

const FIBONACCI: &str = "Calculate fibonacci(10)";
const USERS: &str = "Read data from users.json and print usernames";

#[test]
fn without_a_model_the_loop_can_be_seen() {
    let home = home();
    let Ran { code, out, err } = home.run(&["run", FIBONACCI]);
    assert_eq!((code, out.as_str()), (0, "55\n"), "{err}");
    assert!(err.contains("[rehearsal, no model was asked]"), "{err}");
    assert!(err.contains("✓ attempt 1 succeeded") && err.contains("jail (auto:"), "{err}");

    // One that fails first and corrects itself.
    let Ran { code, out, err } = home.run(&["run", USERS, "--show-code"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("users.json is not there; these are sample data:\nada\n"), "{out}");
    assert!(out.contains("import json"), "{out}");
    assert!(err.contains("✗ attempt 1 failed: it ended with exit code 1"), "{err}");
    assert!(
        err.contains("FileNotFoundError") && err.contains("critic: The program opens"),
        "{err}"
    );

    let given = home.write("users.json", r#"[{"username": "zoe"}]"#).display().to_string();
    let Ran { out, err, .. } = home.run(&["run", USERS, "--file", &given, "--quiet"]);
    assert_eq!((out.as_str(), err.as_str()), ("zoe\n", ""));
    // The file is there and has other keys: the critic says so, and not that it is missing.
    for nested in [r#"{"users": ["zoe"]}"#, r#"{"users": [{"username": "zoe"}]}"#] {
        let nested = home.write("users.json", nested).display().to_string();
        let Ran { code, out, err } = home.run(&["run", USERS, "--file", &nested, "--quiet"]);
        assert_eq!((code, out.as_str()), (0, "zoe\n"), "{err}");
    }
    let other = home.write("users.json", r#"[{"login": "zoe"}]"#).display().to_string();
    let Ran { out, err, .. } = home.run(&["run", USERS, "--file", &other]);
    assert_eq!(out, "zoe\n", "{err}");
    assert!(
        err.contains("KeyError: 'username'")
            && err.contains("critic: The program failed: KeyError: 'username'."),
        "{err}"
    );
    assert!(!err.contains("no such file"), "{err}");
    assert_eq!(makers(&home), [] as [String; 0]);
}

#[test]
fn for_any_other_task_a_provider_is_asked_for() {
    let home = home();
    let Ran { code, out, err } = home.run(&["run", "Solve chess"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("by heart, in Python: \"Calculate fibonacci(10)\""), "{err}");
    assert!(err.contains("ANTHROPIC_API_KEY"), "{err}");
    assert_eq!(home.run(&["run", FIBONACCI, "--language", "sh"]).code, 3);
    assert!(home.run(&["runs", "list"]).err.contains("no runs"));
}

#[test]
fn what_cannot_be_tried_is_said_before_anything_is_done() {
    let home = home();
    home.write("taken.py", "");
    let long = "x".repeat(10 << 20);
    let told = |args: &[&str], input: &[u8]| {
        let Ran { code, err, .. } = home.run_with_input(&[&["run"], args].concat(), input);
        format!("{code} {}", err.trim_end())
    };
    let told = [
        told(&[" \n"], b""),
        told(&["-"], b""),
        told(&["-"], long.as_bytes()),
        told(&["-"], b"\xff\xfe"),
        told(&["x", "--language", "cobol"], b""),
        told(&["taken.py"], b""),
        told(&["x", "--expect", "/(/"], b""),
        told(&["x", "--file", "nowhere.csv"], b""),
        told(&["x", "--tests", "nowhere.py"], b""),
        told(&["x", "--save", "taken.py"], b""),
        told(&["--resume", "run-nothing"], b""),
    ];
    insta::assert_snapshot!(told.join("\n"));
}

pub(crate) fn with_provider(kind: Kind, fake: &FakeProvider) -> Home {
    Home::with(kind, fake).set("PATH", "/usr/local/bin:/usr/bin:/bin")
}

pub(crate) fn program(code: &str) -> Value {
    json!({"code": code, "dependencies": [], "reasoning": "so", "confidence": 0.5})
}

#[test]
fn a_program_is_saved_and_its_files_are_taken() {
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
    let Ran { code, out, err } = home.run(&args);
    assert_eq!(code, 0, "{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["success"], &told["attempts"]), (&true.into(), &1.into()));
    assert_eq!(told["artifacts"]["files"][0]["name"], "sine.svg");
    assert_eq!(told["label"], "rehearsal, no model was asked");
    assert!(fs::read_to_string(home.work().join("pictures/sine.svg")).unwrap().starts_with("<svg"));
    let saved = fs::read_to_string(home.work().join("sine.py")).unwrap();
    assert_eq!(told["code"], saved);
    // What is kept of it shows every attempt.
    let run = told["run"].as_str().unwrap();
    assert!(home.run(&["runs", "list"]).out.contains("(succeeded at once, rehearsal)"));
    let shown = home.run(&["runs", "show", run, "--transcripts", "--events"]).out;
    assert!(shown.contains("✓ attempt 1 succeeded") && shown.contains("import math"), "{shown}");
    for event in ["code_generated", "execution_started", "execution_complete", "code_finished"] {
        assert!(shown.contains(event), "{event}: {shown}");
    }
}

#[test]
fn tried_and_failed_has_an_exit_code_of_its_own() {
    let home = home();
    let tests = "from solution import fibonacci\ndef test_ten(): assert fibonacci(10) == 56";
    home.write("tests.py", tests);
    let args = ["run", FIBONACCI, "--tests", "tests.py", "--max-attempts", "2"];
    let Ran { code, out, err } = home.run(&args);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("✗ attempt 2 failed: 1 of 1 tests failed"), "{err}");
    // Which, why, and where to look.
    assert!(err.contains("    test_ten: assert fibonacci(10) == 56\n"), "{err}");
    assert!(err.contains("failed after 2 attempts: 1 of 1 tests failed\n"), "{err}");
    assert!(err.contains("every program and its output: `assize runs show run-"), "{err}");
    let args =
        ["run", FIBONACCI, "--expect", "56", "--max-attempts", "1", "--quiet", "--save", "x"];
    let Ran { code, out, err } = home.run(&args);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(
        err.starts_with("failed after 1 attempt: it printed `55`, and `56` was expected\n"),
        "{err}"
    );
    assert!(err.contains("/x` was not written: no program succeeded"), "{err}");
    let args = ["run", FIBONACCI, "--expect", "/^55$/", "--json"];
    let told: Value = serde_json::from_str(&home.run(&args).out).unwrap();
    assert_eq!(told["success"], true);
}

#[test]
fn a_killed_run_goes_on_and_does_nothing_twice() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "400");
    // Killed while the critic is asked: the first program was written and run by then.
    let mut child = home.command(&["run", USERS]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let asked = lines.find(|line| line.as_ref().unwrap().contains("asking the critic"));
    assert!(asked.is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    assert_eq!(listed[0]["status"], "stopped");
    let run = listed[0]["id"].as_str().unwrap().to_owned();
    let shown = home.run(&["runs", "show", &run]);
    assert!(shown.out.contains("✗ attempt 1 failed"), "{}", shown.out);
    let Ran { code, out, err } = home.run(&["runs", "resume", &run]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ada\n"), "{out}");
    assert!(
        !err.contains("attempt 1 of 3 · writing") && err.contains("attempt 2 of 3 · writing"),
        "{err}"
    );
    // What is done cannot be taken up again.
    let again = home.run(&["runs", "resume", &run]);
    assert_eq!(again.code, 2, "{}", again.err);
    until("the end of what it made", || makers(&home).is_empty());
}

#[test]
fn killed_at_any_moment_it_comes_to_the_same_end_and_tells_nothing_twice() {
    let kills = std::env::var("ASSIZE_TEST_KILLS");
    let kills: u32 = kills.map_or(8, |count| count.parse::<u32>().unwrap() / 5);
    let mut dice = fastrand::Rng::with_seed(0x5eed);
    let mut killed = 0;
    while killed < kills {
        let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "20");
        // One by one, and side by side.
        let candidates = if killed % 2 == 0 { "1" } else { "2" };
        let begun = Instant::now();
        let mut whole = Duration::ZERO;
        loop {
            let listed: Value =
                serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
            let mut command = match listed[0]["id"].as_str() {
                _ if listed[0]["status"] == "done" => break,
                Some(run) => home.command(&["runs", "resume", run]),
                None => home.command(&["run", USERS, "--candidates", candidates]),
            };
            // As long as an undisturbed one takes here, about.
            whole = whole.max(Duration::from_millis(300)).max(begun.elapsed() / 4);
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
            // In whatever order, and the last of them perhaps given up.
            let about = events.map(|event| {
                let about = &event["payload"];
                format!("{} {} {}", event["name"], about["attempt"], about["candidate"])
            });
            let about: Vec<String> = about.collect();
            let once: std::collections::BTreeSet<&String> = about.iter().collect();
            assert_eq!(once.len(), about.len(), "{about:?}");
            // Whoever has won when the run goes on does not wait for one that was never written.
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
fn a_real_provider_is_asked_in_the_asked_shape() {
    let answers = [
        program("print(1 / 0)"),
        json!({"issues": ["division by zero"], "suggested_fixes": ["do not divide"]}),
        program("print(42)"),
    ];
    let answers = answers.map(|answer| Reply::text(answer.to_string()));
    for kind in [Kind::Anthropic, Kind::OpenAi, Kind::Ollama] {
        let fake = FakeProvider::scripted(kind, answers.clone());
        let home = with_provider(kind, &fake);
        let Ran { code, out, err } = home.run(&["run", "The answer", "--expect", "42"]);
        assert_eq!((code, out.as_str()), (0, "42\n"), "{err}");
        assert_eq!(fake.captured().len(), 3);
        assert_eq!(fake.take_complaints(), [] as [String; 0]);
        assert!(err.contains("critic: division by zero"), "{err}");
    }
}

#[test]
fn a_provider_that_goes_down_in_the_middle_loses_nothing() {
    let critique = json!({"issues": ["it exits"], "suggested_fixes": ["do not"]});
    let script = [
        Reply::text(program("raise SystemExit(3)").to_string()),
        Reply::status(401),
        Reply::text(critique.to_string()),
        Reply::text(program("print('done'); open('left', 'w')").to_string()),
    ];
    let fake = FakeProvider::scripted(Kind::Anthropic, script);
    let home = with_provider(Kind::Anthropic, &fake);
    let Ran { code, err, .. } = home.run(&["run", "Do it"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("go on with `assize runs resume run-"), "{err}");
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let run = listed[0]["id"].as_str().unwrap();
    // What it leaves can be asked for only now, and is put where this is typed.
    let Ran { code, out, err } = home.run(&["run", "--resume", run, "--out", "out"]);
    assert_eq!((code, out.as_str()), (0, "done\n"), "{err}");
    assert!(home.work().join("out/left").exists(), "{err}");
    assert_eq!(fake.captured().len(), 4);
}

#[test]
fn what_may_be_spent_holds_when_it_goes_on() {
    let script = [
        Reply::text(program("raise SystemExit(3)").to_string()),
        Reply::text(json!({"issues": ["it exits"], "suggested_fixes": ["do not"]}).to_string()),
        Reply::text(program("print('done')").to_string()),
    ];
    let fake = FakeProvider::scripted(Kind::Anthropic, script);
    let home = with_provider(Kind::Anthropic, &fake);
    // What a call is reckoned with depends on what this machine has; it takes a little less.
    let with = |most: &str| {
        home.run(&["run", "Do it", "--max-output-tokens", "500", "--max-tokens", most])
    };
    let Ran { code, err, .. } = with("1");
    assert_eq!((code, fake.captured().len()), (5, 0), "{err}");
    let (_, reckoned) = err.split_once("another call of up to ").unwrap();
    let reckoned = reckoned.split(';').next().unwrap();
    let Ran { code, err, .. } = with(reckoned);
    assert_eq!((code, fake.captured().len()), (5, 1), "{err}");
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let run = listed[0]["id"].as_str().unwrap();
    let Ran { code, err, .. } = home.run(&["runs", "resume", run]);
    assert_eq!((code, fake.captured().len()), (5, 1), "{err}");
    let Ran { code, out, err } =
        home.run(&["runs", "resume", run, "--max-tokens", "100000", "--quiet"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "done\n", ""));
}

#[test]
fn a_session_keeps_the_working_files_between_runs() {
    let counts = "open('n', 'a').write('x'); print(len(open('n').read()))";
    let (shows, waits) = ("print(open('n').read())", "import time; time.sleep(60)");
    let answers = [counts, counts, "1 / 0", shows, waits];
    let critique = json!({"issues": [], "suggested_fixes": []}).to_string();
    let mut script: Vec<Reply> =
        answers.iter().map(|code| Reply::text(program(code).to_string())).collect();
    script.insert(3, Reply::text(critique));
    let fake = FakeProvider::scripted(Kind::Anthropic, script);
    let home = with_provider(Kind::Anthropic, &fake);
    let run = |more: &[&str]| {
        home.run(&[&["run", "Count", "--session", "tally", "--max-attempts", "1"], more].concat())
    };
    assert_eq!(run(&[]).out, "1\n");
    assert_eq!(run(&[]).out, "2\n");
    let asked = fake.captured()[1].body.to_string();
    assert!(asked.contains("Earlier programs left these files"), "{asked}");
    // A program that fails leaves what it found.
    assert_eq!(run(&[]).code, 1);
    let files = home.folder.path().join(".local/state/assize/sessions/tally/files");
    assert_eq!(fs::read_to_string(files.join("n")).unwrap(), "xx");
    // One that is hidden by a file that was given is there again afterwards.
    let given = home.write("given/n", "given").display().to_string();
    assert_eq!(run(&["--file", &given]).out, "given\n");
    assert_eq!(fs::read_to_string(files.join("n")).unwrap(), "xx");
    // One at a time.
    let mut first = home.command(&["run", "Wait", "--session", "tally"]).spawn().unwrap();
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("running it")));
    let second = run(&[]);
    assert_eq!(second.code, 2);
    assert!(second.err.contains("another run is using the session `tally`"), "{}", second.err);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(home.run(&["run", "x", "--session", "../x"]).code, 2);
}

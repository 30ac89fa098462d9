//! Tests of `assize work` with the built binary, the rehearsal model and fake providers. The command lets a model edit
//! files through drafts.

use std::time::Duration;

use assize_testkit::{CapturedRequest, FakeAnswer, FakeKind, FakeProvider, FakeReply};
use serde_json::{Value, json};

use crate::Home;
use crate::drafts::{WATCHDOG, home_with_project};

const TASK: &str = "Add --version flag to watchdog.py";

/// Last message in a captured request to the model.
fn last_message(captured: &CapturedRequest) -> Value {
    captured.body["messages"].as_array().unwrap().last().unwrap().clone()
}

/// Reply of a fake model that uses the draft tools. The gate rejects its first draft, and then the model submits a
/// corrected draft.
fn agent_reply(captured: &CapturedRequest) -> FakeReply {
    let last = last_message(captured);
    let result: Value =
        serde_json::from_str(last["content"].as_str().unwrap_or_default()).unwrap_or_default();
    let body = &captured.body;
    let rejected = body.to_string().contains("\\\"rejected\\\"");
    let draft = body["messages"].as_array().unwrap().iter().rev().find_map(|message| {
        let result: Value = serde_json::from_str(message["content"].as_str()?).ok()?;
        Some(result["draft_path"].as_str()?.to_owned())
    });
    let call =
        |name: &str, arguments: Value| FakeReply::Answer(FakeAnswer::calling(name, arguments));
    let request = || {
        call("ollama_request_draft", json!({"source_path": "src/watchdog.py", "task_id": "mine"}))
    };
    match last["tool_name"].as_str() {
        None => call("read_file", json!({"path": "src/watchdog.py"})),
        Some("read_file") => request(),
        Some("ollama_request_draft") => {
            let line = if rejected { "VERSION = 1" } else { "LOG = \"/home/ann/log\"" };
            let content = WATCHDOG.replace("import sys\n", &format!("import sys\n\n{line}\n"));
            call("ollama_write_draft", json!({"draft_path": draft, "content": content}))
        }
        Some("ollama_write_draft") => call(
            "ollama_submit_draft",
            json!({"draft_path": draft, "original_path": "src/watchdog.py", "task_id": "mine",
                   "change_summary": "a version"}),
        ),
        _ if result["verdict"] == "rejected" => request(),
        _ => FakeReply::text("It has a version now."),
    }
}

/// Creates a project that uses `fake` as its Ollama server.
fn project_with_ollama(fake: &FakeProvider) -> Home {
    let home = Home::with_fake_provider(FakeKind::Ollama, fake);
    home.write("src/watchdog.py", WATCHDOG);
    home
}

#[test]
fn work_with_the_rehearsal_model_does_the_scripted_task_in_every_mode_and_refuses_other_tasks() {
    for mode in ["tools", "text", "auto"] {
        let home = home_with_project();
        let ran = home.run(&["work", TASK, "--mode", mode]);
        assert_eq!(ran.code, 0, "{mode}: {}", ran.err);
        assert!(ran.err.contains("[rehearsal, no model was called]"), "{}", ran.err);
        assert!(ran.err.contains("\nstep 1 · waiting for the model\n"), "{mode}: {}", ran.err);
        assert!(ran.out.contains("rejected") && ran.out.contains("accepted"), "{}", ran.out);
        assert!(
            ran.out.contains("src/watchdog.py:4: the line contains a personal home path"),
            "{}",
            ran.out
        );
        let text = home.file_text("src/watchdog.py");
        assert!(text.contains("if \"--version\" in sys.argv[1:]:"), "{text}");
        assert!(text.starts_with("#!/usr/bin/env python3\nimport sys\n\nVERSION"), "{text}");
        assert!(home.run(&["audit", "verify"]).out.starts_with("the audit log is intact"));
    }
    let home = home_with_project();
    let ran = home.run(&["work"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("no task given"), "{}", ran.err);
    let contract = format!(r#"{{"version": 1, "task_id": "flag", "goal": "{TASK}"}}"#);
    home.write("_handoff/TASK_CONTRACT.json", &contract);
    let ran = home.run(&["work"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(home.run(&["audit", "show"]).out.contains("src/watchdog.py for flag"));
    let ran = home.run(&["work", "--task-id", "other"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("the contract is for the task `flag`"), "{}", ran.err);
    home.run(&["drafts", "off"]);
    let ran = home.run(&["work"]);
    assert!(ran.code == 2 && ran.err.contains("draft tools are off"), "{}", ran.err);
    home.run(&["drafts", "on"]);
    let ran = home.run(&["work", "--isolation", "foo"]);
    assert!(ran.code == 2 && ran.err.contains("foo"), "{} {}", ran.code, ran.err);
    let ran = home.run(&["work", "Write a poem"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("can edit files only for the task"), "{}", ran.err);
}

#[test]
fn work_lets_the_model_correct_a_rejected_draft_until_it_is_accepted() {
    let fake = FakeProvider::with_responder(FakeKind::Ollama, |_, captured| agent_reply(captured));
    let home = project_with_ollama(&fake);
    let ran = home.run(&["work", "Give it a version", "--provider", "ollama", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let worked: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(worked["outcome"], "accepted", "{worked}");
    let verdicts: Vec<&str> = worked["submissions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|submission| submission["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["rejected", "accepted"]);
    assert_eq!(
        home.file_text("src/watchdog.py"),
        WATCHDOG.replace("import sys\n", "import sys\n\nVERSION = 1\n")
    );
    assert_eq!(fake.take_violations(), [] as [&str; 0]);
    // The model gets the four draft tools and two tools for reading, and no others.
    let captured = fake.captured_requests();
    let first = &captured.iter().find(|one| one.path == "/api/chat").unwrap().body;
    let tools: Vec<&str> = first["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        tools,
        [
            "list_files",
            "read_file",
            "ollama_request_draft",
            "ollama_write_draft",
            "ollama_read_draft",
            "ollama_submit_draft"
        ]
    );
    // The audit log contains the task id of the run, not the task id that the model sends.
    let audit = home.run(&["audit", "show"]).out;
    assert!(audit.contains("worker ollama qwen3") && !audit.contains(" mine"), "{audit}");
    // `runs show` prints each step of the run.
    let run = worked["run"].as_str().unwrap();
    let shown = home.run(&["runs", "show", run, "--transcripts"]).out;
    for word in [
        "=== step-1/think",
        "read_file path: src/watchdog.py",
        "=== step-5/tool-1",
        "verdict: rejected",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let shown = home.run(&["runs", "show", run, "--events"]).out;
    assert!(shown.contains("accepted 2: src/watchdog.py"), "{shown}");
    for event in ["tool_called", "DRAFT_READY", "DRAFT_REJECTED", "DRAFT_ACCEPTED", "work_finished"]
    {
        assert!(shown.contains(event), "{event}: {shown}");
    }
}

#[test]
fn work_killed_at_random_moments_resumes_and_edits_the_file_once() {
    let kills = std::env::var("ASSIZE_TEST_KILLS");
    let kills: u32 = kills.map_or(6, |count| count.parse::<u32>().unwrap() / 5);
    let mut dice = fastrand::Rng::with_seed(7);
    let mut killed = 0;
    while killed < kills {
        let home = home_with_project()
            .set("ASSIZE_REHEARSAL_LATENCY_MS", "20")
            .set("PATH", "/usr/bin:/bin");
        loop {
            let listed: Value =
                serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
            let mut command = match listed[0]["id"].as_str() {
                _ if listed[0]["status"] == "done" => break,
                Some(run) => home.command(&["runs", "resume", run]),
                // The runs alternate between text mode, tools mode with a slow verification, and tools mode.
                None if killed % 3 == 1 => home.command(&["work", TASK, "--mode", "text"]),
                None if killed % 3 == 2 => home.command(&["work", TASK, "--verify", "sleep 0.4"]),
                None => home.command(&["work", TASK]),
            };
            let mut child = command.spawn().unwrap();
            if killed < kills {
                std::thread::sleep(Duration::from_millis(dice.u64(10..900)));
                child.kill().unwrap();
                killed += 1;
            }
            child.wait_with_output().unwrap();
        }
        let listed: Value =
            serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
        let id = listed[0]["id"].as_str().unwrap();
        let shown = home.run(&["runs", "show", id, "--json"]).out;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["result"]["outcome"], "accepted", "{shown}");
        let text = home.file_text("src/watchdog.py");
        assert_eq!(text.matches("if \"--version\"").count(), 1, "{text}");
        assert!(home.run(&["audit", "verify"]).out.starts_with("the audit log is intact"));
    }
}

#[test]
fn work_whose_draft_is_escalated_exits_6() {
    let home = home_with_project();
    let ran = home.run(&["work", TASK, "--review", "always"]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(
        ran.out.contains("escalated") && ran.err.contains("waits for your decision"),
        "{} {}",
        ran.out,
        ran.err
    );
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
}

#[test]
fn work_stops_at_the_maximum_number_of_rejections_or_steps() {
    let stubborn = |_: usize, captured: &CapturedRequest| match last_message(captured)["tool_name"]
        .as_str()
    {
        Some("ollama_request_draft") => FakeReply::Answer(FakeAnswer::calling(
            "ollama_write_draft",
            json!({"draft_path": "a.py.t.draft", "content": "LOG = '/home/ann/log'\n"}),
        )),
        Some("ollama_write_draft") => FakeReply::Answer(FakeAnswer::calling(
            "ollama_submit_draft",
            json!({"draft_path": "a.py.t.draft", "original_path": "a.py", "task_id": "t", "change_summary": ""}),
        )),
        _ => FakeReply::Answer(FakeAnswer::calling(
            "ollama_request_draft",
            json!({"source_path": "a.py"}),
        )),
    };
    let fake = FakeProvider::with_responder(FakeKind::Ollama, stubborn);
    let home = project_with_ollama(&fake);
    let base = ["work", "do it", "--provider", "ollama", "--task-id", "t"];
    let ran = home.run(&[&base[..], &["--max-rejections", "2"]].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.out.matches("rejected").count(), 2, "{}", ran.out);
    assert!(ran.err.contains("stopped after 2 rejections"), "{}", ran.err);
    let ran = home.run(&[&base[..], &["--max-steps", "4"]].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("4 steps"), "{}", ran.err);
    assert!(!home.work_folder().join("a.py").exists());
}

#[test]
fn work_with_a_model_without_tool_calls_needs_text_or_auto_mode() {
    let silent = |_: usize, captured: &CapturedRequest| match captured.body["tools"].is_array() {
        true => FakeReply::text("I would add a flag."),
        false => FakeReply::text("Here.\n\nFILE: src/watchdog.py\n```python\nVERSION = 1\n```\n"),
    };
    let fake = FakeProvider::with_responder(FakeKind::Ollama, silent);
    let home = project_with_ollama(&fake);
    let task = "Give watchdog.py a version";
    let ran = home.run(&["work", task, "--provider", "ollama"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("the model submitted no draft"), "{}", ran.out);
    let ran = home.run(&["work", task, "--provider", "ollama", "--mode", "auto"]);
    assert!(
        ran.err.contains("the model continues without tools: the model called no tools"),
        "{}",
        ran.err
    );
    // The gate escalates the draft, because it deletes ten of eleven lines.
    assert_eq!(ran.code, 6, "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("[deletion]"), "{}", ran.out);
    let ran = home.run(&["work", "do something", "--provider", "ollama", "--mode", "text"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("--file PATH"), "{}", ran.err);
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
    assert_eq!(fake.take_violations(), [] as [&str; 0]);
}

#[test]
fn hostile_tool_calls_in_work_are_refused_and_reveal_no_secret() {
    let tries = [
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": "../secret"})),
        ("read_file", json!({"path": "/etc/passwd"})),
        ("list_files", json!({"folder": "../.."})),
        ("ollama_request_draft", json!({"source_path": ".git/hooks/post-commit"})),
        ("ollama_write_draft", json!({"draft_path": "src/watchdog.py", "content": "evil"})),
        (
            "ollama_submit_draft",
            json!({"draft_path": "/etc/passwd", "original_path": "x", "change_summary": ""}),
        ),
        ("run_shell", json!({"command": "id"})),
    ];
    let count = tries.len();
    let fake =
        FakeProvider::with_responder(FakeKind::Ollama, move |number, _| match tries.get(number) {
            Some((name, arguments)) => {
                FakeReply::Answer(FakeAnswer::calling(name, arguments.clone()))
            }
            None => FakeReply::text("I give up."),
        });
    let home = project_with_ollama(&fake);
    home.write(".env", "KEY=secret-of-the-house");
    std::fs::write(home.folder.path().join("secret"), "secret-of-the-house").unwrap();
    let ran = home.run(&["work", "steal", "--provider", "ollama"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert_eq!(ran.err.matches(": refused").count(), count, "{}", ran.err);
    for captured in fake.captured_requests() {
        assert!(!captured.body.to_string().contains("secret-of-the-house"));
    }
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
}

#[test]
fn work_succeeds_with_every_provider_that_supports_tools() {
    let draft = "_handoff/drafts/watchdog.py.t.draft";
    let changed = WATCHDOG.replace("import sys\n", "import sys\n\nVERSION = 1\n");
    for (kind, name) in [
        (FakeKind::Anthropic, "anthropic"),
        (FakeKind::OpenAi, "openai"),
        (FakeKind::Google, "google"),
        (FakeKind::Groq, "groq"),
        (FakeKind::OpenRouter, "openrouter"),
        (FakeKind::Ollama, "ollama"),
    ] {
        let call =
            |name: &str, arguments: Value| FakeReply::Answer(FakeAnswer::calling(name, arguments));
        // The first answer calls two tools at once, as some models do.
        let mut first = FakeAnswer::calling("list_files", json!({}));
        first.tool_calls.push(("read_file".to_owned(), json!({"path": "src/watchdog.py"})));
        let script = [
            FakeReply::Answer(first),
            call("ollama_request_draft", json!({"source_path": "src/watchdog.py", "task_id": "t"})),
            call("ollama_write_draft", json!({"draft_path": draft, "content": changed})),
            call(
                "ollama_submit_draft",
                json!({"draft_path": draft, "original_path": "src/watchdog.py", "task_id": "t",
                       "change_summary": "a version"}),
            ),
            FakeReply::text("Done."),
        ];
        let fake = FakeProvider::scripted(kind, script);
        let home = Home::with_fake_provider(kind, &fake);
        home.write("src/watchdog.py", WATCHDOG);
        let ran = home.run(&["work", "Give it a version", "--provider", name, "--task-id", "t"]);
        assert_eq!(ran.code, 0, "{name}: {} {}", ran.out, ran.err);
        assert_eq!(home.file_text("src/watchdog.py"), changed, "{name}");
        assert_eq!(fake.take_violations(), [] as [&str; 0], "{name}");
    }
}

/// If an answer is invalid, none of its files is applied. The third answer is valid. It is applied although its `a.py`
/// contains a secret, because the old `a.py` contains the same secret. The secret is not in the change summary: the
/// summary is only the text before the first `FILE:` line.
#[test]
fn work_discards_an_invalid_text_answer_as_a_whole() {
    let key = ["TOKEN = \"ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o\""].concat();
    let old = format!("{key}\nx = 1\n");
    let answers = [
        "FILE: b.py\n```\nx = 2\n```\nFILE: ../x\n```\nevil\n```\n".to_owned(),
        "FILE: README.md\n```\n# A\n```sh\nmake\n```\nmore\n```\n".to_owned(),
        format!("Here.\n\nFILE: a.py\n```\n{}```\n", old.replace("x = 1", "x = 2")),
    ];
    let fake = FakeProvider::scripted(FakeKind::Ollama, answers.map(FakeReply::text));
    let home = project_with_ollama(&fake).set("ASSIZE_DRAFT_READABLE", "a.py");
    home.write("a.py", &old);
    home.write("b.py", "x = 1\n");
    let ran = home.run(&["work", "Change a.py and b.py", "--provider", "ollama", "--mode", "text"]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    assert_eq!(home.file_text("b.py"), "x = 1\n");
    assert!(home.file_text("a.py").ends_with("x = 2\n"));
    assert!(!home.work_folder().join("README.md").exists());
    for (file, why) in [("src", "the path is a folder"), (".env", "may contain secrets")] {
        home.write(".env", "KEY=1");
        let args = ["work", "x", "--provider", "ollama", "--mode", "text", "--file", file];
        let ran = home.run(&args);
        assert!(ran.code != 0 && ran.err.contains(why), "{file}: {} {}", ran.code, ran.err);
    }
}

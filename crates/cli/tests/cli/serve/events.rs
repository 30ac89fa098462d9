//! Test that the server sends every event that `docs/reference/events.md` describes.

use std::collections::BTreeSet;
use std::fs;

use assize_testkit::{CapturedRequest, FakeKind, FakeProvider, FakeReply};
use serde_json::{Value, json};

use super::{PATH, StreamEvent, TestServer, event_names};
use crate::Home;
use crate::drafts::WATCHDOG;

/// Event names in `docs/reference/events.md`, without the actions of the audit log.
fn documented_events() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/events.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (tables, _) = page.split_once("| action |").unwrap();
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    tables.lines().filter_map(name).chain(["run_ended".to_owned()]).collect()
}

/// Request body that starts a work run, with the additional fields `more`.
fn work(more: Value) -> Value {
    let mut body = json!({"kind": "work", "workspace": "mine"});
    body["task"] = json!("Add --version flag to watchdog.py");
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn server_sends_every_documented_event_and_no_other() {
    let silent = |_: usize, captured: &CapturedRequest| match captured.body["tools"].is_array() {
        true => FakeReply::text("I would add a flag."),
        false => FakeReply::text("Here.\n\nFILE: src/watchdog.py\n```python\nVERSION = 1\n```\n"),
    };
    let fake = FakeProvider::with_responder(FakeKind::Ollama, silent);
    let home = Home::with_fake_provider(FakeKind::Ollama, &fake).set("PATH", PATH);
    home.write("src/watchdog.py", WATCHDOG);
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    let mut received: Vec<StreamEvent> = Vec::new();
    let consult = |more: Value| {
        let mut body = super::consult_body();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut follow = |request: Value, status: &str| {
        let run = serving.start_run(request);
        received.extend(serving.wait_for_events(&run, None));
        let shown = serving.get(&format!("/api/runs/{run}")).success_json();
        assert_eq!(shown["status"], status, "{shown}");
    };
    let rehearsed = json!({"provider": "rehearsal"});
    let criticised = "Read data from users.json and print usernames";
    follow(json!({"kind": "run", "task": criticised, "settings": rehearsed}), "done");
    follow(consult(json!({"settings": rehearsed})), "done");
    follow(consult(json!({"settings": rehearsed, "image": "none"})), "failed");
    // The negotiator (the program that debates inside a sandbox) cannot be installed. So the run sends a warning and
    // debates without a sandbox.
    let programs = home.folder.path().join(".cache/assize/programs");
    fs::remove_dir_all(&programs).unwrap();
    fs::write(&programs, "").unwrap();
    follow(consult(json!({"settings": rehearsed})), "done");
    fs::remove_file(&programs).unwrap();
    let limited = json!({"provider": "rehearsal", "max_tokens": 20_000});
    follow(consult(json!({"settings": limited})), "failed");
    let text = json!({"mode": "auto", "task": "Give watchdog.py a version"});
    follow(work(text), "done");
    follow(work(json!({"settings": rehearsed})), "done");
    assert_eq!(fake.take_violations(), [] as [&str; 0]);
    let run = serving.start_run(consult(json!({"settings": rehearsed, "rounds": 50, "moves": 3})));
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).success_json();
    received.extend(serving.wait_for_events(&run, None));
    let names: BTreeSet<String> = event_names(&received).into_iter().map(str::to_owned).collect();
    let mut expected = documented_events();
    expected.insert("snapshot".to_owned());
    assert_eq!(names, expected);
}

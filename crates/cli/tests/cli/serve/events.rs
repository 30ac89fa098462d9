//! Every event there is, by the names in `docs/events.md`, as somebody hears it who follows.

use std::collections::BTreeSet;
use std::fs;

use assize_testkit::{Captured, FakeProvider, Kind, Reply};
use serde_json::{Value, json};

use super::{PATH, Serving, Told, names};
use crate::Home;
use crate::drafts::WATCHDOG;

/// The names in the first column of the tables, but for those of the log.
fn written() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (tables, _) = page.split_once("| action |").unwrap();
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    tables.lines().filter_map(name).chain(["run_ended".to_owned()]).collect()
}

fn work(more: Value) -> Value {
    let mut body = json!({"kind": "work", "workspace": "mine"});
    body["task"] = json!("Add --version flag to watchdog.py");
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn every_event_is_heard() {
    let silent = |_: usize, captured: &Captured| match captured.body["tools"].is_array() {
        true => Reply::text("I would add a flag."),
        false => Reply::text("Here.\n\nFILE: src/watchdog.py\n```python\nVERSION = 1\n```\n"),
    };
    let fake = FakeProvider::answering(Kind::Ollama, silent);
    let home = Home::with(Kind::Ollama, &fake).set("PATH", PATH);
    home.write("src/watchdog.py", WATCHDOG);
    let serving = Serving::start(&home, &["--root", "mine=."]);
    let mut heard: Vec<Told> = Vec::new();
    let consult = |more: Value| {
        let mut body = super::consult();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut follow = |what: Value, status: &str| {
        let run = serving.begin(what);
        heard.extend(serving.told(&run, None));
        let shown = serving.get(&format!("/api/runs/{run}")).good();
        assert_eq!(shown["status"], status, "{shown}");
    };
    let rehearsed = json!({"provider": "rehearsal"});
    let criticised = "Read data from users.json and print usernames";
    follow(json!({"kind": "run", "task": criticised, "settings": rehearsed}), "done");
    follow(consult(json!({"settings": rehearsed})), "done");
    follow(consult(json!({"settings": rehearsed, "image": "none"})), "failed");
    // The program of debates cannot be installed: the run warns that it debates without a sandbox.
    let programs = home.folder.path().join(".cache/assize/programs");
    fs::remove_dir_all(&programs).unwrap();
    fs::write(&programs, "").unwrap();
    follow(consult(json!({"settings": rehearsed})), "done");
    fs::remove_file(&programs).unwrap();
    let poor = json!({"provider": "rehearsal", "max_tokens": 20_000});
    follow(consult(json!({"settings": poor})), "failed");
    let text = json!({"mode": "auto", "task": "Give watchdog.py a version"});
    follow(work(text), "done");
    follow(work(json!({"settings": rehearsed})), "done");
    assert_eq!(fake.take_complaints(), [] as [&str; 0]);
    let run = serving.begin(consult(json!({"settings": rehearsed, "rounds": 50, "moves": 3})));
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).good();
    heard.extend(serving.told(&run, None));
    let names: BTreeSet<String> = names(&heard).into_iter().map(str::to_owned).collect();
    let mut expected = written();
    expected.insert("snapshot".to_owned());
    assert_eq!(names, expected);
}

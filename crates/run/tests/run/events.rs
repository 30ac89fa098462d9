//! Tests that `docs/reference/events.md` lists every event of runs with its payload, and no other event.

use std::collections::{BTreeMap, BTreeSet};

use assize_run::RunEvent;
use serde_json::Value;

/// Event names and the fields of their payloads, from the JSON schema of `RunEvent`.
fn events() -> BTreeMap<String, BTreeSet<String>> {
    let schema = serde_json::to_value(schemars::schema_for!(RunEvent)).unwrap();
    let variants = schema["oneOf"].as_array().expect("one schema for each event");
    let event = |variant: &Value| {
        let properties = &variant["properties"];
        let name = properties["name"]["const"].as_str().expect("a name").to_owned();
        let fields = properties["payload"]["properties"].as_object().expect("fields");
        (name, fields.keys().cloned().collect())
    };
    variants.iter().map(event).collect()
}

/// The words of a Markdown text that are in backticks.
fn words(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Events documented in `docs/reference/events.md`, each with the words in backticks that describe its payload. The
/// words are in the event's table row or, for `calls_lost` and `run_ended`, in the paragraph about the event.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/events.md");
    let document = std::fs::read_to_string(document).unwrap();
    let events = document.split("| action |").next().unwrap();
    let mut found = BTreeMap::new();
    for row in events.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        found.insert(name, words(cells[2]));
    }
    for paragraph in events.split("\n\n").filter(|text| !text.contains('|')) {
        for name in ["calls_lost", "run_ended"] {
            if words(paragraph).contains(name) && paragraph.starts_with(['W', 'E']) {
                let more = found.entry(name.to_owned()).or_insert_with(BTreeSet::new);
                more.extend(words(paragraph));
            }
        }
    }
    found
}

#[test]
fn run_events_reference_lists_every_event_with_every_payload_field() {
    let (events, documented) = (events(), documented());
    let names =
        |map: &BTreeMap<String, BTreeSet<String>>| -> Vec<String> { map.keys().cloned().collect() };
    assert_eq!(names(&events), names(&documented));
    for (name, fields) in &events {
        let missing: Vec<&String> = fields.difference(&documented[name]).collect();
        assert!(
            missing.is_empty(),
            "docs/reference/events.md does not name the fields {missing:?} of the event `{name}`"
        );
    }
}

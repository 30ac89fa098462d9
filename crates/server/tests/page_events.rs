//! Compares the web page's list of event names with the events that the server sends and with the documentation.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use assize_run::RunEvent;
use serde_json::Value;

type Names = BTreeSet<String>;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the part of `text` between the first occurrence of `from` and the next occurrence of `to`.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("`{from}` not found"));
    rest.split_once(to).unwrap_or_else(|| panic!("`{to}` not found")).0
}

/// Returns the string literals in `text` that directly follow an occurrence of `before`.
fn literals(text: &str, before: &str) -> Names {
    let after = text.split(before).skip(1).map(str::trim_start);
    let quoted = after.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
    quoted.map(str::to_owned).collect()
}

/// Returns the parts of `text` that are between backticks.
fn coded(text: &str) -> Names {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Names of the events of runs, which are the variants of `RunEvent`.
fn events_of_runs() -> Names {
    let schema = serde_json::to_value(schemars::schema_for!(RunEvent)).unwrap();
    let variants = schema["oneOf"].as_array().unwrap();
    let name = |variant: &Value| variant["properties"]["name"]["const"].as_str().map(str::to_owned);
    variants.iter().filter_map(name).collect()
}

/// Names of the events of workspaces: the actions of the audit log, some of which the server renames.
fn events_of_workspaces() -> Names {
    let state = fs::read_to_string(workspace().join("crates/draft/src/state.rs")).unwrap();
    let steps = between(&state, "pub enum DraftStep {", "\n}");
    let variants = steps.lines().filter_map(|line| {
        let name = line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase))?;
        name.split(|c: char| !c.is_alphanumeric()).next()
    });
    let hub = fs::read_to_string(workspace().join("crates/server/src/hub.rs")).unwrap();
    let names = between(&hub, "match entry.action.as_str() {", "action => action");
    let mut renamed = BTreeMap::new();
    let mut sent = Names::new();
    for arm in names.lines().filter_map(|line| line.trim().split_once(" => ")) {
        let (action, name) = (arm.0.trim_matches('"'), arm.1.trim_matches(['"', ',']));
        sent.insert(name.to_owned());
        renamed.insert(action.to_owned(), name.to_owned());
    }
    sent.extend(variants.map(snake_case).filter(|action| !renamed.contains_key(action)));
    sent
}

/// Path of the file with the web page's list of event names.
const EVENTS: &str = "ui/src/model/events.ts";

/// Event names in the web page's list.
fn page() -> Names {
    let events = fs::read_to_string(workspace().join(EVENTS)).unwrap();
    let names = literals(between(&events, "export const EVENT = {", "}"), ": ");
    assert!(!names.is_empty(), "found no event names in `{EVENTS}`");
    names
}

#[test]
fn web_page_lists_exactly_the_events_that_the_server_sends() {
    let (runs, workspaces) = (events_of_runs(), events_of_workspaces());
    // Check that the sources were parsed: with empty lists the test would always pass.
    for name in ["run_ended", "calls_lost", "code_generated", "layer_start", "tool_called"] {
        assert!(runs.contains(name), "`{name}` is missing from the events of runs: {runs:?}");
    }
    for name in ["DRAFT_READY", "DRAFT_ESCALATED", "requested", "log_set_aside"] {
        assert!(
            workspaces.contains(name),
            "`{name}` is missing from the events of workspaces: {workspaces:?}"
        );
    }
    let sent: Names = runs.union(&workspaces).cloned().collect();
    let page = page();
    let missing: Vec<&String> = sent.difference(&page).collect();
    assert!(missing.is_empty(), "`{EVENTS}` lacks events that the server sends: {missing:?}");
    let unknown: Vec<&String> = page.difference(&sent).collect();
    assert!(unknown.is_empty(), "`{EVENTS}` lists events that the server never sends: {unknown:?}");
}

#[test]
fn documentation_lists_every_event_of_the_server_and_of_the_web_page() {
    let documented =
        coded(&fs::read_to_string(workspace().join("docs/reference/events.md")).unwrap());
    let (runs, workspaces) = (events_of_runs(), events_of_workspaces());
    let sent: Names = runs.union(&workspaces).cloned().collect();
    let all: Names = sent.union(&page()).cloned().collect();
    let missing: Vec<&String> = all.difference(&documented).collect();
    assert!(missing.is_empty(), "`docs/reference/events.md` lacks the events {missing:?}");
}

/// Collects the source files of the web page with their text, except the list of event names and the generated types.
fn page_sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            page_sources(&path, into);
        } else if !path.ends_with("model/events.ts") && !path.ends_with("model/schema.ts") {
            into.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn web_page_sources_contain_event_names_only_in_events_ts() {
    let mut sources = Vec::new();
    page_sources(&workspace().join("ui/src"), &mut sources);
    assert!(sources.len() > 20, "found only {} source files", sources.len());
    // Event names of one word are not checked, because the words also occur in unrelated texts.
    for name in page().iter().filter(|name| name.contains('_')) {
        for (path, text) in &sources {
            let written =
                text.contains(&format!("\"{name}\"")) || text.contains(&format!("{name}:"));
            let path = path.display();
            assert!(
                !written,
                "{path} contains `{name}`: use the constant in `EVENT` of `{EVENTS}`"
            );
        }
    }
}

//! `assize runs show`: prints the status, input and result of one run.

use std::time::Duration;

use assize_config::SandboxLimits;
use assize_consult::ConsultFork;
use assize_run::{EventQuery, LeaseHolder, Run, RunState, Store, with_current_budget};
use assize_service::Services;
use assize_service::run_json::described;
use assize_types::Failure;
use assize_types::text::counted;
use serde_json::{Value, json};

use crate::hints;
use crate::kind::{self, StoredRun};
use crate::terminal::{self, BOLD, DIM, note, out_json, out_line, paint, when};

pub(super) async fn show(
    store: &dyn Store,
    run: Run,
    services: &Services,
    (transcripts, events): (bool, bool),
    json: bool,
) -> Result<(), Failure> {
    let run = with_current_budget(store, run).await?;
    let records = store.records(&run.id).await?;
    let stored_events = match events {
        true => store.events(EventQuery::of_run(&run)).await?,
        false => Vec::new(),
    };
    let stored =
        StoredRun { run: &run, records: &records, store, environment: &services.environment };
    if json {
        let mut value = described(&run);
        value["records"] = json!(records.len());
        kind::describe(&stored, transcripts, &mut value).await?;
        if events {
            value["events"] = json!(stored_events);
        }
        return out_json(&value);
    }
    out_line(&paint(BOLD, terminal::replace_control_chars(&format!("{}  {}", run.id, run.title))))?;
    let holder = LeaseHolder::of(&run).map(|holder| format!(", by {holder}")).unwrap_or_default();
    let took = Duration::from_millis(run.updated.saturating_sub(run.created));
    let mut lines = vec![
        row("status", format!("{}{holder}", RunState::of(&run).name())),
        row("created", format!("{} UTC", when(run.created))),
        row(
            "updated",
            format!("{} UTC, {} s after the run was created", when(run.updated), took.as_secs()),
        ),
        row("journal", counted(records.len(), "record", "records")),
    ];
    lines.extend(run.parent.as_ref().map(|parent| row("fork of", parent.to_string())));
    lines.extend(run.error.as_ref().map(|error| row("error", error.clone())));
    for (name, value) in run.input.as_object().into_iter().flatten() {
        if let Some(shown) = format_input_value(name, value) {
            lines.push(row(&name.replace('_', " "), shown));
        }
    }
    for artifact in store.artifacts(&run.id).await? {
        let given = artifact.name.strip_prefix("input/");
        lines.extend(given.map(|name| row("input file", name.to_owned())));
        if artifact.name == "tests" {
            lines.push(row("tests", "yes".to_owned()));
        }
    }
    out_line(&terminal::replace_control_chars(&lines.join("\n")))?;
    kind::show(&stored, transcripts).await?;
    for event in stored_events {
        let line =
            format!("{:>6}  {}  {}  {}", event.id, when(event.at), event.name, event.payload);
        out_line(&terminal::replace_control_chars(&line))?;
    }
    if !matches!(RunState::of(&run).name(), "done" | "running") {
        note("");
        note(&paint(DIM, hints::resume(&run.id)));
    }
    Ok(())
}

fn row(name: &str, value: String) -> String {
    format!("{name:17} {value}")
}

/// Formats a field of a run's input as text; `None` if the value is empty.
fn format_input_value(name: &str, value: &Value) -> Option<String> {
    let limits = serde_json::from_value::<SandboxLimits>(value.clone());
    if let Some(limits) = limits.ok().filter(|_| name == "limits") {
        return Some(format!(
            "{} MB of memory, {} s per execution, {} CPUs, {} processes, {} MB of files",
            limits.memory >> 20,
            limits.wall.as_secs_f64(),
            f64::from(limits.cpu_millis) / 1000.0,
            limits.processes,
            limits.disk >> 20,
        ));
    }
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Array(all) if all.is_empty() => None,
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Array(all) if name == "forks" => {
            let forks = all.iter().map(|one| serde_json::from_value::<ConsultFork>(one.clone()));
            let forks = forks.filter_map(|one| one.ok().map(|one| one.to_string()));
            Some(forks.collect::<Vec<_>>().join("; then "))
        }
        Value::String(text) => Some(text.clone()),
        Value::Array(all) if name == "packages" => Some(format!("{} allowed", all.len())),
        Value::Array(all) => {
            let words: Vec<String> = all
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect();
            Some(words.join(" "))
        }
        Value::Object(all) => {
            let words: Vec<String> = all
                .iter()
                .filter_map(|(name, one)| {
                    Some(format!("{name} {}", format_input_value(name, one)?))
                })
                .collect();
            Some(words.join(", "))
        }
        other => Some(other.to_string()),
    }
}

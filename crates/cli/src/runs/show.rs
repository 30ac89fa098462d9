//! `assize runs show`: one run, as people read it.

use std::fmt::Write as _;
use std::time::Duration;

use assize_code::Attempt;
use assize_code::eval::Report;
use assize_code::left;
use assize_config::{Limits, REHEARSAL_LABEL};
use assize_consult::Turning;
use assize_consult::{DebatePersonas, Verdict, consulted, conversation_logs, logs};
use assize_draft::work::Worked;
use assize_run::read_result;
use assize_run::{EventQuery, LeaseHolder, Record, Run, RunKind, RunState, Store};
use assize_service::reading::{described, is_rehearsal};
use assize_types::Failure;
use serde_json::{Value, json};

use crate::debate::show;
use crate::terminal::{self, BOLD, DIM, note, out_json, out_line, paint, when};
use crate::{consult, eval, hints, run, work};

pub(super) async fn show(
    store: &dyn Store,
    run: Run,
    transcripts: bool,
    events: bool,
    json: bool,
) -> Result<(), Failure> {
    let records = store.records(&run.id).await?;
    let told = match events {
        true => store.events(EventQuery::of_run(&run)).await?,
        false => Vec::new(),
    };
    if json {
        let mut value = described(&run);
        value["records"] = json!(records.len());
        if transcripts && run.kind == RunKind::Debate {
            value["conversation_logs"] = json!(conversation_logs(&records));
        }
        if transcripts && run.kind == RunKind::Consult {
            value["conversation_logs"] = match consulted(&run, &records)? {
                Some(report) => logs(&report),
                None => Value::Null,
            };
        }
        if run.kind == RunKind::Code && run.result.is_none() {
            value["history"] = json!(assize_code::history(&records));
        }
        if let Some(patch) = super::proposed_patch(store, &run).await? {
            value["proposed_patch"] = json!(String::from_utf8_lossy(&patch));
        }
        if events {
            value["events"] = json!(told);
        }
        return out_json(&value);
    }
    out_line(&paint(BOLD, terminal::harmless(&format!("{}  {}", run.id, run.title))))?;
    let holder = LeaseHolder::of(&run).map(|holder| format!(", by {holder}")).unwrap_or_default();
    let took = Duration::from_millis(run.updated.saturating_sub(run.created));
    let mut lines = vec![
        row("status", format!("{}{holder}", RunState::of(&run).name())),
        row("created", format!("{} UTC", when(run.created))),
        row("changed", format!("{} UTC, after {} s", when(run.updated), took.as_secs())),
        row("kept", format!("{} records", records.len())),
    ];
    lines.extend(run.parent.as_ref().map(|parent| row("fork of", parent.to_string())));
    lines.extend(run.error.as_ref().map(|error| row("ended by", error.clone())));
    for (name, value) in run.input.as_object().into_iter().flatten() {
        if let Some(shown) = in_words(name, value) {
            lines.push(row(&name.replace('_', " "), shown));
        }
    }
    for artifact in store.artifacts(&run.id).await? {
        let given = artifact.name.strip_prefix("input/");
        lines.extend(given.map(|name| row("given", name.to_owned())));
        if artifact.name == "tests" {
            lines.push(row("tests", "yes".to_owned()));
        }
    }
    out_line(&terminal::harmless(&lines.join("\n")))?;
    match run.kind {
        RunKind::Debate => show_debate(&run, &records, transcripts)?,
        RunKind::Code => show_code(&run, &assize_code::history(&records), transcripts)?,
        RunKind::Eval => show_eval(&run)?,
        RunKind::Consult => show_consult(&run, &records, transcripts)?,
        RunKind::Work => {
            show_work(&run, &records, transcripts)?;
            if let Some(patch) = super::proposed_patch(store, &run).await? {
                let lines = crate::drafts::show::diff(&String::from_utf8_lossy(&patch));
                lines.iter().try_for_each(|line| out_line(line))?;
            }
        }
    }
    for event in told {
        let line =
            format!("{:>6}  {}  {}  {}", event.id, when(event.at), event.name, event.payload);
        out_line(&terminal::harmless(&line))?;
    }
    if !matches!(RunState::of(&run).name(), "done" | "running") {
        note("");
        note(&paint(DIM, hints::resume(run.kind, &run.id)));
    }
    Ok(())
}

fn row(name: &str, value: String) -> String {
    format!("{name:17} {value}")
}

/// What a run was begun with; `None` for what is nothing.
fn in_words(name: &str, value: &Value) -> Option<String> {
    let limits = serde_json::from_value::<Limits>(value.clone());
    if let Some(limits) = limits.ok().filter(|_| name == "limits") {
        return Some(format!(
            "{} MB of memory, {} s, {} of a processor, {} processes, {} MB of files",
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
        Value::Array(all) if name == "turnings" => {
            let turnings = all.iter().map(|one| serde_json::from_value::<Turning>(one.clone()));
            let turnings = turnings.filter_map(|one| one.ok().map(|one| one.to_string()));
            Some(turnings.collect::<Vec<_>>().join("; then "))
        }
        Value::String(text) => Some(text.clone()),
        Value::Array(all) if name == "packages" => Some(format!("{} may be asked for", all.len())),
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
                .filter_map(|(name, one)| Some(format!("{name} {}", in_words(name, one)?)))
                .collect();
            Some(words.join(", "))
        }
        other => Some(other.to_string()),
    }
}

fn show_debate(run: &Run, records: &[Record], transcripts: bool) -> Result<(), Failure> {
    let logs = conversation_logs(records);
    if let Some(value) = &run.result {
        let mut whole = value.clone();
        if let Some(whole) = whole.as_object_mut() {
            whole.insert("conversation_logs".to_owned(), json!(logs));
        }
        let verdict: Verdict = read_result(whole)?;
        out_line("")?;
        terminal::out_untrusted(&show::verdict(&run.title, &verdict))?;
    } else if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    if transcripts {
        terminal::out_untrusted(&show::transcripts(&logs, &DebatePersonas::default().agents()))?;
    }
    Ok(())
}

fn show_eval(run: &Run) -> Result<(), Failure> {
    let Some(value) = &run.result else { return Ok(()) };
    let report: Report = read_result(value.clone())?;
    out_line("")?;
    eval::lines(&report).iter().try_for_each(|line| out_line(line))?;
    eval::by_problem(&report).iter().try_for_each(|line| out_line(line))
}

fn show_consult(run: &Run, records: &[Record], transcripts: bool) -> Result<(), Failure> {
    let Some(report) = consulted(run, records)? else { return Ok(()) };
    out_line("")?;
    consult::show::lines(&report).iter().try_for_each(|line| out_line(line))?;
    if transcripts {
        for placed in report.recommended_moves.iter().chain(&report.other_moves) {
            let verdict = report.policy_scores.iter().find(|one| one.move_id == placed.move_id);
            let Some(verdict) = verdict else { continue };
            terminal::out_untrusted(&format!("\n=== {} {}\n", placed.move_id, placed.title))?;
            let said = show::transcripts(&verdict.conversation_logs, &verdict.agents);
            terminal::out_untrusted(&said)?;
        }
        return Ok(());
    }
    let id = &run.id;
    let transcripts = hints::runs(&format!("show {id} --transcripts"));
    note(&paint(DIM, format!("what was said: {transcripts}")));
    note(&paint(
        DIM,
        format!(
            "all documents and the report: {}",
            hints::runs(&format!("files {id} --out FOLDER"))
        ),
    ));
    Ok(())
}

fn show_code(run: &Run, history: &[Attempt], transcripts: bool) -> Result<(), Failure> {
    if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    out_line("")?;
    for line in run::show::attempts(history) {
        out_line(&line)?;
    }
    for attempt in history.iter().filter(|_| transcripts) {
        terminal::out_untrusted(&transcript(attempt))?;
    }
    if transcripts {
        return Ok(());
    }
    let last = history.last().filter(|last| last.succeeded());
    if let Some(execution) = last.and_then(|last| last.execution.as_ref()) {
        out_line("")?;
        terminal::out_untrusted(&execution.stdout)?;
    }
    let files = left(history);
    if !files.is_empty() {
        note(&run::show::left(&files, &run.id));
    }
    if !history.is_empty() {
        let how = hints::runs(&format!("show {} --transcripts", run.id));
        note(&paint(DIM, format!("code and output: {how}")));
    }
    Ok(())
}

fn show_work(run: &Run, records: &[Record], transcripts: bool) -> Result<(), Failure> {
    if is_rehearsal(run) {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    if let Some(value) = &run.result {
        out_line("")?;
        let worked: Worked = read_result(value.clone())?;
        work::show::worked(&worked).iter().try_for_each(|line| out_line(line))?;
    }
    match transcripts {
        true => terminal::out_untrusted(&work::show::transcript(records)),
        false => {
            let id = &run.id;
            let how = hints::runs(&format!("show {id} --transcripts"));
            note(&paint(DIM, format!("each step: {how}")));
            Ok(())
        }
    }
}

/// All that is known of an attempt.
fn transcript(attempt: &Attempt) -> String {
    let mut text = format!("\n=== attempt {}\n", run::show::number(attempt));
    match &attempt.code {
        Some(code) => text.push_str(code),
        None => {
            let _ = writeln!(text, "(no code)\n{}", attempt.reasoning);
        }
    }
    let mut part = |name: &str, words: &str| {
        if !words.trim().is_empty() {
            let _ = writeln!(text, "--- {name}\n{}", words.trim_end());
        }
    };
    let Some(execution) = &attempt.execution else { return text };
    part("output", &execution.stdout);
    part("errors", &execution.stderr);
    for failed in execution.tests.iter().flat_map(|report| &report.failed) {
        part(&format!("test {}", failed.name), &failed.error);
    }
    let broken = execution.tests.as_ref().and_then(|report| report.broken.as_deref());
    part("tests", broken.unwrap_or_default());
    text
}

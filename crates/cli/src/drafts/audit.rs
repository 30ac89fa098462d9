//! `assize audit`: the log, and whether it is whole.

use std::path::Path;

use assize_draft::{HANDOFF, Mirror, Step, TRANSITIONS};
use assize_store::{AuditEntry, AuditQuery, AuditVerdict};
use assize_types::text::shorten;
use serde_json::{Value, json};

use super::{desk, show};
use crate::args::AuditCommand;
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::kept;
use crate::terminal::{self, note, out_json, out_line, when};

pub(crate) async fn run(
    command: AuditCommand,
    config: &Config,
    around: &Surroundings,
) -> Result<(), Failure> {
    let args = match &command {
        AuditCommand::Verify { workspace, .. } | AuditCommand::Show { workspace, .. } => workspace,
    };
    let Some(store) = kept::open_to_read(config, around)? else {
        return without_store(&command, &super::workspace(args, around));
    };
    let desk = desk(args, around, store.clone(), super::options(config)?)?;
    match command {
        AuditCommand::Verify { since, json, .. } => {
            let log = store.audit_log(AuditQuery::default()).await?;
            let head = store.audit_head().await?;
            let whole = Whole {
                chain: AuditVerdict::of(&log, head),
                mirror: desk.compare_logs().await?,
                since: since.as_deref().map(|since| is_in(&log, since)).transpose()?,
            };
            whole.tell(&log, &desk.entries().await?, json)
        }
        AuditCommand::Show { task, refused, json, .. } => {
            let entries = desk.entries().await?;
            let submitted = |entry: &&AuditEntry| {
                entry.action == "submitted"
                    && task.as_deref().is_some_and(|t| entry.detail["task"] == t)
            };
            let submissions: Vec<u64> = entries.iter().filter(submitted).map(|e| e.id).collect();
            let about = |entry: &AuditEntry| {
                let wanted = !refused || entry.action == "refused";
                wanted && concerns(entry, task.as_deref(), &submissions)
            };
            let about = entries.into_iter().filter(about);
            list(&about.collect::<Vec<_>>(), json)
        }
    }
}

/// Nothing was ever written down here; a log in the workspace, or a head, says otherwise.
fn without_store(command: &AuditCommand, workspace: &Path) -> Result<(), Failure> {
    let (json, since) = match command {
        AuditCommand::Verify { json, since, .. } => (*json, since.is_some()),
        AuditCommand::Show { json, .. } => {
            if *json {
                return out_json(&json!([]));
            }
            note(NOTHING);
            return Ok(());
        }
    };
    let log = workspace.join(HANDOFF).join(TRANSITIONS);
    let there = std::fs::symlink_metadata(&log).is_ok_and(|log| log.len() > 0);
    let wrong = match (there, since) {
        (true, _) => vec![format!("`{HANDOFF}/{TRANSITIONS}` has entries, and the store has none")],
        (false, true) => vec!["what the log came to then is not in it any more".to_owned()],
        (false, false) => Vec::new(),
    };
    if json {
        out_json(
            &json!({"intact": wrong.is_empty(), "wrong": wrong, "entries": 0, "of_workspace": 0,
                         "head": null, "completed": []}),
        )?;
    }
    match wrong.is_empty() {
        true => {
            note(NOTHING);
            Ok(())
        }
        false => Err(Failure::new(FailureKind::Verdict, wrong.join("\n"))
            .hint("was the store moved or removed? `assize config show store.path` says where it is looked for")),
    }
}

const NOTHING: &str = "nothing was ever written down";

/// Whether the log still has what it once came to.
fn is_in(log: &[AuditEntry], since: &str) -> Result<bool, Failure> {
    let parts = since.split_once(':').and_then(|(id, hash)| Some((id.parse::<u64>().ok()?, hash)));
    let Some((id, hash)) = parts else {
        let message =
            "`--since` is what `assize audit verify` printed as the head, such as `12:ab34…`";
        return Err(Failure::new(FailureKind::Usage, message));
    };
    Ok(log.iter().any(|entry| entry.id == id && entry.hash.to_string() == hash))
}

/// What a look at the whole log came to.
struct Whole {
    /// In the store.
    chain: AuditVerdict,
    /// In the workspace.
    mirror: Mirror,
    since: Option<bool>,
}

impl Whole {
    fn tell(&self, log: &[AuditEntry], own: &[AuditEntry], json: bool) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        if let AuditVerdict::Broken { at } = self.chain {
            wrong.push(format!("entry {at} in the store was changed, removed or moved"));
        }
        let file = format!("{HANDOFF}/{TRANSITIONS}");
        wrong.extend(self.mirror.complaint(own.len()));
        if self.since == Some(false) {
            wrong.push("what the log came to then is not in it any more".to_owned());
        }
        let head = log.last().map(|last| format!("{}:{}", last.id, last.hash));
        let completed: Vec<Value> = own.iter().filter_map(completed).collect();
        if json {
            out_json(&json!({
                "intact": wrong.is_empty(), "wrong": wrong, "entries": log.len(), "of_workspace": own.len(),
                "head": head, "completed": completed,
            }))?;
        }
        for entry in &completed {
            note(&format!(
                "at entry {}, `_handoff/transition.ndjson` ended after line {}; {} lines were written again from the store",
                entry["entry"], entry["lines_there"], entry["lines_added"]
            ));
        }
        if !wrong.is_empty() {
            let failure = Failure::new(FailureKind::Verdict, wrong.join("\n"));
            return Err(match self.mirror {
                Mirror::Same => failure,
                _ => failure.hint(format!(
                    "what the store says counts; remove `{file}` to have it written anew, which is noted"
                )),
            });
        }
        if !json {
            let entries = own.len();
            out_line(&format!(
                "intact: {entries} entries of this workspace, {} in all",
                log.len()
            ))?;
            if let Some(head) = head {
                out_line(&format!("head {head}"))?;
            }
        }
        Ok(())
    }
}

/// That the log in the workspace was once completed.
fn completed(entry: &AuditEntry) -> Option<Value> {
    match Step::of(entry) {
        Ok(Step::LogCompleted { lines_there, lines_added }) => {
            Some(json!({"entry": entry.id, "lines_there": lines_there, "lines_added": lines_added}))
        }
        _ => None,
    }
}

/// Whether an entry is about a task, or about one of its submissions.
fn concerns(entry: &AuditEntry, task: Option<&str>, submissions: &[u64]) -> bool {
    task.is_none_or(|task| {
        let of_submission = entry.detail["submission"].as_u64();
        entry.detail["task"] == task || of_submission.is_some_and(|id| submissions.contains(&id))
    })
}

fn list(entries: &[AuditEntry], json: bool) -> Result<(), Failure> {
    if json {
        return out_json(&json!(entries));
    }
    if entries.is_empty() {
        note("nothing was written down about this workspace");
        return Ok(());
    }
    let row = |entry: &AuditEntry| {
        vec![
            entry.id.to_string(),
            when(entry.at),
            entry.actor.clone(),
            entry.action.clone(),
            shorten(&assize_types::text::one_line(&about(entry)), 100),
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let lines = show::table(&["NO", "TIME (UTC)", "WHO", "WHAT", "ABOUT"], &rows);
    lines.iter().try_for_each(|line| out_line(line))
}

/// What an entry is about, in a line.
fn about(entry: &AuditEntry) -> String {
    match Step::of(entry) {
        Ok(Step::Requested { task, path, .. }) => format!("{path} for {task}"),
        Ok(Step::Submitted { task, files, summary, .. }) => {
            let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            format!("{} for {task}: {summary}", names.join(", "))
        }
        Ok(Step::Decided { submission, verdict, reasons, .. }) => {
            let rules: Vec<&str> = reasons.iter().map(|reason| reason.rule.as_str()).collect();
            let why =
                if rules.is_empty() { String::new() } else { format!(": {}", rules.join(", ")) };
            format!("{submission} {}{why}", verdict.name())
        }
        Ok(
            Step::Applied { submission, .. }
            | Step::Undone { submission }
            | Step::Undoing { submission, .. },
        ) => submission.to_string(),
        Ok(Step::NotApplied { submission, why }) => format!("{submission}: {why}"),
        Ok(Step::Refused { tool, path, why, .. }) => format!("{tool} `{path}`: {why}"),
        Ok(Step::Told { task, .. }) => task.to_string(),
        Ok(Step::Switched { on }) => if on { "on" } else { "off" }.to_owned(),
        Ok(Step::Expired { draft, .. }) => draft,
        Ok(Step::Swept { submissions, copies }) => {
            format!("{} submissions, {copies} copies", submissions.len())
        }
        Ok(Step::LogCompleted { lines_added, .. }) => format!("{lines_added} lines"),
        Ok(Step::LogSetAside { name }) => name,
        Err(_) => terminal::harmless(&entry.detail.to_string()),
    }
}

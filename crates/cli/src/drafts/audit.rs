//! `assize audit`: the log, and whether it is whole.

use std::path::Path;

use assize_clerk::drafts::audit::{self, Completed, Whole};
use assize_draft::{HANDOFF, Mirror, Step, TRANSITIONS};
use assize_store::AuditEntry;
use assize_types::text::shorten;
use serde_json::json;

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
    let Some(store) = kept::open_to_read(config, around).await? else {
        return without_store(&command, &super::workspace(args, around));
    };
    let desk = desk(args, around, store.clone(), super::options(config)?)?;
    match command {
        AuditCommand::Verify { since, json, .. } => {
            tell(&audit::look(&*store, &desk, since.as_deref()).await?, json)
        }
        AuditCommand::Show { task, refused, json, .. } => {
            list(&audit::about(desk.entries().await?, task.as_deref(), refused), json)
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
        (false, true) => vec![audit::GONE.to_owned()],
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

fn tell(whole: &Whole, json: bool) -> Result<(), Failure> {
    if json {
        out_json(&json!(whole))?;
    }
    for Completed { entry, lines_there, lines_added } in &whole.completed {
        note(&format!(
            "at entry {entry}, `_handoff/transition.ndjson` ended after line {lines_there}; {lines_added} lines were \
             written again from the store"
        ));
    }
    if !whole.intact {
        let failure = Failure::new(FailureKind::Verdict, whole.wrong.join("\n"));
        return Err(match whole.mirror {
            Mirror::Same => failure,
            _ => failure.hint(format!(
                "what the store says counts; remove `{HANDOFF}/{TRANSITIONS}` to have it written anew, which is noted"
            )),
        });
    }
    if !json {
        let Whole { entries, of_workspace, .. } = whole;
        out_line(&format!("intact: {of_workspace} entries of this workspace, {entries} in all"))?;
        if let Some(head) = &whole.head {
            out_line(&format!("head {head}"))?;
        }
    }
    Ok(())
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

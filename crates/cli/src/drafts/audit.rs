//! `assize audit`: the log, whether it is whole, and its signed head.

use std::path::{Path, PathBuf};

use assize_config::Environment;
use assize_draft::audit::{self, Completed, HeadKey, HeadKeyError, InvalidHead, SignedHead, Whole};
use assize_draft::{HANDOFF, Mirror, Step, TRANSITIONS};
use assize_run::{AuditEntry, AuditQuery, AuditVerdict};
use assize_service::Services;
use assize_types::text::shorten;
use assize_types::{Cancel, Failure, FailureKind, Fingerprint};
use jiff::Timestamp;
use serde_json::json;

use super::{desk, show};
use crate::args::AuditCommand;
use crate::input;
use crate::terminal::{self, note, out_json, out_line, when};

pub(crate) async fn run(
    command: AuditCommand,
    services: &Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    let around = &services.environment;
    match command {
        AuditCommand::Head => head(services).await,
        AuditCommand::Verify { workspace, since, json } => {
            let heads = match since {
                Some(since) => Heads::read(&since, around, &cancel).await?,
                None => Heads::default(),
            };
            let mut whole = match services.open_store_to_read().await? {
                Some(store) => {
                    let desk = desk(
                        &workspace,
                        around,
                        store.clone(),
                        super::options(&services.settings)?,
                    )?;
                    audit::look(&*store, &desk, Some(&heads.positions)).await?
                }
                None => return without_store(&super::workspace(&workspace, around), &heads, json),
            };
            whole.wrong.extend(heads.wrong);
            whole.intact = whole.wrong.is_empty();
            tell(&whole, json)
        }
        AuditCommand::Show { workspace, task, refused, json } => {
            let entries = match services.open_store_to_read().await? {
                Some(store) => {
                    let desk =
                        desk(&workspace, around, store, super::options(&services.settings)?)?;
                    audit::about(desk.entries().await?, task.as_deref(), refused)
                }
                None if json => Vec::new(),
                None => {
                    note(NOTHING);
                    return Ok(());
                }
            };
            list(&entries, json)
        }
    }
}

/// The file of the key that signs heads.
fn key_file(around: &Environment) -> PathBuf {
    around.state_folder.join("audit-key")
}

/// A failure to read or create the key that signs heads.
fn no_key(error: &HeadKeyError, around: &Environment) -> Failure {
    let path = key_file(around);
    let failure = Failure::from_error(FailureKind::Environment, error);
    match error {
        HeadKeyError::Exposed { .. } => {
            failure.hint(format!("make it yours alone: `chmod 600 {}`", path.display()))
        }
        HeadKeyError::Invalid { .. } => failure.hint(
            "restore it from a backup; if you remove it, a new key is created, and heads of the old one do not verify",
        ),
        HeadKeyError::Failed { .. } | HeadKeyError::NoRandomNumbers => failure,
    }
}

/// Prints the head of the log, signed.
async fn head(services: &Services) -> Result<(), Failure> {
    let around = &services.environment;
    let (log, head) = match services.open_store_to_read().await? {
        Some(store) => {
            let head = store.audit_head().await?;
            (store.audit_log(AuditQuery::default()).await?, head)
        }
        None => (Vec::new(), 0),
    };
    if let AuditVerdict::Broken { at } = AuditVerdict::of(&log, head) {
        let message =
            format!("entry {at} in the store was changed, removed or moved: no head is signed");
        return Err(
            Failure::new(FailureKind::Verdict, message).hint("`assize audit verify` says more")
        );
    }
    if log.is_empty() {
        note(
            "warning: the log is empty; `store.path` in `assize config show` says where it is looked for",
        );
    }
    let (entry, hash) = log.last().map_or((0, Fingerprint::NONE), |last| (last.id, last.hash));
    let key = HeadKey::read_or_create(&key_file(around)).map_err(|error| no_key(&error, around))?;
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    out_line(&key.sign(entry, hash, now).to_string())
}

/// Heads that the log once had.
#[derive(Debug, Default)]
struct Heads {
    /// Those that can be looked for, as `ID:HASH`.
    positions: String,
    /// Complaints about the others.
    wrong: Vec<String>,
}

impl Heads {
    /// Reads heads that were typed, or those in a file (`@FILE`) or on standard input (`-`), a line each.
    async fn read(typed: &str, around: &Environment, cancel: &Cancel) -> Result<Heads, Failure> {
        let text = match typed.strip_prefix('@') {
            Some(path) => input::from_file("the file of heads", MOST, Path::new(path))?,
            None if typed == "-" => input::from_standard_input("the heads", MOST, cancel).await?,
            None => typed.to_owned(),
        };
        let key = HeadKey::read(&key_file(around)).map_err(|error| no_key(&error, around))?;
        let mut heads = Heads::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let position = match line.contains(' ') {
                false => line.to_owned(),
                true => {
                    let head: SignedHead = line.parse().map_err(|error: InvalidHead| {
                        Failure::new(FailureKind::Usage, error.to_string())
                    })?;
                    if let Err(error) = head.check_signature(key.as_ref()) {
                        heads.wrong.push(error.to_string());
                        continue;
                    }
                    format!("{}:{}", head.entry, head.hash)
                }
            };
            heads.positions.push_str(&position);
            heads.positions.push(' ');
        }
        if heads.positions.is_empty() && heads.wrong.is_empty() {
            return Err(Failure::new(FailureKind::Usage, "there is no head for `--since`")
                .hint("give it a line that `assize audit head` printed, `@FILE`, or `-`"));
        }
        Ok(heads)
    }
}

/// Verifies where nothing was ever written down; a log in the workspace, or a head, says otherwise.
fn without_store(workspace: &Path, heads: &Heads, json: bool) -> Result<(), Failure> {
    let log = workspace.join(HANDOFF).join(TRANSITIONS);
    let mut wrong = heads.wrong.clone();
    if std::fs::symlink_metadata(&log).is_ok_and(|log| log.len() > 0) {
        wrong.push(format!("`{HANDOFF}/{TRANSITIONS}` has entries, and the store has none"));
    }
    wrong.extend(audit::missing(&[], &heads.positions)?);
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
        false => Err(Failure::new(FailureKind::Verdict, wrong.join("\n")).hint(
            "was the store moved or removed? `store.path` in `assize config show` says where it is looked for",
        )),
    }
}

/// The most MiB of heads that are read.
const MOST: u64 = 16;

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

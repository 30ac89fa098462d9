//! `assize audit`: shows and verifies the audit log, and prints its signed head (id and hash of the latest entry).

use std::path::{Path, PathBuf};

use assize_config::Environment;
use assize_draft::audit::{
    self, HeadKey, HeadKeyError, InvalidHead, LogCheck, LogCompletion, SignedHead,
};
use assize_draft::{DraftStep, HANDOFF, LogComparison, TRANSITIONS};
use assize_run::{AuditEntry, AuditQuery, AuditVerdict};
use assize_service::Services;
use assize_types::text::{counted, shorten};
use assize_types::{Cancel, Failure, FailureKind, Fingerprint};
use jiff::Timestamp;
use serde_json::json;

use super::{draft_service, show};
use crate::args::AuditCommand;
use crate::input;
use crate::terminal::{self, note, out_json, out_line, when};

pub(crate) async fn run(
    command: AuditCommand,
    services: &Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    let environment = &services.environment;
    match command {
        AuditCommand::Head => head(services).await,
        AuditCommand::Verify { workspace, since, json } => {
            let heads = match since {
                Some(since) => Heads::read(&since, environment, &cancel).await?,
                None => Heads::default(),
            };
            let mut report = match services.open_store_to_read().await? {
                Some(store) => {
                    let service = draft_service(
                        &workspace,
                        environment,
                        store.clone(),
                        super::options(&services.settings)?,
                    )?;
                    audit::check_log(&*store, &service, Some(&heads.positions)).await?
                }
                None => {
                    return without_store(&super::workspace(&workspace, environment), &heads, json);
                }
            };
            report.problems.extend(heads.errors);
            report.intact = report.problems.is_empty();
            print_report(&report, json)
        }
        AuditCommand::Show { workspace, task, refused, json } => {
            let entries = match services.open_store_to_read().await? {
                Some(store) => {
                    let service = draft_service(
                        &workspace,
                        environment,
                        store,
                        super::options(&services.settings)?,
                    )?;
                    audit::filter_entries(service.entries().await?, task.as_deref(), refused)
                }
                None if json => Vec::new(),
                None => {
                    note(EMPTY_LOG);
                    return Ok(());
                }
            };
            list(&entries, json)
        }
    }
}

/// Path of the file with the key that signs heads of the audit log. A head is the id and hash of the latest entry.
fn key_file(environment: &Environment) -> PathBuf {
    environment.state_folder.join("audit-key")
}

/// Converts an error about the signing key to a failure with a hint.
fn key_failure(error: &HeadKeyError, environment: &Environment) -> Failure {
    let path = key_file(environment);
    let failure = Failure::from_error(FailureKind::Environment, error);
    match error {
        HeadKeyError::Exposed { .. } => {
            let command = format!("chmod 600 {}", path.display());
            failure.hint(format!("allow only your user to read the key: `{command}`"))
        }
        HeadKeyError::Invalid { .. } => failure.hint(
            "restore the key from a backup; if you remove it, a new key is created, and heads signed with the old key \
             can no longer be verified",
        ),
        HeadKeyError::Failed { .. } | HeadKeyError::NoRandomNumbers => failure,
    }
}

/// Prints the signed head of the audit log: the id and hash of the latest entry.
async fn head(services: &Services) -> Result<(), Failure> {
    let environment = &services.environment;
    let (log, head) = match services.open_store_to_read().await? {
        Some(store) => {
            let head = store.audit_head().await?;
            (store.audit_log(AuditQuery::default()).await?, head)
        }
        None => (Vec::new(), 0),
    };
    if let AuditVerdict::Broken { at } = AuditVerdict::of(&log, head) {
        let message = format!(
            "the head of the audit log was not signed, because entry {at} was changed, removed or moved"
        );
        return Err(Failure::new(FailureKind::Verdict, message)
            .hint("`assize audit verify` lists the problems of the log"));
    }
    if log.is_empty() {
        note(
            "warning: the audit log is empty; `assize config show` shows the path of the store (`store.path`)",
        );
    }
    let (entry, hash) = log.last().map_or((0, Fingerprint::NONE), |last| (last.id, last.hash));
    let key = HeadKey::read_or_create(&key_file(environment))
        .map_err(|error| key_failure(&error, environment))?;
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    out_line(&key.sign(entry, hash, now).to_string())
}

/// Earlier heads of the audit log (ids and hashes of entries that were once the latest), given with `--since`.
#[derive(Debug, Default)]
struct Heads {
    /// Heads to look up in the audit log, as `ID:HASH`, separated by spaces.
    positions: String,
    /// Error messages about heads with an invalid signature.
    errors: Vec<String>,
}

impl Heads {
    /// Reads heads from the argument, a file (`@FILE`) or standard input (`-`), one per line.
    async fn read(
        argument: &str,
        environment: &Environment,
        cancel: &Cancel,
    ) -> Result<Heads, Failure> {
        let text = match argument.strip_prefix('@') {
            Some(path) => input::from_file("the heads file", MAX_HEADS_MIB, Path::new(path))?,
            None if argument == "-" => {
                input::from_standard_input("the heads", MAX_HEADS_MIB, cancel).await?
            }
            None => argument.to_owned(),
        };
        let key = HeadKey::read(&key_file(environment))
            .map_err(|error| key_failure(&error, environment))?;
        let mut heads = Heads::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let position = match line.contains(' ') {
                false => line.to_owned(),
                true => {
                    let head: SignedHead = line.parse().map_err(|error: InvalidHead| {
                        Failure::new(FailureKind::Usage, error.to_string())
                    })?;
                    if let Err(error) = head.check_signature(key.as_ref()) {
                        heads.errors.push(error.to_string());
                        continue;
                    }
                    format!("{}:{}", head.entry, head.hash)
                }
            };
            heads.positions.push_str(&position);
            heads.positions.push(' ');
        }
        if heads.positions.is_empty() && heads.errors.is_empty() {
            return Err(Failure::new(FailureKind::Usage, "no head of the audit log given for `--since`")
                .hint("pass a line of `assize audit head`, `@FILE` with such lines, or `-` (standard input)"));
        }
        Ok(heads)
    }
}

/// Verifies the audit log of a workspace whose store does not exist. Such a log is empty, so the check fails if the
/// copy of the log in the workspace has entries, or if the user passed a head with `--since`.
fn without_store(workspace: &Path, heads: &Heads, json: bool) -> Result<(), Failure> {
    let log = workspace.join(HANDOFF).join(TRANSITIONS);
    let mut wrong = heads.errors.clone();
    if std::fs::symlink_metadata(&log).is_ok_and(|log| log.len() > 0) {
        wrong.push(format!("the copy `{HANDOFF}/{TRANSITIONS}` of the audit log has entries, but the store has none"));
    }
    wrong.extend(audit::check_heads(&[], &heads.positions)?);
    if json {
        out_json(
            &json!({"intact": wrong.is_empty(), "wrong": wrong, "entries": 0, "of_workspace": 0,
                         "head": null, "completed": []}),
        )?;
    }
    match wrong.is_empty() {
        true => {
            note(EMPTY_LOG);
            Ok(())
        }
        false => Err(Failure::new(FailureKind::Verdict, wrong.join("\n")).hint(
            "if the store was moved or removed, check its path (`store.path`) with `assize config show`",
        )),
    }
}

/// Maximum size of the list of heads given with `--since`, in MiB.
const MAX_HEADS_MIB: u64 = 16;

const EMPTY_LOG: &str = "the audit log is empty";

fn print_report(report: &LogCheck, json: bool) -> Result<(), Failure> {
    if json {
        out_json(&json!(report))?;
    }
    for LogCompletion { entry, lines_present, lines_added } in &report.completed {
        let added = counted(*lines_added, "line was", "lines were");
        note(&format!(
            "`_handoff/transition.ndjson` was repaired: it ended after line {lines_present}, and {added} restored \
             from the store (recorded in entry {entry} of the audit log)"
        ));
    }
    if !report.intact {
        let failure = Failure::new(FailureKind::Verdict, report.problems.join("\n"));
        return Err(match report.mirror {
            LogComparison::Same => failure,
            _ => failure.hint(format!(
                "the store is authoritative; if you remove `{HANDOFF}/{TRANSITIONS}`, assize writes the file again \
                 from the store, and records the repair in the audit log"
            )),
        });
    }
    if !json {
        let LogCheck { entries, of_workspace, .. } = report;
        let count = match of_workspace {
            0 => "no entries".to_owned(),
            count => counted(*count, "entry", "entries"),
        };
        out_line(&format!(
            "the audit log is intact: {count} for this workspace ({entries} in the store)"
        ))?;
        if let Some(head) = &report.head {
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
        note("the audit log has no entries for this workspace");
        return Ok(());
    }
    let row = |entry: &AuditEntry| {
        vec![
            entry.id.to_string(),
            when(entry.at),
            entry.actor.clone(),
            entry.action.clone(),
            shorten(&assize_types::text::one_line(&details(entry)), 100),
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    let lines = show::table(&["NO", "TIME (UTC)", "ACTOR", "ACTION", "DETAILS"], &rows);
    lines.iter().try_for_each(|line| out_line(line))
}

/// Formats the details of an audit log entry.
fn details(entry: &AuditEntry) -> String {
    match DraftStep::of(entry) {
        Ok(DraftStep::Requested { task, path, .. }) => format!("{path} for {task}"),
        Ok(DraftStep::Submitted { task, files, summary, .. }) => {
            let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
            format!("{} for {task}: {summary}", names.join(", "))
        }
        Ok(DraftStep::Decided { submission, verdict, reasons, .. }) => {
            let rules: Vec<&str> = reasons.iter().map(|reason| reason.rule.as_str()).collect();
            let why =
                if rules.is_empty() { String::new() } else { format!(": {}", rules.join(", ")) };
            format!("{submission} {}{why}", verdict.name())
        }
        Ok(
            DraftStep::Applied { submission, .. }
            | DraftStep::Undone { submission }
            | DraftStep::Undoing { submission, .. },
        ) => submission.to_string(),
        Ok(DraftStep::NotApplied { submission, why }) => format!("{submission}: {why}"),
        Ok(DraftStep::Refused { tool, path, why, .. }) => format!("{tool} `{path}`: {why}"),
        Ok(DraftStep::MessagesDelivered { task, .. }) => task.to_string(),
        Ok(DraftStep::Switched { on }) => if on { "on" } else { "off" }.to_owned(),
        Ok(DraftStep::Expired { draft, .. }) => draft,
        Ok(DraftStep::ContentsDeleted { submissions, copies }) => {
            let submissions = counted(submissions.len(), "submission", "submissions");
            format!("{submissions}, {}", counted(copies, "copy", "copies"))
        }
        Ok(DraftStep::LogCompleted { lines_added, .. }) => counted(lines_added, "line", "lines"),
        Ok(DraftStep::LogSetAside { name }) => name,
        Err(_) => terminal::replace_control_chars(&entry.detail.to_string()),
    }
}

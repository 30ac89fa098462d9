//! Checks and filters the audit log of a workspace.

use assize_run::{AuditEntry, AuditQuery, AuditVerdict, Store};
use assize_store::check_head;
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{DraftService, DraftState, DraftStep, LogComparison};

pub use assize_store::{HeadKey, HeadKeyError, InvalidHead, SignedHead};

/// Result of checking the audit log of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogCheck {
    /// Whether the check found no problem.
    pub intact: bool,
    /// Descriptions of the problems that the check found.
    pub problems: Vec<String>,
    /// Number of audit log entries of all workspaces in the store.
    pub entries: usize,
    /// Number of audit log entries of this workspace.
    pub of_workspace: usize,
    /// Id and hash of the last log entry, as `ID:HASH`; null if the log is empty. A later check with this value as
    /// `since` detects whether the entry was changed or removed.
    pub head: Option<String>,
    /// Repairs of the log file in the workspace. A repair appends the missing lines to a log file that is too short.
    pub completed: Vec<LogCompletion>,
    /// Comparison of the log file in the workspace with the store.
    #[serde(skip)]
    pub mirror: LogComparison,
}

/// One repair of the log file in the workspace: Assize appended the missing lines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogCompletion {
    /// Id of the log entry that records the repair.
    pub entry: u64,
    /// Number of complete lines of the log file before the repair.
    pub lines_present: usize,
    /// Number of lines that the repair appended.
    pub lines_added: usize,
}

/// Checks whether the audit log in the store or the log file in the workspace was changed, truncated or reordered.
/// `since` lists entries that the log must still contain, as `ID:HASH`, separated by spaces.
pub async fn check_log(
    store: &dyn Store,
    service: &DraftService,
    since: Option<&str>,
) -> Result<LogCheck, Failure> {
    let head = store.audit_head().await?;
    let log = store.audit_log(AuditQuery::default()).await?;
    let mirror = service.compare_logs().await?;
    let own: Vec<&AuditEntry> =
        log.iter().filter(|entry| entry.subject == service.subject()).collect();
    let mut problems = Vec::new();
    if let AuditVerdict::Broken { at } = AuditVerdict::of(&log, head) {
        problems.push(format!("audit log entry {at} in the store was changed, removed or moved"));
    }
    problems.extend(mirror.complaint(own.len()));
    problems.extend(check_heads(&log, since.unwrap_or_default())?);
    Ok(LogCheck {
        intact: problems.is_empty(),
        problems,
        entries: log.len(),
        of_workspace: own.len(),
        head: log.last().map(|last| format!("{}:{}", last.id, last.hash)),
        completed: own.into_iter().filter_map(completed).collect(),
        mirror,
    })
}

/// Checks that a log still contains the entries that `heads` lists as `ID:HASH`, separated by spaces; returns a
/// description of each problem.
pub fn check_heads(log: &[AuditEntry], heads: &str) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    for head in heads.split_ascii_whitespace() {
        let parts = head.split_once(':');
        let parts = parts.and_then(|(id, hash)| Some((id.parse().ok()?, hash.parse().ok()?)));
        let (entry, hash) = parts.ok_or_else(|| {
            let message =
                "`since` must be `ID:HASH`; `assize audit verify --since` also accepts the output of `assize audit head`";
            Failure::new(FailureKind::Usage, message)
        })?;
        problems.extend(check_head(log, entry, hash).err().map(|error| error.to_string()));
    }
    Ok(problems)
}

fn completed(entry: &AuditEntry) -> Option<LogCompletion> {
    let Ok(DraftStep::LogCompleted { lines_present, lines_added }) = DraftStep::of(entry) else {
        return None;
    };
    Some(LogCompletion { entry: entry.id, lines_present, lines_added })
}

/// Filters the log entries of a workspace. If `task` is given, keeps only entries about this task and its submissions.
/// If `refused` is true, keeps only entries about refused paths.
pub fn filter_entries(
    mut entries: Vec<AuditEntry>,
    task: Option<&str>,
    refused: bool,
) -> Vec<AuditEntry> {
    let submissions = DraftState::of(&entries).submissions;
    let concerns = |entry: &AuditEntry, task: &str| {
        let submission = entry.detail["submission"].as_u64().and_then(|id| submissions.get(&id));
        entry.detail["task"] == task || submission.is_some_and(|s| s.task.as_str() == task)
    };
    entries.retain(|entry| {
        task.is_none_or(|task| concerns(entry, task)) && (!refused || entry.action == "refused")
    });
    entries
}

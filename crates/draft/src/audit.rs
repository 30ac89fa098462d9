//! The log of a workspace: whether it is whole, and what in it is about something.

use assize_run::{AuditEntry, AuditQuery, AuditVerdict, Store};
use assize_store::check_head;
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{DraftService, DraftState, Mirror, Step};

pub use assize_store::{HeadKey, HeadKeyError, InvalidHead, SignedHead};

/// What a look at the whole log came to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LogCheck")]
pub struct Whole {
    pub intact: bool,
    /// What is wrong with it.
    pub wrong: Vec<String>,
    /// In the store, of all workspaces.
    pub entries: usize,
    pub of_workspace: usize,
    /// What the log comes to now: whoever notes it can see later whether it is still in it.
    pub head: Option<String>,
    /// Where the log in the workspace ended early and was completed.
    pub completed: Vec<Completed>,
    /// How the log in the workspace compares.
    #[serde(skip)]
    pub mirror: Mirror,
}

/// That the log in the workspace was once completed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LogCompletion")]
pub struct Completed {
    pub entry: u64,
    pub lines_there: usize,
    pub lines_added: usize,
}

/// Looks whether anything in the log was changed, removed, reordered or cut off, in the store or in the workspace;
/// `since` are heads that it once had, as `ID:HASH`, which must still be in it.
pub async fn look(
    store: &dyn Store,
    desk: &DraftService,
    since: Option<&str>,
) -> Result<Whole, Failure> {
    let head = store.audit_head().await?;
    let log = store.audit_log(AuditQuery::default()).await?;
    let mirror = desk.compare_logs().await?;
    let own: Vec<&AuditEntry> =
        log.iter().filter(|entry| entry.subject == desk.subject()).collect();
    let mut wrong = Vec::new();
    if let AuditVerdict::Broken { at } = AuditVerdict::of(&log, head) {
        wrong.push(format!("entry {at} in the store was changed, removed or moved"));
    }
    wrong.extend(mirror.complaint(own.len()));
    wrong.extend(missing(&log, since.unwrap_or_default())?);
    Ok(Whole {
        intact: wrong.is_empty(),
        wrong,
        entries: log.len(),
        of_workspace: own.len(),
        head: log.last().map(|last| format!("{}:{}", last.id, last.hash)),
        completed: own.into_iter().filter_map(completed).collect(),
        mirror,
    })
}

/// Complaints about a log that must have these heads, each as `ID:HASH`.
pub fn missing(log: &[AuditEntry], heads: &str) -> Result<Vec<String>, Failure> {
    let mut wrong = Vec::new();
    for head in heads.split_ascii_whitespace() {
        let parts = head.split_once(':');
        let parts = parts.and_then(|(id, hash)| Some((id.parse().ok()?, hash.parse().ok()?)));
        let (entry, hash) = parts.ok_or_else(|| {
            let message =
                "`since` must be `ID:HASH`; `assize audit verify --since` also takes what `assize audit head` printed";
            Failure::new(FailureKind::Usage, message)
        })?;
        wrong.extend(check_head(log, entry, hash).err().map(|error| error.to_string()));
    }
    Ok(wrong)
}

fn completed(entry: &AuditEntry) -> Option<Completed> {
    let Ok(Step::LogCompleted { lines_there, lines_added }) = Step::of(entry) else { return None };
    Some(Completed { entry: entry.id, lines_there, lines_added })
}

/// Entries about a task or one of its submissions, or about refused paths. `entries` are all entries of a workspace.
pub fn about(mut entries: Vec<AuditEntry>, task: Option<&str>, refused: bool) -> Vec<AuditEntry> {
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

//! The log of a workspace: whether it is whole, and what in it is about something.

use assize_draft::{Book, Desk, Mirror, Step};
use assize_store::{AuditEntry, AuditQuery, AuditVerdict, Store};
use serde::Serialize;

use crate::failure::{Failure, FailureKind};

/// What a look at the whole log came to.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
pub struct Completed {
    pub entry: u64,
    pub lines_there: usize,
    pub lines_added: usize,
}

/// Looks whether anything in the log was changed, removed, reordered or cut off, in the store or in the workspace;
/// `since` is what it came to once, which must still be in it.
pub async fn look(store: &dyn Store, desk: &Desk, since: Option<&str>) -> Result<Whole, Failure> {
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
    if !since.map_or(Ok(true), |since| is_in(&log, since))? {
        wrong.push(GONE.to_owned());
    }
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

pub const GONE: &str = "what the log came to then is not in it any more";

/// Whether the log still has what it once came to.
fn is_in(log: &[AuditEntry], since: &str) -> Result<bool, Failure> {
    let parts = since.split_once(':').and_then(|(id, hash)| Some((id.parse::<u64>().ok()?, hash)));
    let Some((id, hash)) = parts else {
        let message = "`since` is the head of an earlier look at the log, such as `12:ab34…`";
        return Err(Failure::new(FailureKind::Usage, message));
    };
    Ok(log.iter().any(|entry| entry.id == id && entry.hash.to_string().eq_ignore_ascii_case(hash)))
}

fn completed(entry: &AuditEntry) -> Option<Completed> {
    match Step::of(entry) {
        Ok(Step::LogCompleted { lines_there, lines_added }) => {
            Some(Completed { entry: entry.id, lines_there, lines_added })
        }
        _ => None,
    }
}

/// Entries about a task or one of its submissions, or about refused paths. `entries` are all entries of a workspace.
pub fn about(mut entries: Vec<AuditEntry>, task: Option<&str>, refused: bool) -> Vec<AuditEntry> {
    let of_task = |entry: &AuditEntry| task.is_none_or(|task| entry.detail["task"] == task);
    let book = Book::of(&entries);
    let submissions: Vec<u64> = book
        .submissions
        .values()
        .filter(|submission| task.is_none_or(|task| submission.task.as_str() == task))
        .map(|submission| submission.id)
        .collect();
    entries.retain(|entry| {
        let of_submission = entry.detail["submission"].as_u64();
        let concerns = of_task(entry) || of_submission.is_some_and(|id| submissions.contains(&id));
        concerns && (!refused || entry.action == "refused")
    });
    entries
}

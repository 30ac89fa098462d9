//! The log of a workspace: entries in the store's audit log, which is outside the workspace, and the same entries as
//! lines of `_handoff/transition.ndjson`, for people and for comparison.

use std::io::Read;
use std::sync::Arc;

use assize_run::{AuditEntry, AuditQuery, NewAuditEntry, Store, StoreError};
use assize_workspace::{FileError, FolderHandle, HANDOFF};

use crate::state::{DraftState, DraftStep};

/// File name of the log in the workspace.
pub const TRANSITIONS: &str = "transition.ndjson";

/// Audit log of one workspace.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceLog {
    pub(crate) store: Arc<dyn Store>,
    /// Subject of the entries: the workspace's path.
    pub(crate) subject: String,
}

impl WorkspaceLog {
    /// Records a step as an entry.
    pub(crate) async fn record(
        &self,
        actor: &str,
        step: &DraftStep,
    ) -> Result<AuditEntry, StoreError> {
        let (action, detail) = step.parts();
        let (actor, subject) = (actor.to_owned(), self.subject.clone());
        self.store.audit(NewAuditEntry { actor, action, subject, detail }).await
    }

    /// Entries after the given one.
    pub(crate) async fn entries(&self, after: u64) -> Result<Vec<AuditEntry>, StoreError> {
        tracing::trace!(target: "assize_draft::log_read", after);
        let subject = Some(self.subject.clone());
        self.store.audit_log(AuditQuery { subject, after, limit: 0 }).await
    }
}

/// Cached state of a log.
#[derive(Debug, Default)]
pub(crate) struct LogCache {
    pub(crate) state: DraftState,
    /// Expected length of the log in the workspace; `None` if unknown.
    pub(crate) log_length: Option<u64>,
}

impl LogCache {
    /// Reads the entries written since the last call.
    pub(crate) async fn catch_up(
        &mut self,
        ledger: &WorkspaceLog,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let entries = ledger.entries(self.state.last).await?;
        for entry in &entries {
            self.state.take(entry);
            self.log_length = self.log_length.map(|length| length + line(entry).len() as u64);
        }
        Ok(entries)
    }
}

/// Formats an entry as a line of the log in the workspace.
pub(crate) fn line(entry: &AuditEntry) -> String {
    let mut line = serde_json::to_string(entry).unwrap_or_default();
    line.push('\n');
    line
}

/// Result of comparing the log in the workspace with the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogComparison {
    /// The log and the store have the same entries.
    Same,
    /// The log ends after this many complete lines.
    Short { lines: usize },
    /// This line was changed or added.
    Changed { line: usize },
}

impl LogComparison {
    /// Describes the problem, if there is one; `written` is the number of lines that were written.
    pub fn complaint(&self, written: usize) -> Option<String> {
        let file = format!("{HANDOFF}/{TRANSITIONS}");
        match self {
            LogComparison::Same => None,
            LogComparison::Short { lines } => Some(format!(
                "`{file}` ends after line {lines}, but {written} lines were written to it"
            )),
            LogComparison::Changed { line } => Some(format!("line {line} of `{file}` was changed")),
        }
    }

    /// Compares the log in the workspace with the entries; also returns how many bytes of the next line exist.
    pub(crate) fn of(
        handoff: &FolderHandle,
        entries: &[AuditEntry],
    ) -> Result<(LogComparison, usize), FileError> {
        let lines: Vec<String> = entries.iter().map(line).collect();
        let length: usize = lines.iter().map(String::len).sum();
        let mut found = Vec::new();
        match handoff.open(TRANSITIONS) {
            // Read one byte more than was written, to detect added text.
            Ok(file) => _ = file.take(length as u64 + 1).read_to_end(&mut found)?,
            Err(FileError::Missing) => {}
            Err(error) => return Err(error),
        }
        let mut rest = found.as_slice();
        for (index, line) in lines.iter().enumerate() {
            rest = match rest.strip_prefix(line.as_bytes()) {
                Some(rest) => rest,
                None if line.as_bytes().starts_with(rest) => {
                    return Ok((LogComparison::Short { lines: index }, rest.len()));
                }
                None => return Ok((LogComparison::Changed { line: index + 1 }, 0)),
            };
        }
        match rest {
            [] => Ok((LogComparison::Same, 0)),
            _ => Ok((LogComparison::Changed { line: lines.len() + 1 }, 0)),
        }
    }

    /// Appends missing lines and sets aside the log of another workspace; returns the step to record.
    pub(crate) fn repair(
        handoff: &FolderHandle,
        entries: &[AuditEntry],
    ) -> Result<Option<DraftStep>, FileError> {
        match LogComparison::of(handoff, entries)? {
            // The folder was moved here with the log of another workspace.
            (LogComparison::Changed { .. }, _) if entries.is_empty() => {
                let name = format!("transition-{:08x}.ndjson", fastrand::u32(..));
                handoff.rename(TRANSITIONS, &name)?;
                Ok(Some(DraftStep::LogSetAside { name }))
            }
            (LogComparison::Short { lines }, torn) => {
                let rest: String = entries[lines..].iter().map(line).collect();
                handoff.append(TRANSITIONS, &rest.as_bytes()[torn..])?;
                let lines_added = entries.len() - lines;
                Ok(Some(DraftStep::LogCompleted { lines_there: lines, lines_added }))
            }
            _ => Ok(None),
        }
    }
}

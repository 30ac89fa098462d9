//! The log of the draft workflow in a workspace.
//!
//! The entries are in the audit log of the store, outside the workspace. The same entries are also written as lines to
//! a log file in the workspace, `_handoff/transition.ndjson`, where users can read them. Changes to the log file are
//! detected by a comparison with the store.

use std::io::Read;
use std::sync::Arc;

use assize_run::{AuditEntry, AuditQuery, NewAuditEntry, Store, StoreError};
use assize_workspace::{FileError, FolderHandle, HANDOFF};

use crate::state::{DraftState, DraftStep};

/// Name of the log file in the folder [`HANDOFF`] of a workspace.
pub const TRANSITIONS: &str = "transition.ndjson";

/// Audit log of one workspace.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceLog {
    pub(crate) store: Arc<dyn Store>,
    /// Path of the workspace. The audit log entries of the workspace have this path as their subject.
    pub(crate) subject: String,
}

impl WorkspaceLog {
    /// Records a step of the draft workflow as an entry of the audit log.
    pub(crate) async fn record(
        &self,
        actor: &str,
        step: &DraftStep,
    ) -> Result<AuditEntry, StoreError> {
        let (action, detail) = step.parts();
        let (actor, subject) = (actor.to_owned(), self.subject.clone());
        self.store.audit(NewAuditEntry { actor, action, subject, detail }).await
    }

    /// Reads the entries of this workspace whose id is greater than `after`.
    pub(crate) async fn entries(&self, after: u64) -> Result<Vec<AuditEntry>, StoreError> {
        tracing::trace!(target: "assize_draft::log_read", after);
        let subject = Some(self.subject.clone());
        self.store.audit_log(AuditQuery { subject, after, limit: 0 }).await
    }
}

/// Cached state of a workspace's drafts, computed from the log entries that were read so far.
#[derive(Debug, Default)]
pub(crate) struct LogCache {
    pub(crate) state: DraftState,
    /// Expected size in bytes of the log file in the workspace; `None` if unknown.
    pub(crate) log_length: Option<u64>,
}

impl LogCache {
    /// Reads the log entries that were written since the last call, applies them to the state, and returns them.
    pub(crate) async fn catch_up(
        &mut self,
        ledger: &WorkspaceLog,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let entries = ledger.entries(self.state.last_entry).await?;
        for entry in &entries {
            self.state.apply_entry(entry);
            self.log_length = self.log_length.map(|length| length + line(entry).len() as u64);
        }
        Ok(entries)
    }
}

/// Formats an entry as a line of the log file in the workspace.
pub(crate) fn line(entry: &AuditEntry) -> String {
    let mut line = serde_json::to_string(entry).unwrap_or_default();
    line.push('\n');
    line
}

/// Result of comparing the log file in the workspace with the audit log of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogComparison {
    /// The log file and the store have the same entries.
    Same,
    /// The log file is too short: it has only this number of complete lines.
    Short { lines: usize },
    /// The line with this number (from 1) of the log file was changed or added.
    Changed { line: usize },
}

impl LogComparison {
    /// Describes how the log file differs from the store; returns `None` if the log file and the store have the same
    /// entries. `written` is the number of lines that Assize has written to the log file.
    pub fn complaint(&self, written: usize) -> Option<String> {
        let file = format!("{HANDOFF}/{TRANSITIONS}");
        match self {
            LogComparison::Same => None,
            LogComparison::Short { lines } => Some(format!(
                "the log file `{file}` is too short: it has only {lines} of {written} lines"
            )),
            LogComparison::Changed { line } => {
                Some(format!("line {line} of the log file `{file}` was changed or added"))
            }
        }
    }

    /// Compares the log file in the workspace with the entries of the store. Also returns the length in bytes of an
    /// incomplete last line.
    pub(crate) fn of(
        handoff: &FolderHandle,
        entries: &[AuditEntry],
    ) -> Result<(LogComparison, usize), FileError> {
        let lines: Vec<String> = entries.iter().map(line).collect();
        let length: usize = lines.iter().map(String::len).sum();
        let mut found = Vec::new();
        match handoff.open(TRANSITIONS) {
            // Read one byte more than Assize wrote, to detect text that was added at the end.
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

    /// Repairs the log file in the workspace: appends missing lines, or renames the file if it belongs to another
    /// workspace. Returns the step to record in the audit log, if something was repaired.
    pub(crate) fn repair(
        handoff: &FolderHandle,
        entries: &[AuditEntry],
    ) -> Result<Option<DraftStep>, FileError> {
        match LogComparison::of(handoff, entries)? {
            // The store has no entries of this workspace: its folder was moved or copied from another path, with the
            // log file.
            (LogComparison::Changed { .. }, _) if entries.is_empty() => {
                let name = format!("transition-{:08x}.ndjson", fastrand::u32(..));
                handoff.rename(TRANSITIONS, &name)?;
                Ok(Some(DraftStep::LogSetAside { name }))
            }
            (LogComparison::Short { lines }, torn) => {
                let rest: String = entries[lines..].iter().map(line).collect();
                handoff.append(TRANSITIONS, &rest.as_bytes()[torn..])?;
                let lines_added = entries.len() - lines;
                Ok(Some(DraftStep::LogCompleted { lines_present: lines, lines_added }))
            }
            _ => Ok(None),
        }
    }
}

//! The log of a workspace: entries in the audit log of the store, which is outside the workspace, and the same
//! entries, line by line, in `_handoff/transition.ndjson`, for people and for whoever compares the two.

use std::io::Read;
use std::sync::Arc;

use assize_run::{AuditEntry, AuditQuery, NewAuditEntry, Store, StoreError};
use assize_workspace::{FileError, Folder, HANDOFF};

use crate::state::{DraftState, Step};

/// The log in the workspace.
pub const TRANSITIONS: &str = "transition.ndjson";

/// The log of one workspace.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    pub(crate) store: Arc<dyn Store>,
    /// What its entries are about: the workspace's path.
    pub(crate) subject: String,
}

impl Ledger {
    /// Records a step as an entry.
    pub(crate) async fn record(&self, actor: &str, step: &Step) -> Result<AuditEntry, StoreError> {
        let (action, detail) = step.parts();
        let (actor, subject) = (actor.to_owned(), self.subject.clone());
        self.store.audit(NewAuditEntry { actor, action, subject, detail }).await
    }

    /// The entries after one.
    pub(crate) async fn entries(&self, after: u64) -> Result<Vec<AuditEntry>, StoreError> {
        tracing::trace!(target: "assize_draft::log_read", after);
        let subject = Some(self.subject.clone());
        self.store.audit_log(AuditQuery { subject, after, limit: 0 }).await
    }
}

/// What a process knows of a log.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) state: DraftState,
    /// How long the log in the workspace should be; `None` while that is unknown.
    pub(crate) log_length: Option<u64>,
}

impl Known {
    /// Reads the entries that were written since.
    pub(crate) async fn catch_up(
        &mut self,
        ledger: &Ledger,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let entries = ledger.entries(self.state.last).await?;
        for entry in &entries {
            self.state.take(entry);
            self.log_length = self.log_length.map(|length| length + line(entry).len() as u64);
        }
        Ok(entries)
    }
}

/// An entry as it stands in the workspace.
pub(crate) fn line(entry: &AuditEntry) -> String {
    let mut line = serde_json::to_string(entry).unwrap_or_default();
    line.push('\n');
    line
}

/// What a look at the log in the workspace came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mirror {
    /// It says what the store says.
    Same,
    /// It ends too early: after so many lines, and in the middle of one perhaps.
    Short { lines: usize },
    /// This line is not what it was, or should not be there.
    Changed { line: usize },
}

impl Mirror {
    /// What is wrong with it, if anything is, where so many lines were written.
    pub fn complaint(&self, written: usize) -> Option<String> {
        let file = format!("{HANDOFF}/{TRANSITIONS}");
        match self {
            Mirror::Same => None,
            Mirror::Short { lines } => Some(format!(
                "`{file}` ends after line {lines}, and {written} lines were written to it"
            )),
            Mirror::Changed { line } => {
                Some(format!("line {line} of `{file}` is not what was written there"))
            }
        }
    }

    /// Compares the log in the workspace with the entries; gives also how many bytes of the next line are there.
    pub(crate) fn of(
        handoff: &Folder,
        entries: &[AuditEntry],
    ) -> Result<(Mirror, usize), FileError> {
        let lines: Vec<String> = entries.iter().map(line).collect();
        let length: usize = lines.iter().map(String::len).sum();
        let mut there = Vec::new();
        match handoff.open(TRANSITIONS) {
            // A byte more than was written shows that there is more.
            Ok(file) => _ = file.take(length as u64 + 1).read_to_end(&mut there)?,
            Err(FileError::Missing) => {}
            Err(error) => return Err(error),
        }
        let mut rest = there.as_slice();
        for (index, line) in lines.iter().enumerate() {
            rest = match rest.strip_prefix(line.as_bytes()) {
                Some(rest) => rest,
                None if line.as_bytes().starts_with(rest) => {
                    return Ok((Mirror::Short { lines: index }, rest.len()));
                }
                None => return Ok((Mirror::Changed { line: index + 1 }, 0)),
            };
        }
        match rest {
            [] => Ok((Mirror::Same, 0)),
            _ => Ok((Mirror::Changed { line: lines.len() + 1 }, 0)),
        }
    }

    /// Adds what is missing at its end, and sets aside what is another's; gives what to write down about it.
    pub(crate) fn repair(
        handoff: &Folder,
        entries: &[AuditEntry],
    ) -> Result<Option<Step>, FileError> {
        match Mirror::of(handoff, entries)? {
            // The folder was moved here, with the log of what happened elsewhere.
            (Mirror::Changed { .. }, _) if entries.is_empty() => {
                let name = format!("transition-{:08x}.ndjson", fastrand::u32(..));
                handoff.rename(TRANSITIONS, &name)?;
                Ok(Some(Step::LogSetAside { name }))
            }
            (Mirror::Short { lines }, torn) => {
                let rest: String = entries[lines..].iter().map(line).collect();
                handoff.append(TRANSITIONS, &rest.as_bytes()[torn..])?;
                let lines_added = entries.len() - lines;
                Ok(Some(Step::LogCompleted { lines_there: lines, lines_added }))
            }
            _ => Ok(None),
        }
    }
}

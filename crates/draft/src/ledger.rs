//! The log of a workspace: entries in the audit log of the store, which is outside the workspace, and the same
//! entries, line by line, in `_handoff/transition.ndjson`, for people and for whoever compares the two.

use std::sync::Arc;

use assize_store::{AuditEntry, AuditQuery, NewAuditEntry, Store, StoreError};

use crate::book::{Book, Step};
use crate::folder::Folder;
use crate::workspace::FileError;

/// The log in the workspace.
pub const TRANSITIONS: &str = "transition.ndjson";

/// The largest log in a workspace that is read.
const LARGEST: u64 = 1 << 30;

/// The log of one workspace.
#[derive(Clone)]
pub(crate) struct Ledger {
    store: Arc<dyn Store>,
    /// What its entries are about: the workspace's path.
    subject: String,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl Ledger {
    pub(crate) fn new(store: Arc<dyn Store>, subject: String) -> Ledger {
        Ledger { store, subject }
    }

    /// Writes an entry down.
    pub(crate) async fn note(&self, actor: &str, step: &Step) -> Result<AuditEntry, StoreError> {
        let (action, detail) = step.parts();
        let (actor, subject) = (actor.to_owned(), self.subject.clone());
        self.store.audit(NewAuditEntry { actor, action, subject, detail }).await
    }

    /// Brings a book up to date.
    pub(crate) async fn catch_up(&self, book: &mut Book) -> Result<(), StoreError> {
        for entry in self.entries(book.last).await? {
            book.take(&entry);
        }
        Ok(())
    }

    /// The entries after one.
    pub(crate) async fn entries(&self, after: u64) -> Result<Vec<AuditEntry>, StoreError> {
        let subject = Some(self.subject.clone());
        self.store.audit_log(AuditQuery { subject, after }).await
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
    /// Compares the log in the workspace with the entries.
    pub(crate) fn of(
        handoff: &Folder,
        entries: &[AuditEntry],
    ) -> Result<(Mirror, usize), FileError> {
        let there = match handoff.read(TRANSITIONS, LARGEST) {
            Ok(bytes) => bytes,
            Err(FileError::Missing) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut rest = there.as_slice();
        for (index, entry) in entries.iter().enumerate() {
            let line = line(entry);
            match rest.strip_prefix(line.as_bytes()) {
                Some(after) => rest = after,
                None if line.as_bytes().starts_with(rest) => {
                    return Ok((Mirror::Short { lines: index }, there.len()));
                }
                None => return Ok((Mirror::Changed { line: index + 1 }, there.len())),
            }
        }
        let verdict = match rest.is_empty() {
            true => Mirror::Same,
            false => Mirror::Changed { line: entries.len() + 1 },
        };
        Ok((verdict, there.len()))
    }

    /// Adds what is missing at its end; gives how many lines were there and how many were added.
    pub(crate) fn complete(
        handoff: &Folder,
        entries: &[AuditEntry],
    ) -> Result<Option<(usize, usize)>, FileError> {
        let (Mirror::Short { lines }, bytes) = Mirror::of(handoff, entries)? else {
            return Ok(None);
        };
        let whole: String = entries.iter().map(line).collect();
        handoff.append(TRANSITIONS, &whole.as_bytes()[bytes..])?;
        Ok(Some((lines, entries.len() - lines)))
    }
}

//! One transaction of a workspace: its lock, the log entries that were written since the last one, and the entries
//! that it records itself.
//!
//! While a transaction lives, no other process changes drafts, submissions or files. The lock is released when it is
//! dropped. [`DraftService::begin`](crate::execute) begins one and finishes what a process that died had begun.

use std::sync::Arc;

use assize_gate::{Contract, Places, Policy, TaskId};
use assize_run::AuditEntry;
use assize_types::text::shorten;
use assize_workspace::{DRAFTS, Folder, HANDOFF, Lock};
use tokio::sync::OwnedMutexGuard;

use crate::ledger::{self, Known, Mirror, TRANSITIONS};
use crate::service::{DraftError, DraftService, GATE, file, wrong};
use crate::state::{DraftState, Message, Step, Submission};

/// A workspace with its lock.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// The first field, so that it is released before `known` and others in this process need not wait for it.
    _lock: Lock,
    pub(crate) service: Arc<DraftService>,
    known: OwnedMutexGuard<Known>,
    pub(crate) handoff: Folder,
    pub(crate) drafts: Folder,
}

impl Transaction {
    /// Takes the lock, reads the log entries written since, and completes the log in the workspace; whether that had
    /// to be done.
    pub(crate) async fn open(
        service: &Arc<DraftService>,
    ) -> Result<(Transaction, bool), DraftError> {
        let mut known = service.known.clone().lock_owned().await;
        let lock = service.lock("lock".to_owned()).await?;
        tracing::trace!(target: "assize_draft::lock", workspace = service.subject());
        let from_start = known.state.last == 0;
        let entries = known.catch_up(&service.ledger).await?;
        let handoff = service.workspace.root().folder(HANDOFF).map_err(file(HANDOFF))?;
        let drafts = handoff.folder(DRAFTS).map_err(file(format!("{HANDOFF}/{DRAFTS}")))?;
        let service = Arc::clone(service);
        let mut transaction = Transaction { _lock: lock, service, known, handoff, drafts };
        let repaired = transaction.repair_log(from_start.then_some(entries)).await?;
        Ok((transaction, repaired))
    }

    pub(crate) fn state(&self) -> &DraftState {
        &self.known.state
    }

    /// Records a step, in the store and in the workspace; gives the number of its entry.
    pub(crate) async fn record(&mut self, by: &str, step: Step) -> Result<u64, DraftError> {
        // A caller that is cancelled between the store and the workspace leaves the length unknown: the next
        // transaction completes the log in the workspace.
        let length = self.known.log_length.take();
        let entry = self.service.ledger.record(by, &step).await?;
        let id = entry.id;
        // The store may have written the entry of a cancelled caller only now, before this one. A store numbers its
        // entries without gaps, so that only a gap has to be looked into.
        let entries = match id == self.known.state.last + 1 {
            true => vec![entry],
            false => self.service.ledger.entries(self.known.state.last).await?,
        };
        let mut lines = String::new();
        for entry in &entries {
            self.known.state.take(entry);
            lines.push_str(&ledger::line(entry));
        }
        match self.handoff.append(TRANSITIONS, lines.as_bytes()) {
            Ok(()) => self.known.log_length = length.map(|length| length + lines.len() as u64),
            // The entry is in the store, which decides.
            Err(error) => {
                tracing::warn!(%error, "the log in the workspace cannot be written to");
            }
        }
        Ok(id)
    }

    /// Completes the log in the workspace where it is not as long as it should be: a process may have died before it
    /// wrote to it, or a user cleaned up. `all` are all entries, where they were just read.
    async fn repair_log(&mut self, all: Option<Vec<AuditEntry>>) -> Result<bool, DraftError> {
        let length = || -> Result<u64, DraftError> {
            let there = self.handoff.stat(TRANSITIONS).map_err(file(TRANSITIONS))?;
            Ok(there.map_or(0, |(length, _)| length))
        };
        if self.known.log_length == Some(length()?) {
            return Ok(false);
        }
        let entries = match all {
            Some(entries) => entries,
            None => self.service.ledger.entries(0).await?,
        };
        let repaired = Mirror::repair(&self.handoff, &entries).map_err(file(TRANSITIONS))?;
        let length = length()?;
        self.known.log_length = Some(length);
        if let Some(step) = repaired {
            self.record(GATE, step).await?;
        }
        Ok(true)
    }

    /// The policy of now: the settings under the contract.
    pub(crate) fn policy(&self) -> Result<(Policy, Places), DraftError> {
        let policy = self.service.options.policy.under(Contract::read(&self.handoff)?);
        let places = policy.places()?;
        Ok((policy, places))
    }

    pub(crate) fn submission(&self, id: u64) -> Result<&Submission, DraftError> {
        let found = self.state().submissions.get(&id);
        found.ok_or_else(|| wrong(format!("there is no submission {id} here")))
    }

    /// Refuses a path: logs it as a security event and records it in the audit log.
    pub(crate) async fn refuse(
        &mut self,
        by: &str,
        tool: &str,
        task: Option<&str>,
        path: &str,
        why: String,
    ) -> DraftError {
        let short = |text: &str| shorten(text, 200);
        tracing::error!(
            worker = by,
            tool,
            workspace = %self.service.workspace.path().display(),
            path = %short(path).escape_debug(),
            "SECURITY: path refused: {}",
            short(&why).escape_debug(),
        );
        let step = Step::Refused {
            tool: tool.to_owned(),
            task: task.map(short),
            path: short(path),
            why: shorten(&why, 400),
        };
        match self.record(by, step).await {
            Ok(_) => DraftError::Refused(why),
            Err(error) => error,
        }
    }

    /// The messages that the worker of a task has not had yet; this marks them as delivered.
    pub(crate) async fn messages(&mut self, task: &TaskId) -> Result<Vec<Message>, DraftError> {
        let pending = self.state().pending.iter().filter(|(_, message)| message.task_id == *task);
        let (ids, messages): (Vec<u64>, Vec<Message>) =
            pending.map(|(id, message)| (*id, message.clone())).unzip();
        if let Some(up_to) = ids.last().copied() {
            self.record(GATE, Step::Told { task: task.clone(), up_to }).await?;
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use assize_run::{NewAuditEntry, Store};
    use assize_store::{Access, Durability, SqliteStore};

    use super::*;
    use crate::service::Options;

    /// The store writes the entry of a cancelled caller after the next transaction has read the log.
    #[tokio::test]
    async fn late_entry_of_a_cancelled_caller_comes_before_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let (repo, state) = (folder.path().join("repo"), folder.path().join("state"));
        std::fs::create_dir_all(&repo).unwrap();
        let path = state.join("store.db");
        let store = SqliteStore::open(&path, Access::Write(Durability::ProcessCrash)).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let options = Options::default();
        let service = DraftService::open(&repo, &state, store.clone(), options).unwrap();
        let (mut transaction, _) = Transaction::open(&service).await.unwrap();
        transaction.record("ann", Step::Switched { on: true }).await.unwrap();
        let (action, detail) = Step::Switched { on: false }.parts();
        let (actor, subject) = ("cancelled".to_owned(), service.subject().to_owned());
        store.audit(NewAuditEntry { actor, action, subject, detail }).await.unwrap();
        transaction
            .record("ann", Step::Expired { draft: "a".to_owned(), task: "t".parse().unwrap() })
            .await
            .unwrap();
        assert!(transaction.state().off);
        assert_eq!((transaction.state().last, transaction.state().entries), (3, 3));
        drop(transaction);
        assert_eq!(service.compare_logs().await.unwrap(), Mirror::Same);
    }
}

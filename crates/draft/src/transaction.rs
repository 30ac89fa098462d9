//! A transaction on a workspace: it holds the workspace lock, reads new log entries, and records further entries.
//!
//! While a transaction exists, no other process changes drafts or submissions or applies changes. Dropping the
//! transaction releases the lock. [`DraftService::begin`](crate::execute) starts a transaction and finishes the file
//! changes of processes that died.

use std::sync::Arc;

use assize_gate::{Contract, PathRules, Policy, TaskId};
use assize_run::AuditEntry;
use assize_types::text::shorten;
use assize_workspace::{DRAFTS, FolderHandle, FolderLock, HANDOFF};
use tokio::sync::OwnedMutexGuard;

use crate::service::{DraftError, DraftService, GATE, file_error, invalid_request};
use crate::state::{AgentMessage, DraftState, DraftStep, Submission};
use crate::workspace_log::{self, LogCache, LogComparison, TRANSITIONS};

/// Transaction on a workspace, which is locked until the transaction is dropped.
#[derive(Debug)]
pub(crate) struct Transaction {
    /// Workspace lock. As the first field, it is dropped before `log_cache`. Another task of this process that waits
    /// for `log_cache` therefore finds the workspace lock free.
    _lock: FolderLock,
    pub(crate) service: Arc<DraftService>,
    log_cache: OwnedMutexGuard<LogCache>,
    pub(crate) handoff: FolderHandle,
    pub(crate) drafts: FolderHandle,
}

impl Transaction {
    /// Acquires the workspace lock, reads new log entries, and repairs the log file in the workspace. Also returns
    /// whether the log file had to be checked, because its size was unknown or unexpected.
    pub(crate) async fn open(
        service: &Arc<DraftService>,
    ) -> Result<(Transaction, bool), DraftError> {
        let mut known = service.log_cache.clone().lock_owned().await;
        let lock = service.lock("lock".to_owned()).await?;
        tracing::trace!(target: "assize_draft::lock", workspace = service.subject());
        let from_start = known.state.last_entry == 0;
        let entries = known.catch_up(&service.log).await?;
        let handoff =
            service.workspace.root().open_or_create(HANDOFF).map_err(file_error(HANDOFF))?;
        let drafts =
            handoff.open_or_create(DRAFTS).map_err(file_error(format!("{HANDOFF}/{DRAFTS}")))?;
        let service = Arc::clone(service);
        let mut transaction =
            Transaction { _lock: lock, service, log_cache: known, handoff, drafts };
        let repaired = transaction.repair_log(from_start.then_some(entries)).await?;
        Ok((transaction, repaired))
    }

    pub(crate) fn state(&self) -> &DraftState {
        &self.log_cache.state
    }

    /// Records a step in the store and in the log file of the workspace; returns the id of its log entry.
    pub(crate) async fn record(&mut self, by: &str, step: DraftStep) -> Result<u64, DraftError> {
        // If the caller is cancelled after the write to the store but before the write to the log file, the size of the
        // log file stays unknown, and the next transaction completes the log file.
        let length = self.log_cache.log_length.take();
        let entry = self.service.log.record(by, &step).await?;
        let id = entry.id;
        // The store may have written the entry of a cancelled caller just before this entry. A store assigns
        // consecutive ids, so the log is read again only if an id was skipped.
        let entries = match id == self.log_cache.state.last_entry + 1 {
            true => vec![entry],
            false => self.service.log.entries(self.log_cache.state.last_entry).await?,
        };
        let mut lines = String::new();
        for entry in &entries {
            self.log_cache.state.apply_entry(entry);
            lines.push_str(&workspace_log::line(entry));
        }
        match self.handoff.append(TRANSITIONS, lines.as_bytes()) {
            Ok(()) => self.log_cache.log_length = length.map(|length| length + lines.len() as u64),
            // The call succeeds, because the entry is in the store, which is authoritative.
            Err(error) => {
                tracing::warn!(%error, "cannot append to `{HANDOFF}/{TRANSITIONS}` in the workspace");
            }
        }
        Ok(id)
    }

    /// Repairs the log file in the workspace if its size is unknown or unexpected: a process may have died before it
    /// wrote a line, or a user may have deleted the file. `all` contains all log entries if they were just read.
    /// Returns whether the size was unknown or unexpected.
    async fn repair_log(&mut self, all: Option<Vec<AuditEntry>>) -> Result<bool, DraftError> {
        let length = || -> Result<u64, DraftError> {
            let found = self.handoff.stat(TRANSITIONS).map_err(file_error(TRANSITIONS))?;
            Ok(found.map_or(0, |(length, _)| length))
        };
        if self.log_cache.log_length == Some(length()?) {
            return Ok(false);
        }
        let entries = match all {
            Some(entries) => entries,
            None => self.service.log.entries(0).await?,
        };
        let repaired =
            LogComparison::repair(&self.handoff, &entries).map_err(file_error(TRANSITIONS))?;
        let length = length()?;
        self.log_cache.log_length = Some(length);
        if let Some(step) = repaired {
            self.record(GATE, step).await?;
        }
        Ok(true)
    }

    /// Returns the current policy (the settings, tightened by the contract of the workspace) and its path rules.
    pub(crate) fn policy(&self) -> Result<(Policy, PathRules), DraftError> {
        let policy = self.service.options.policy.with_contract(Contract::read(&self.handoff)?);
        let places = policy.path_rules()?;
        Ok((policy, places))
    }

    pub(crate) fn submission(&self, id: u64) -> Result<&Submission, DraftError> {
        let found = self.state().submissions.get(&id);
        found.ok_or_else(|| invalid_request(format!("no submission {id} in this workspace")))
    }

    /// Handles a path that is not allowed: logs a security event, records the refusal in the audit log, and returns the
    /// error for the caller.
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
        let step = DraftStep::Refused {
            tool: tool.to_owned(),
            task: task.map(short),
            path: short(path),
            why: shorten(&why, 400),
        };
        match self.record(by, step).await {
            Ok(_) => DraftError::PathRefused(why),
            Err(error) => error,
        }
    }

    /// Returns the undelivered messages for the agent of a task, and records that they are delivered.
    pub(crate) async fn deliver_messages(
        &mut self,
        task: &TaskId,
    ) -> Result<Vec<AgentMessage>, DraftError> {
        let pending = self
            .state()
            .undelivered_messages
            .iter()
            .filter(|(_, message)| message.task_id == *task);
        let (ids, messages): (Vec<u64>, Vec<AgentMessage>) =
            pending.map(|(id, message)| (*id, message.clone())).unzip();
        if let Some(up_to) = ids.last().copied() {
            self.record(GATE, DraftStep::MessagesDelivered { task: task.clone(), up_to }).await?;
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use assize_run::{NewAuditEntry, Store};
    use assize_store::{Access, Durability, SqliteStore};

    use super::*;
    use crate::service::DraftOptions;

    /// The store writes the log entry of a cancelled caller only after the next transaction has read the log.
    #[tokio::test]
    async fn late_log_entry_of_a_cancelled_caller_is_applied_before_the_next_entry() {
        let folder = tempfile::tempdir().unwrap();
        let (repo, state) = (folder.path().join("repo"), folder.path().join("state"));
        std::fs::create_dir_all(&repo).unwrap();
        let path = state.join("store.db");
        let store = SqliteStore::open(&path, Access::Write(Durability::ProcessCrash)).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let options = DraftOptions::default();
        let service = DraftService::open(&repo, &state, store.clone(), options).unwrap();
        let (mut transaction, _) = Transaction::open(&service).await.unwrap();
        transaction.record("ann", DraftStep::Switched { on: true }).await.unwrap();
        let (action, detail) = DraftStep::Switched { on: false }.parts();
        let (actor, subject) = ("cancelled".to_owned(), service.subject().to_owned());
        store.audit(NewAuditEntry { actor, action, subject, detail }).await.unwrap();
        transaction
            .record("ann", DraftStep::Expired { draft: "a".to_owned(), task: "t".parse().unwrap() })
            .await
            .unwrap();
        assert!(transaction.state().tools_off);
        assert_eq!((transaction.state().last_entry, transaction.state().entries), (3, 3));
        drop(transaction);
        assert_eq!(service.compare_logs().await.unwrap(), LogComparison::Same);
    }
}

//! Cleanup: deletes stored file contents of old submissions, abandoned drafts, and temporary files of dead processes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use assize_gate::{GateVerdict, ReasonEffect};
use assize_types::Fingerprint;
use assize_workspace::DRAFTS;
use schemars::JsonSchema;
use serde::Serialize;

use crate::execute::{Decision, STAGING};
use crate::service::{DraftError, DraftService, file_error};
use crate::state::{DraftStep, OpenDraft, Submission, SubmissionStage};
use crate::transaction::Transaction;

/// Numbers of items that a cleanup of old drafts deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SweepResult {
    /// Number of submissions whose stored file contents were deleted.
    pub submissions: usize,
    /// Number of abandoned drafts that were deleted.
    pub drafts: usize,
    /// Number of stored file contents that were deleted.
    pub copies: usize,
}

impl DraftService {
    /// Deletes the stored file contents of submissions that were closed (accepted, rejected or undone) more than `keep`
    /// ago, and unsubmitted drafts that were last requested and last written more than `keep` ago. `now` is in
    /// milliseconds since 1970.
    pub async fn sweep(
        self: &Arc<Self>,
        by: &str,
        now: u64,
        keep: Duration,
    ) -> Result<SweepResult, DraftError> {
        let mut transaction = self.begin().await?;
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let old = |at: u64| at.saturating_add(keep) <= now;
        let abandoned = transaction.abandoned(&old);
        let settled = |s: &&Submission| {
            let settled = matches!(
                s.stage,
                SubmissionStage::Accepted | SubmissionStage::Rejected | SubmissionStage::Undone
            );
            !s.contents_deleted && settled && old(s.settled)
        };
        let submissions: Vec<u64> =
            transaction.state().submissions.values().filter(settled).map(|s| s.id).collect();
        for draft in &abandoned {
            transaction.expire(by, draft).await?;
        }
        let copies = self
            .contents
            .remove_unused(&transaction.needed_contents(&submissions))
            .map_err(file_error("copies folder"))?;
        let cleared =
            SweepResult { submissions: submissions.len(), drafts: abandoned.len(), copies };
        if !submissions.is_empty() || copies > 0 {
            transaction.record(by, DraftStep::ContentsDeleted { submissions, copies }).await?;
        }
        transaction.remove_temporary_files()?;
        Ok(cleared)
    }
}

/// Result of emptying the drafts folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EmptyResult {
    /// Number of waiting submissions that were rejected.
    pub rejected: usize,
    /// Number of deleted drafts that had not been submitted.
    pub drafts: usize,
    /// Number of other files in the drafts folder that were deleted.
    pub files: usize,
    /// Names of subfolders that were not deleted. Drafts are files, so Assize did not create these subfolders.
    pub left: Vec<String>,
}

impl DraftService {
    /// Empties the drafts folder: rejects every waiting submission, and deletes every draft and every other file.
    /// Submissions that are already decided stay in the log, and accepted submissions can still be undone.
    ///
    /// # Errors
    /// If a submission is being verified, or a file cannot be deleted.
    pub async fn empty(self: &Arc<Self>, by: &str) -> Result<EmptyResult, DraftError> {
        let mut transaction = self.begin().await?;
        let submissions = transaction.state().submissions.values();
        let waiting: Vec<Submission> =
            submissions.filter(|s| s.stage.is_undecided()).cloned().collect();
        let locks = waiting.iter().map(|submission| self.reviewer_decision_lock(submission.id));
        // Acquire the decision locks of all waiting submissions before anything is deleted.
        let _locks = locks.collect::<Result<Vec<_>, _>>()?;
        for submission in &waiting {
            let message = "a user emptied the drafts folder";
            let reason = submission.reason(ReasonEffect::Reject, "reviewer", message);
            let decision = Decision::by_reviewer(
                submission,
                GateVerdict::Rejected,
                vec![reason],
                submission.policy,
            );
            transaction.reject_or_escalate(by, submission, decision).await?;
        }
        let open: Vec<OpenDraft> = transaction.state().drafts.values().cloned().collect();
        for draft in &open {
            transaction.expire(by, draft).await?;
        }
        transaction.drafts.discard_unfinished().map_err(file_error(DRAFTS))?;
        let (mut files, mut left) = (0, Vec::new());
        for name in transaction.drafts.names().map_err(file_error(DRAFTS))? {
            match transaction.drafts.remove_without_sync(&name).map_err(file_error(&name))? {
                true => files += 1,
                false => left.push(name),
            }
        }
        Ok(EmptyResult { rejected: waiting.len(), drafts: open.len(), files, left })
    }
}

impl Transaction {
    /// Deletes a draft that was never submitted.
    async fn expire(&mut self, by: &str, draft: &OpenDraft) -> Result<(), DraftError> {
        let OpenDraft { name, task, .. } = draft;
        self.record(by, DraftStep::Expired { draft: name.clone(), task: task.clone() }).await?;
        self.drafts.remove(name).map_err(file_error(name))
    }

    /// Returns the abandoned drafts: drafts that are not submitted, and whose last request and last write are old.
    /// `old` returns whether a time (in milliseconds since 1970) counts as old.
    fn abandoned(&self, old: &dyn Fn(u64) -> bool) -> Vec<OpenDraft> {
        let idle = |draft: &&OpenDraft| {
            let written = || self.drafts.stat(&draft.name).ok().flatten();
            draft.submission.is_none() && old(draft.since) && written().is_none_or(|w| old(w.1))
        };
        self.state().drafts.values().filter(idle).cloned().collect()
    }

    /// Returns the hashes of the stored file contents that are still needed after the contents of the submissions in
    /// `deleted` are deleted.
    fn needed_contents(&self, deleted: &[u64]) -> BTreeSet<Fingerprint> {
        let submissions = self.state().submissions.values();
        let needs = |s: &Submission| {
            let proposed = s.files.iter().flat_map(|f| [f.before, Some(f.after)]);
            let replaced = s.replaced.iter().flat_map(|f| [f.before, f.after]);
            proposed.chain(replaced).flatten().chain([s.policy]).collect::<Vec<_>>()
        };
        submissions
            .filter(|s| !s.contents_deleted && !deleted.contains(&s.id))
            .flat_map(needs)
            .chain(self.state().drafts.values().filter_map(|draft| draft.before))
            .collect()
    }

    /// Deletes temporary files of dead processes. This transaction holds the workspace lock, so the only temporary
    /// files that another process can be using are workspace copies of running verifications.
    fn remove_temporary_files(&self) -> Result<(), DraftError> {
        self.drafts.discard_unfinished().map_err(file_error(DRAFTS))?;
        if let Ok(staging) = self.handoff.existing(STAGING) {
            for name in staging.names().map_err(file_error(STAGING))? {
                staging.remove_without_sync(&name).map_err(file_error(name))?;
            }
        }
        let waits = |id: u64| {
            let submission = self.state().submissions.get(&id);
            submission.is_some_and(|submission| submission.stage == SubmissionStage::Submitted)
        };
        let service = &self.service;
        for name in service.state_folder.names().map_err(file_error("state folder"))? {
            // The workspace copy of a verification is in use while a process holds the submission's decision lock.
            let copy = name.strip_prefix("verify-").and_then(|rest| rest.split('-').next());
            if let Some(id) = copy.and_then(|id| id.parse().ok())
                && let Some(_lock) = service.try_decision_lock(id)?
            {
                let _ = std::fs::remove_dir_all(service.state_folder_path.join(&name));
            }
            let number = name.strip_prefix("deciding-").and_then(|id| id.parse().ok());
            if number.is_some_and(|id| !waits(id)) {
                service.state_folder.remove_without_sync(&name).map_err(file_error(&name))?;
            }
        }
        Ok(())
    }
}

//! Actions of reviewers: accept, reject and undo submissions, and switch the draft tools on and off.

use std::sync::Arc;

use assize_gate::{GateVerdict, ReasonEffect};
use assize_types::Fingerprint;
use assize_types::text::shorten;
use assize_workspace::{FileReplacement, FolderLock};

use crate::execute::Decision;
use crate::service::{DraftError, DraftService, file_error, invalid_request};
use crate::state::{DraftStep, ProposedFile, Submission, SubmissionStage};
use crate::transaction::Transaction;

/// Whether a reviewer's acceptance overwrites files that have changed since their drafts were created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// The acceptance fails if a file has changed since its draft was created.
    No,
    /// The acceptance overwrites the files even if they have changed since their drafts were created.
    Yes,
}

impl DraftService {
    /// Accepts a waiting submission on behalf of a reviewer.
    ///
    /// # Errors
    /// If the submission does not wait for a decision any more, or, with [`Force::No`], if a file has changed since its
    /// draft was created.
    pub async fn accept(
        self: &Arc<Self>,
        by: &str,
        id: u64,
        force: Force,
    ) -> Result<(), DraftError> {
        let _lock = self.reviewer_decision_lock(id)?;
        let mut transaction = self.begin().await?;
        let submission = transaction.undecided_submission(id)?;
        let (policy, _) = transaction.policy()?;
        let mut files = Vec::new();
        for proposed in &submission.files {
            let before = transaction.replaced(proposed, force)?;
            let after = Some(proposed.after);
            if before != after {
                files.push(FileReplacement { path: proposed.path.clone(), before, after });
            }
        }
        let (reasons, policy) = (submission.reasons.clone(), policy.fingerprint());
        let decision = Decision::by_reviewer(&submission, GateVerdict::Accepted, reasons, policy);
        match transaction.accept(by, &submission, decision, files).await? {
            None => Ok(()),
            Some(why) => Err(DraftError::Conflict(why)),
        }
    }

    /// Rejects a waiting submission on behalf of a reviewer.
    pub async fn reject(self: &Arc<Self>, by: &str, id: u64, why: &str) -> Result<(), DraftError> {
        let _lock = self.reviewer_decision_lock(id)?;
        let mut transaction = self.begin().await?;
        let submission = transaction.undecided_submission(id)?;
        let message = match why.trim() {
            "" => "a reviewer rejected the change".to_owned(),
            why => format!("a reviewer rejected the change: {}", shorten(why, 2000)),
        };
        let reason = submission.reason(ReasonEffect::Reject, "reviewer", message);
        let reason = reason.with_advice("follow the reviewer's comment");
        // A reviewer can reject a submission even if the contract is invalid.
        let policy = transaction.policy().map_or(submission.policy, |(now, _)| now.fingerprint());
        // The reviewer's reason replaces the reasons of the gate.
        let decision =
            Decision::by_reviewer(&submission, GateVerdict::Rejected, vec![reason], policy);
        transaction.reject_or_escalate(by, &submission, decision).await
    }

    /// Undoes an accepted submission: restores the previous content of its files byte for byte.
    ///
    /// # Errors
    /// If the submission is not accepted, or its files have changed since it was applied.
    pub async fn undo(self: &Arc<Self>, by: &str, id: u64) -> Result<(), DraftError> {
        let mut transaction = self.begin().await?;
        let submission = transaction.submission(id)?;
        if submission.stage != SubmissionStage::Accepted {
            let stage = submission.stage.name();
            let why = format!("cannot undo submission {id}: it is {stage}, not accepted");
            return Err(invalid_request(why));
        }
        if submission.contents_deleted {
            let why = format!("cannot undo submission {id}: the old file contents were deleted");
            return Err(invalid_request(why));
        }
        transaction.undo(by, id).await
    }

    /// Switches the draft tools on or off; returns whether the state of the tools has changed.
    pub async fn switch(self: &Arc<Self>, by: &str, on: bool) -> Result<bool, DraftError> {
        let mut transaction = self.begin().await?;
        let changes = transaction.state().tools_off == on;
        if changes {
            transaction.record(by, DraftStep::Switched { on }).await?;
        }
        Ok(changes)
    }

    /// Acquires the decision lock of a submission for a reviewer; fails while the submission is being verified.
    pub(crate) fn reviewer_decision_lock(&self, id: u64) -> Result<FolderLock, DraftError> {
        let verified = || format!("submission {id} is being verified; try again later");
        self.try_decision_lock(id)?.ok_or_else(|| invalid_request(verified()))
    }
}

impl Transaction {
    /// Returns a submission that waits for a decision; fails if the submission is already decided.
    fn undecided_submission(&self, id: u64) -> Result<Submission, DraftError> {
        let submission = self.submission(id)?;
        if submission.stage.is_undecided() {
            return Ok(submission.clone());
        }
        let stage = match submission.stage {
            SubmissionStage::Accepting => "being applied",
            SubmissionStage::Undoing => "being undone",
            stage => stage.name(),
        };
        Err(invalid_request(format!("submission {id} is already {stage}")))
    }

    /// Returns the hash of the file content that an accepted draft replaces: the content that the draft was created
    /// from, or, with [`Force::Yes`], the current content.
    fn replaced(
        &self,
        proposed: &ProposedFile,
        force: Force,
    ) -> Result<Option<Fingerprint>, DraftError> {
        let path = self.path(&proposed.path)?;
        let now =
            self.service.workspace.find(&path, u64::MAX - 1).map_err(file_error(&proposed.path))?;
        let hash = now.as_ref().map(|original| original.sha256);
        match (now, force) {
            (_, Force::No) if hash != proposed.before => Err(DraftError::Conflict(format!(
                "`{}` has changed since its draft was created",
                proposed.path
            ))),
            // Store a copy of the current content, so that undo can restore it.
            (Some(original), Force::Yes) => {
                self.service.store_content(&original.bytes)?;
                Ok(hash)
            }
            _ => Ok(hash),
        }
    }
}

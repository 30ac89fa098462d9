//! What reviewers do: accept, reject and undo submissions, and switch the draft tools off and on.

use std::sync::Arc;

use assize_gate::{Effect, Verdict};
use assize_types::Fingerprint;
use assize_types::text::shorten;
use assize_workspace::{Lock, Replacing};

use crate::execute::Decision;
use crate::service::{DraftError, DraftService, file, wrong};
use crate::state::{Proposed, Stage, Step, Submission};
use crate::transaction::Transaction;

/// Whether a reviewer accepts a draft although its file has changed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    No,
    /// The draft replaces whatever is there now.
    Yes,
}

impl DraftService {
    /// Accepts a waiting submission, on behalf of a reviewer.
    ///
    /// # Errors
    /// When it does not wait any more, or the files have changed.
    pub async fn accept(
        self: &Arc<Self>,
        by: &str,
        id: u64,
        force: Force,
    ) -> Result<(), DraftError> {
        let _right = self.reviewers_right(id)?;
        let mut transaction = self.begin().await?;
        let submission = transaction.waiting(id)?;
        let (policy, _) = transaction.policy()?;
        let mut files = Vec::new();
        for proposed in &submission.files {
            let before = transaction.replaced(proposed, force)?;
            let after = Some(proposed.after);
            if before != after {
                files.push(Replacing { path: proposed.path.clone(), before, after });
            }
        }
        let (reasons, policy) = (submission.reasons.clone(), policy.fingerprint());
        let decision = Decision::by_reviewer(&submission, Verdict::Accepted, reasons, policy);
        match transaction.accept(by, &submission, decision, files).await? {
            None => Ok(()),
            Some(why) => Err(DraftError::Conflict(why)),
        }
    }

    /// Rejects a waiting submission, on behalf of a reviewer.
    pub async fn reject(self: &Arc<Self>, by: &str, id: u64, why: &str) -> Result<(), DraftError> {
        let _right = self.reviewers_right(id)?;
        let mut transaction = self.begin().await?;
        let submission = transaction.waiting(id)?;
        let message = match why.trim() {
            "" => "a person rejected it".to_owned(),
            why => format!("a person rejected it: {}", shorten(why, 2000)),
        };
        let reason = submission.reason(Effect::Reject, "person", message);
        let reason = reason.advise("do what they say");
        // An invalid contract does not keep a reviewer from rejecting.
        let policy = transaction.policy().map_or(submission.policy, |(now, _)| now.fingerprint());
        // The reviewer's reason replaces the gate's doubts.
        let decision = Decision::by_reviewer(&submission, Verdict::Rejected, vec![reason], policy);
        transaction.settle(by, &submission, decision).await
    }

    /// Rolls back an accepted submission: the files are again what they were, byte for byte.
    ///
    /// # Errors
    /// When it was not accepted, or the files have changed since.
    pub async fn undo(self: &Arc<Self>, by: &str, id: u64) -> Result<(), DraftError> {
        let mut transaction = self.begin().await?;
        let submission = transaction.submission(id)?;
        if submission.stage != Stage::Accepted {
            let stage = submission.stage.name();
            return Err(wrong(format!("submission {id} is {stage}, not accepted")));
        }
        if submission.swept {
            let why = format!("what was before submission {id} is not kept any more");
            return Err(wrong(why));
        }
        transaction.undo(by, id).await
    }

    /// Switches the draft tools on or off; whether that changed anything.
    pub async fn switch(self: &Arc<Self>, by: &str, on: bool) -> Result<bool, DraftError> {
        let mut transaction = self.begin().await?;
        let changes = transaction.state().off == on;
        if changes {
            transaction.record(by, Step::Switched { on }).await?;
        }
        Ok(changes)
    }

    /// A reviewer's right to decide on a submission.
    pub(crate) fn reviewers_right(&self, id: u64) -> Result<Lock, DraftError> {
        let verified = || format!("submission {id} is being verified; wait until that is done");
        self.right_to_decide(id)?.ok_or_else(|| wrong(verified()))
    }
}

impl Transaction {
    /// A submission that a reviewer can decide on.
    fn waiting(&self, id: u64) -> Result<Submission, DraftError> {
        let submission = self.submission(id)?;
        if submission.stage.waits() {
            return Ok(submission.clone());
        }
        let stage = submission.stage.name();
        Err(wrong(format!("submission {id} is {stage}, and waits for nobody")))
    }

    /// What an accepted draft replaces: the file that it was made from, or whatever is there now.
    fn replaced(
        &self,
        proposed: &Proposed,
        force: Force,
    ) -> Result<Option<Fingerprint>, DraftError> {
        let path = self.path(&proposed.path)?;
        let now = self.service.workspace.find(&path, u64::MAX - 1).map_err(file(&proposed.path))?;
        let hash = now.as_ref().map(|original| original.sha256);
        match (now, force) {
            (_, Force::No) if hash != proposed.before => Err(DraftError::Conflict(format!(
                "`{}` has changed since the draft was made from it",
                proposed.path
            ))),
            // So that it can be restored.
            (Some(original), Force::Yes) => {
                self.service.keep(&original.bytes)?;
                Ok(hash)
            }
            _ => Ok(hash),
        }
    }
}

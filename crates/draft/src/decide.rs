//! The gate's decision on a submission.
//!
//! A submission that needs no tests is decided in the transaction that recorded it. Tests run without the workspace
//! lock. After the tests, a second transaction repeats all checks and decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_config::Review;
use assize_gate::{
    ChangedFile, GateVerdict, PathRules, Policy, ProposedChange, Reason, ReasonEffect, VerifyResult,
};
use assize_types::Fingerprint;
use assize_workspace::{FolderLock, WorkspacePath};
use tokio_util::sync::CancellationToken;

use crate::execute::Decision;
use crate::service::{DraftError, DraftService, invalid_request};
use crate::state::{ProposedFile, Submission, SubmissionStage};
use crate::transaction::Transaction;

/// Result of the project's tests on a submission: reasons to reject or escalate the submission, and the result of the
/// last verification command.
type Tested = (Vec<Reason>, Option<VerifyResult>);

impl DraftService {
    /// Decides on a submission and returns the transaction in which the decision was made. `right` is the decision lock
    /// of the submission. It may be `None` only if `transaction` itself recorded the submission; this method then
    /// acquires the lock before it runs tests. `gone` is cancelled when the agent stops waiting for the response.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        mut transaction: Transaction,
        mut right: Option<FolderLock>,
        id: u64,
        gone: &CancellationToken,
    ) -> Result<Transaction, DraftError> {
        let (submission, policy) = loop {
            let Some(untested) = transaction.decide(id, None, gone).await? else {
                return Ok(transaction);
            };
            if right.is_none() {
                right = self.try_decision_lock(id)?;
            }
            if right.is_some() {
                break untested;
            }
            drop(transaction);
            right = Some(self.lock(decision_lock_name(id)).await?);
            transaction = self.begin().await?;
        };
        transaction.write_submission(&submission);
        // Release the workspace lock, because the tests may take long.
        drop(transaction);
        let tested = self.test(&submission, &policy).await;
        // During the tests, the files, the contract or the on/off switch of the draft tools may have changed. Therefore
        // all checks are repeated.
        let mut transaction = self.begin().await?;
        transaction.decide(id, Some(tested), gone).await?;
        Ok(transaction)
    }

    /// Decides on a submission that an earlier transaction recorded. Waits while another process is deciding on the
    /// submission.
    pub(crate) async fn decide_recorded(
        self: &Arc<Self>,
        id: u64,
        gone: &CancellationToken,
    ) -> Result<Transaction, DraftError> {
        let right = self.lock(decision_lock_name(id)).await?;
        let transaction = self.begin().await?;
        self.decide(transaction, Some(right), id, gone).await
    }

    /// Tries to acquire the decision lock of a submission; returns `None` if another process holds the lock.
    pub(crate) fn try_decision_lock(&self, id: u64) -> Result<Option<FolderLock>, DraftError> {
        self.try_lock(&decision_lock_name(id))
    }

    /// Runs the project's tests on a submission.
    async fn test(&self, submission: &Submission, policy: &Policy) -> Tested {
        let changed = |file: &ProposedFile| {
            Ok(ChangedFile {
                path: file.path.clone(),
                before: self.old_content(file.before)?,
                after: self.stored_content(file.after)?,
            })
        };
        let files: Result<Vec<ChangedFile>, DraftError> =
            submission.files.iter().map(changed).collect();
        match files {
            Ok(files) => self.verification.run(submission.id, &files, policy).await,
            Err(error) => {
                let message = format!("the change could not be verified: {error}");
                (vec![submission.reason(ReasonEffect::Escalate, "verify", message)], None)
            }
        }
    }

    /// Starts a background task for every undecided submission. The task decides on the submission, unless another
    /// process is already deciding on it. A submission stays undecided if the process that received it dies before the
    /// decision.
    pub async fn decide_orphaned_in_background(self: &Arc<Self>) -> Result<(), DraftError> {
        let state = self.state().await?;
        let left = state.submissions.values().filter(|s| s.stage == SubmissionStage::Submitted);
        for id in left.map(|submission| submission.id) {
            let service = Arc::clone(self);
            self.decision_tasks.spawn(async move {
                if let Err(error) = service.decide_orphaned(id).await {
                    tracing::warn!(submission = id, %error, "cannot decide on a submission whose verification was interrupted");
                }
            });
        }
        Ok(())
    }

    async fn decide_orphaned(self: &Arc<Self>, id: u64) -> Result<(), DraftError> {
        if let Some(right) = self.try_decision_lock(id)? {
            let transaction = self.begin().await?;
            let gone = CancellationToken::new();
            gone.cancel();
            self.decide(transaction, Some(right), id, &gone).await?;
        }
        Ok(())
    }

    /// Waits until all decisions that this process has started are finished.
    pub async fn wait_for_decisions(&self) {
        self.decision_tasks.close();
        self.decision_tasks.wait().await;
        self.decision_tasks.reopen();
    }
}

/// Name of a submission's decision lock.
fn decision_lock_name(id: u64) -> String {
    format!("deciding-{id}")
}

/// Derives the decision on a submission from the reasons that the checks and tests found. `reported` is true if the
/// response to the agent's call reports the decision.
fn decision(
    submission: &Submission,
    (review, policy): (Review, Fingerprint),
    mut reasons: Vec<Reason>,
    verified: Option<VerifyResult>,
    reported: bool,
) -> Decision {
    if review == Review::Always && reasons.is_empty() {
        let message = "every change in this workspace needs a reviewer";
        reasons.push(submission.reason(ReasonEffect::Escalate, "review", message));
    }
    let verdict = GateVerdict::of(&reasons, review);
    let advice = match (review, verdict) {
        (Review::Never, _) => Some("reviews are disabled: reduce the change, or drop it"),
        (_, GateVerdict::Rejected) => {
            Some("fix the other findings and submit again; a reviewer then decides on this finding")
        }
        _ => None,
    };
    if let Some(advice) = advice {
        for reason in reasons.iter_mut().filter(|reason| reason.effect == ReasonEffect::Escalate) {
            reason.what_to_do = advice.to_owned();
        }
    }
    Decision { verdict, reasons, policy, review, verified, reported_in_response: reported }
}

impl Transaction {
    /// Decides on a waiting submission and executes the decision. If the project's tests must run first, makes no
    /// decision and returns the submission and the policy.
    async fn decide(
        &mut self,
        id: u64,
        tested: Option<Tested>,
        gone: &CancellationToken,
    ) -> Result<Option<(Submission, Policy)>, DraftError> {
        let submission = self.submission(id)?.clone();
        if submission.stage != SubmissionStage::Submitted {
            return Ok(None);
        }
        let (policy, places) = self.policy()?;
        let mut reasons = self.check(&submission, &policy, &places)?;
        let is_final = |reason: &Reason| {
            reason.effect == ReasonEffect::Reject
                || ["conflict", "symlink"].contains(&&*reason.rule)
        };
        if tested.is_none() && !policy.verify.is_empty() && !reasons.iter().any(is_final) {
            return Ok(Some((submission, policy)));
        }
        let (found, verified) = tested.unwrap_or_default();
        reasons.extend(found);
        // While the draft tools are off, a reviewer decides, even if the settings disable reviews.
        let review = if self.state().tools_off { Review::Escalated } else { policy.review };
        let reported = !gone.is_cancelled();
        let by = (review, policy.fingerprint());
        self.execute(id, decision(&submission, by, reasons, verified, reported)).await?;
        Ok(None)
    }

    pub(crate) fn path(&self, path: &str) -> Result<WorkspacePath, DraftError> {
        self.service.workspace.parse_path(path).map_err(invalid_request)
    }

    /// Runs all checks except the tests on a submission; returns the reasons to reject or escalate it.
    fn check(
        &self,
        submission: &Submission,
        policy: &Policy,
        places: &PathRules,
    ) -> Result<Vec<Reason>, DraftError> {
        let mut reasons = Vec::new();
        if policy.task.as_deref().is_some_and(|only| only != submission.task.as_str()) {
            let message =
                "the contract of the workspace is for a different task than this submission";
            let reason = submission.reason(ReasonEffect::Reject, "path/not-allowed", message);
            reasons.push(reason.with_advice("work on the task of the contract"));
        }
        for proposed in &submission.files {
            match self.change_of(proposed) {
                Ok(change) => reasons.extend(assize_gate::check(&change, policy, places)?),
                // A change that cannot be checked must not be accepted, so a reviewer decides.
                Err(error) => {
                    let message = format!("the change cannot be checked: {error}");
                    reasons.push(submission.reason(ReasonEffect::Escalate, "unreadable", message));
                }
            }
        }
        reasons.extend(self.too_many_files(submission, policy));
        if self.state().tools_off {
            let message = "the draft tools are off: the change is kept as a proposed patch";
            let reason = submission.reason(ReasonEffect::Escalate, "off", message);
            let advice = format!("`assize gate accept {}` applies the change", submission.id);
            reasons.push(reason.with_advice(advice));
        }
        let names: BTreeSet<String> =
            submission.files.iter().map(|file| file.path.to_lowercase()).collect();
        if names.len() < submission.files.len() {
            let message =
                "two files of the submission have the same path on case-insensitive file systems";
            reasons.push(submission.reason(ReasonEffect::Escalate, "look-alike", message));
        }
        if policy.fingerprint() != submission.policy {
            let message = "the gate's policy has changed since the submission";
            reasons.push(submission.reason(ReasonEffect::Escalate, "policy", message));
        }
        Ok(reasons)
    }

    /// Returns a reason to escalate if the task changes more files than the policy allows. The files of the task's
    /// accepted submissions count, too.
    fn too_many_files(&self, submission: &Submission, policy: &Policy) -> Option<Reason> {
        let earlier = self.state().submissions.values().filter(|earlier| {
            earlier.task == submission.task && earlier.stage == SubmissionStage::Accepted
        });
        let files: BTreeSet<&str> = earlier
            .flat_map(|earlier| &earlier.files)
            .chain(&submission.files)
            .map(|file| file.path.as_str())
            .collect();
        let (count, most) = (files.len(), policy.max_files);
        let message = format!("the task changes {count} files (limit: {most})");
        (count > most).then(|| submission.reason(ReasonEffect::Escalate, "scope/files", message))
    }

    /// Builds the input of the gate's checks for one file: the proposed content, and the file that it would replace.
    fn change_of(&self, proposed: &ProposedFile) -> Result<ProposedChange, DraftError> {
        let (path, service) = (self.path(&proposed.path)?, &self.service);
        let is_new = proposed.before.is_none();
        let now = service.workspace.find(&path, u64::MAX - 1);
        Ok(ProposedChange {
            base: proposed.before.map(|hash| service.stored_content(hash)).transpose()?,
            draft: service.stored_content(proposed.after)?,
            draft_mode: proposed.draft_mode,
            mode: now.as_ref().ok().and_then(Option::as_ref).map(|original| original.mode),
            current_hash: now.map(|original| original.map(|original| original.sha256)),
            ignored_by: service.workspace.ignored_by(&path, &service.options.git),
            case_conflict: is_new.then(|| service.workspace.find_case_conflict(&path)).flatten(),
            path,
        })
    }
}

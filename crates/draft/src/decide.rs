//! The gate's decision on a submission.
//!
//! A submission that needs no tests is decided in the transaction that recorded it. Tests run without the workspace
//! lock; a second transaction then repeats all checks and decides.

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
use crate::service::{DraftError, DraftService, wrong};
use crate::state::{ProposedFile, Submission, SubmissionStage};
use crate::transaction::Transaction;

/// Test result of a submission: the reasons against it, and the last verification.
type Tested = (Vec<Reason>, Option<VerifyResult>);

impl DraftService {
    /// Decides on a submission; returns the transaction in which it was decided. `right` is the submission's decision
    /// lock, which is needed to test it or if an earlier transaction recorded it. `gone` is cancelled when the agent
    /// stops waiting for the response.
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
                right = self.right_to_decide(id)?;
            }
            if right.is_some() {
                break untested;
            }
            drop(transaction);
            right = Some(self.lock(decision_lock_name(id)).await?);
            transaction = self.begin().await?;
        };
        transaction.write_submission(&submission);
        // Release the workspace lock: the tests may take long.
        drop(transaction);
        let tested = self.test(&submission, &policy).await;
        // Files, the contract or the on/off switch may have changed meanwhile, so check everything again.
        let mut transaction = self.begin().await?;
        transaction.decide(id, Some(tested), gone).await?;
        Ok(transaction)
    }

    /// Decides on a submission that an earlier transaction recorded, once no other process is deciding on it.
    pub(crate) async fn decide_earlier(
        self: &Arc<Self>,
        id: u64,
        gone: &CancellationToken,
    ) -> Result<Transaction, DraftError> {
        let right = self.lock(decision_lock_name(id)).await?;
        let transaction = self.begin().await?;
        self.decide(transaction, Some(right), id, gone).await
    }

    /// Takes the decision lock of a submission; `None` while another process holds it.
    pub(crate) fn right_to_decide(&self, id: u64) -> Result<Option<FolderLock>, DraftError> {
        self.try_lock(&decision_lock_name(id))
    }

    /// Runs the project's tests on a submission.
    async fn test(&self, submission: &Submission, policy: &Policy) -> Tested {
        let changed = |file: &ProposedFile| {
            Ok(ChangedFile {
                path: file.path.clone(),
                before: self.base(file.before)?,
                after: self.copy(file.after)?,
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

    /// Starts to decide on every submission whose process died before it decided.
    pub async fn begin_to_decide_what_is_left(self: &Arc<Self>) -> Result<(), DraftError> {
        let state = self.state().await?;
        let left = state.submissions.values().filter(|s| s.stage == SubmissionStage::Submitted);
        for id in left.map(|submission| submission.id) {
            let service = Arc::clone(self);
            self.deciding.spawn(async move {
                if let Err(error) = service.decide_orphaned(id).await {
                    tracing::warn!(submission = id, %error, "cannot decide on the submission");
                }
            });
        }
        Ok(())
    }

    async fn decide_orphaned(self: &Arc<Self>, id: u64) -> Result<(), DraftError> {
        if let Some(right) = self.right_to_decide(id)? {
            let transaction = self.begin().await?;
            let gone = CancellationToken::new();
            gone.cancel();
            self.decide(transaction, Some(right), id, &gone).await?;
        }
        Ok(())
    }

    /// Waits for running decisions of this process.
    pub async fn finish_deciding(&self) {
        self.deciding.close();
        self.deciding.wait().await;
        self.deciding.reopen();
    }
}

/// Name of a submission's decision lock.
fn decision_lock_name(id: u64) -> String {
    format!("deciding-{id}")
}

/// Derives the decision from the reasons.
fn decision(
    submission: &Submission,
    (review, policy): (Review, Fingerprint),
    mut reasons: Vec<Reason>,
    verified: Option<VerifyResult>,
    told: bool,
) -> Decision {
    if review == Review::Always && reasons.is_empty() {
        let message = "every change in this workspace needs a reviewer";
        reasons.push(submission.reason(ReasonEffect::Escalate, "review", message));
    }
    let verdict = GateVerdict::of(&reasons, review);
    let advice = match (review, verdict) {
        (Review::Never, _) => Some("reviews are disabled: reduce the change, or drop it"),
        (_, GateVerdict::Rejected) => {
            Some("fix the other reasons; this one alone needs a reviewer")
        }
        _ => None,
    };
    if let Some(advice) = advice {
        for reason in reasons.iter_mut().filter(|reason| reason.effect == ReasonEffect::Escalate) {
            reason.what_to_do = advice.to_owned();
        }
    }
    Decision { verdict, reasons, policy, review, verified, told }
}

impl Transaction {
    /// Decides on a waiting submission and executes the decision. Returns the submission and the policy if the
    /// project's tests must run first.
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
        // While the tools are off a reviewer decides, even if reviews are disabled.
        let review = if self.state().off { Review::Escalated } else { policy.review };
        let told = !gone.is_cancelled();
        let by = (review, policy.fingerprint());
        self.execute(id, decision(&submission, by, reasons, verified, told)).await?;
        Ok(None)
    }

    pub(crate) fn path(&self, path: &str) -> Result<WorkspacePath, DraftError> {
        self.service.workspace.inside(path).map_err(wrong)
    }

    /// All reasons against a submission.
    fn check(
        &self,
        submission: &Submission,
        policy: &Policy,
        places: &PathRules,
    ) -> Result<Vec<Reason>, DraftError> {
        let mut reasons = Vec::new();
        if policy.task.as_deref().is_some_and(|only| only != submission.task.as_str()) {
            let message = "the contract is for another task";
            let reason = submission.reason(ReasonEffect::Reject, "path/not-allowed", message);
            reasons.push(reason.advise("work on the task that the contract names"));
        }
        for proposed in &submission.files {
            match self.change_of(proposed) {
                Ok(change) => reasons.extend(assize_gate::check(&change, policy, places)?),
                // A change that cannot be checked must not pass.
                Err(error) => {
                    let message = format!("the change cannot be checked: {error}");
                    reasons.push(submission.reason(ReasonEffect::Escalate, "unreadable", message));
                }
            }
        }
        reasons.extend(self.too_many_files(submission, policy));
        if self.state().off {
            let message = "the draft tools are off: the change is kept as a proposed patch";
            let reason = submission.reason(ReasonEffect::Escalate, "off", message);
            reasons
                .push(reason.advise(format!("`assize gate accept {}` applies it", submission.id)));
        }
        let names: BTreeSet<String> =
            submission.files.iter().map(|file| file.path.to_lowercase()).collect();
        if names.len() < submission.files.len() {
            let message = "two of its files are the same on case-insensitive file systems";
            reasons.push(submission.reason(ReasonEffect::Escalate, "look-alike", message));
        }
        if policy.fingerprint() != submission.policy {
            let message = "the gate's policy has changed since the submission";
            reasons.push(submission.reason(ReasonEffect::Escalate, "policy", message));
        }
        Ok(reasons)
    }

    /// Reason if the task changes more files than allowed, including files of its accepted submissions.
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
        let message = format!("the task changes {count} files (at most {most})");
        (count > most).then(|| submission.reason(ReasonEffect::Escalate, "scope/files", message))
    }

    /// The change that the gate checks: the draft and the file it replaces.
    fn change_of(&self, proposed: &ProposedFile) -> Result<ProposedChange, DraftError> {
        let (path, service) = (self.path(&proposed.path)?, &self.service);
        let is_new = proposed.before.is_none();
        let now = service.workspace.find(&path, u64::MAX - 1);
        Ok(ProposedChange {
            base: proposed.before.map(|hash| service.copy(hash)).transpose()?,
            draft: service.copy(proposed.after)?,
            draft_mode: proposed.draft_mode,
            mode: now.as_ref().ok().and_then(Option::as_ref).map(|original| original.mode),
            now: now.map(|original| original.map(|original| original.sha256)),
            ignored_by: service.workspace.ignored_by(&path, &service.options.git),
            twin: is_new.then(|| service.workspace.twin(&path)).flatten(),
            path,
        })
    }
}

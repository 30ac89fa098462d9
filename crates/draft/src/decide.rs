//! The gate's decision on a submission.
//!
//! A submission that needs no tests is decided in the transaction that recorded it. Tests run without the lock; a
//! second transaction then checks everything again and decides.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_config::Review;
use assize_gate::{Change, ChangedFile, Effect, Places, Policy, Reason, Verdict, Verified};
use assize_types::Fingerprint;
use assize_workspace::{Inside, Lock};
use tokio_util::sync::CancellationToken;

use crate::execute::Decision;
use crate::service::{DraftError, DraftService, wrong};
use crate::state::{Proposed, Stage, Submission};
use crate::transaction::Transaction;

/// What the tests of a submission came to: the reasons against it, and the last result.
type Tested = (Vec<Reason>, Option<Verified>);

impl DraftService {
    /// Decides on a submission; gives the transaction in which it was decided. `right` is the right to decide on it,
    /// which a submission needs that is tested, or that an earlier transaction recorded. `gone` is
    /// cancelled when the worker stops waiting for the answer.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        mut transaction: Transaction,
        mut right: Option<Lock>,
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
            right = Some(self.lock(right_name(id)).await?);
            transaction = self.begin().await?;
        };
        transaction.write_submission(&submission);
        // The tests may take long, and others may use the workspace meanwhile.
        drop(transaction);
        let tested = self.test(&submission, &policy).await;
        // Much may have changed in the meantime: files, the contract, the switch.
        let mut transaction = self.begin().await?;
        transaction.decide(id, Some(tested), gone).await?;
        Ok(transaction)
    }

    /// Decides on a submission that an earlier transaction recorded, once no other process does.
    pub(crate) async fn decide_earlier(
        self: &Arc<Self>,
        id: u64,
        gone: &CancellationToken,
    ) -> Result<Transaction, DraftError> {
        let right = self.lock(right_name(id)).await?;
        let transaction = self.begin().await?;
        self.decide(transaction, Some(right), id, gone).await
    }

    /// The right to decide on a submission; `None` while another process has it.
    pub(crate) fn right_to_decide(&self, id: u64) -> Result<Option<Lock>, DraftError> {
        self.try_lock(&right_name(id))
    }

    /// Runs the project's tests on a submission.
    async fn test(&self, submission: &Submission, policy: &Policy) -> Tested {
        let changed = |file: &Proposed| {
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
                let message = format!("it could not be verified: {error}");
                (vec![submission.reason(Effect::Escalate, "verify", message)], None)
            }
        }
    }

    /// Begins to decide on every submission whose process is gone.
    pub async fn begin_to_decide_what_is_left(self: &Arc<Self>) -> Result<(), DraftError> {
        let state = self.state().await?;
        let left = state.submissions.values().filter(|s| s.stage == Stage::Submitted);
        for id in left.map(|submission| submission.id) {
            let service = Arc::clone(self);
            self.deciding.spawn(async move {
                if let Err(error) = service.decide_left(id).await {
                    tracing::warn!(submission = id, %error, "nothing could be decided");
                }
            });
        }
        Ok(())
    }

    async fn decide_left(self: &Arc<Self>, id: u64) -> Result<(), DraftError> {
        if let Some(right) = self.right_to_decide(id)? {
            let transaction = self.begin().await?;
            let gone = CancellationToken::new();
            gone.cancel();
            self.decide(transaction, Some(right), id, &gone).await?;
        }
        Ok(())
    }

    /// Waits for decisions that are under way here.
    pub async fn finish_deciding(&self) {
        self.deciding.close();
        self.deciding.wait().await;
        self.deciding.reopen();
    }
}

/// The lock of the right to decide on a submission.
fn right_name(id: u64) -> String {
    format!("deciding-{id}")
}

/// The decision that the reasons come to.
fn decision(
    submission: &Submission,
    (review, policy): (Review, Fingerprint),
    mut reasons: Vec<Reason>,
    verified: Option<Verified>,
    told: bool,
) -> Decision {
    if review == Review::Always && reasons.is_empty() {
        let message = "every change here is looked at by a person";
        reasons.push(submission.reason(Effect::Escalate, "review", message));
    }
    let verdict = Verdict::of(&reasons, review);
    let advice = match (review, verdict) {
        (Review::Never, _) => Some("nobody is asked here: change less, or leave this file alone"),
        (_, Verdict::Rejected) => Some("mend the rest; this alone would be for a person to decide"),
        _ => None,
    };
    if let Some(advice) = advice {
        for reason in reasons.iter_mut().filter(|reason| reason.effect == Effect::Escalate) {
            reason.what_to_do = advice.to_owned();
        }
    }
    Decision { verdict, reasons, policy, review, verified, told }
}

impl Transaction {
    /// Decides on a submission that waits for the gate, and executes that. Gives the submission and the policy back
    /// where the project's tests must be run first.
    async fn decide(
        &mut self,
        id: u64,
        tested: Option<Tested>,
        gone: &CancellationToken,
    ) -> Result<Option<(Submission, Policy)>, DraftError> {
        let submission = self.submission(id)?.clone();
        if submission.stage != Stage::Submitted {
            return Ok(None);
        }
        let (policy, places) = self.policy()?;
        let mut reasons = self.check(&submission, &policy, &places)?;
        let hopeless = |reason: &Reason| {
            reason.effect == Effect::Reject || ["conflict", "symlink"].contains(&&*reason.rule)
        };
        if tested.is_none() && !policy.verify.is_empty() && !reasons.iter().any(hopeless) {
            return Ok(Some((submission, policy)));
        }
        let (found, verified) = tested.unwrap_or_default();
        reasons.extend(found);
        // While the tools are off a reviewer decides, even where none is asked otherwise.
        let review = if self.state().off { Review::Escalated } else { policy.review };
        let told = !gone.is_cancelled();
        let by = (review, policy.fingerprint());
        self.execute(id, decision(&submission, by, reasons, verified, told)).await?;
        Ok(None)
    }

    pub(crate) fn path(&self, path: &str) -> Result<Inside, DraftError> {
        self.service.workspace.inside(path).map_err(wrong)
    }

    /// All reasons against a submission.
    fn check(
        &self,
        submission: &Submission,
        policy: &Policy,
        places: &Places,
    ) -> Result<Vec<Reason>, DraftError> {
        let mut reasons = Vec::new();
        if policy.task.as_deref().is_some_and(|only| only != submission.task.as_str()) {
            let message = "the contract is about another task";
            let reason = submission.reason(Effect::Reject, "path/not-allowed", message);
            reasons.push(reason.advise("work on the task that the contract names"));
        }
        for proposed in &submission.files {
            match self.change_of(proposed) {
                Ok(change) => reasons.extend(assize_gate::check(&change, policy, places)?),
                // What cannot be checked may not pass.
                Err(error) => {
                    let message = format!("it cannot be looked at: {error}");
                    reasons.push(submission.reason(Effect::Escalate, "unreadable", message));
                }
            }
        }
        reasons.extend(self.too_many_files(submission, policy));
        if self.state().off {
            let message = "the draft tools are off: the change is kept as a proposed patch";
            let reason = submission.reason(Effect::Escalate, "off", message);
            reasons
                .push(reason.advise(format!("`assize gate accept {}` applies it", submission.id)));
        }
        let names: BTreeSet<String> =
            submission.files.iter().map(|file| file.path.to_lowercase()).collect();
        if names.len() < submission.files.len() {
            let message = "two of its files are the same on some disks";
            reasons.push(submission.reason(Effect::Escalate, "look-alike", message));
        }
        if policy.fingerprint() != submission.policy {
            let message = "what the gate goes by has changed since it was handed in";
            reasons.push(submission.reason(Effect::Escalate, "policy", message));
        }
        Ok(reasons)
    }

    /// That a task changes more files than it may; what it has changed already counts.
    fn too_many_files(&self, submission: &Submission, policy: &Policy) -> Option<Reason> {
        let earlier =
            self.state().submissions.values().filter(|earlier| {
                earlier.task == submission.task && earlier.stage == Stage::Accepted
            });
        let files: BTreeSet<&str> = earlier
            .flat_map(|earlier| &earlier.files)
            .chain(&submission.files)
            .map(|file| file.path.as_str())
            .collect();
        let (count, most) = (files.len(), policy.max_files);
        let message = format!("the task changes {count} files, and {most} may be changed");
        (count > most).then(|| submission.reason(Effect::Escalate, "scope/files", message))
    }

    /// A draft beside the file that it is to replace.
    fn change_of(&self, proposed: &Proposed) -> Result<Change, DraftError> {
        let (path, service) = (self.path(&proposed.path)?, &self.service);
        let is_new = proposed.before.is_none();
        let now = service.workspace.find(&path, u64::MAX - 1);
        Ok(Change {
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

//! Executing what was decided: files are changed, drafts deleted, and what a process that died had begun is finished.

use std::sync::Arc;

use assize_config::Review;
use assize_gate::{Effect, Reason, TaskId, Verdict, Verified};
use assize_types::Fingerprint;
use assize_workspace::{Applier, ApplyError, DRAFTS, Folder, HANDOFF, Replacing};

use crate::service::{DraftError, DraftService, GATE, file, wrong};
use crate::state::{Stage, Step, Submission, message_id};
use crate::transaction::Transaction;

/// Where new content is staged, in [`HANDOFF`].
pub(crate) const STAGING: &str = "staging";

const OFF: &str =
    "the draft tools are switched off in this workspace; stop, and tell the person you work for";

/// What becomes of a submission, and why.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) reasons: Vec<Reason>,
    /// The policy that it was decided by.
    pub(crate) policy: Fingerprint,
    pub(crate) review: Review,
    pub(crate) verified: Option<Verified>,
    /// The worker learns of it by the answer to its call.
    pub(crate) told: bool,
}

impl Decision {
    /// A reviewer's decision: the worker learns of it by a message.
    pub(crate) fn by_reviewer(
        submission: &Submission,
        verdict: Verdict,
        reasons: Vec<Reason>,
        policy: Fingerprint,
    ) -> Decision {
        let verified = submission.verified.clone();
        Decision { verdict, reasons, policy, review: Review::Escalated, verified, told: false }
    }

    fn step(self, submission: u64, files: Vec<Replacing>) -> Step {
        let Decision { verdict, reasons, policy, verified, told, .. } = self;
        Step::Decided { submission, verdict, reasons, files, policy, verified, told }
    }

    /// That it could not be applied after all: a reviewer decides, where one is asked.
    fn not_applied(mut self, submission: &Submission, why: &str) -> Decision {
        self.reasons.retain(|reason| reason.rule != "apply");
        let message = format!("it could not be applied: {why}");
        self.reasons.push(submission.reason(Effect::Escalate, "apply", message));
        self.verdict = match self.review {
            Review::Never => Verdict::Rejected,
            Review::Always | Review::Escalated => Verdict::Escalated,
        };
        self
    }
}

/// How a change of files ended. All files are as they were unless it is done.
#[derive(Debug)]
enum Changed {
    Done,
    /// Nothing was recorded.
    NotStaged(ApplyError),
    /// The intent is recorded.
    NotApplied(ApplyError),
}

impl DraftService {
    /// Begins a transaction, and finishes what a process that died had begun.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Transaction, DraftError> {
        let (mut transaction, repaired) = Transaction::open(self).await?;
        if repaired {
            transaction.remove_left_drafts()?;
        }
        transaction.finish_interrupted().await?;
        Ok(transaction)
    }

    /// Begins a transaction for a draft tool, unless the tools are switched off.
    pub(crate) async fn begin_if_on(self: &Arc<Self>) -> Result<Transaction, DraftError> {
        let transaction = self.begin().await?;
        if transaction.state().off { Err(wrong(OFF)) } else { Ok(transaction) }
    }

    fn applier<'a>(&'a self, staging: &'a Folder) -> Applier<'a> {
        Applier { workspace: &self.workspace, staging, copies: &self.copies }
    }
}

impl Transaction {
    fn staging(&self) -> Result<Folder, DraftError> {
        self.handoff.folder(STAGING).map_err(file(format!("{HANDOFF}/{STAGING}")))
    }

    /// Executes the gate's decision.
    pub(crate) async fn execute(&mut self, id: u64, decision: Decision) -> Result<(), DraftError> {
        let submission = self.submission(id)?.clone();
        if decision.verdict != Verdict::Accepted {
            return self.settle(GATE, &submission, decision).await;
        }
        let files = submission.files.iter().map(|file| Replacing {
            path: file.path.clone(),
            before: file.before,
            after: Some(file.after),
        });
        self.accept(GATE, &submission, decision, files.collect()).await.map(drop)
    }

    /// Sends a submission back, or puts it before a reviewer.
    pub(crate) async fn settle(
        &mut self,
        by: &str,
        submission: &Submission,
        decision: Decision,
    ) -> Result<(), DraftError> {
        let rejected = decision.verdict == Verdict::Rejected;
        self.record(by, decision.step(submission.id, Vec::new())).await?;
        if rejected {
            return self.remove_drafts(submission);
        }
        self.write_submission(self.submission(submission.id)?);
        Ok(())
    }

    /// Applies a submission; what cannot be applied is settled otherwise, for the reason that this gives.
    pub(crate) async fn accept(
        &mut self,
        by: &str,
        submission: &Submission,
        decision: Decision,
        files: Vec<Replacing>,
    ) -> Result<Option<String>, DraftError> {
        let id = submission.id;
        let intent = decision.clone().step(id, files.clone());
        let error = match self.change(by, id, &files, intent).await? {
            Changed::Done => {
                self.record(by, Step::Applied { submission: id, told: decision.told }).await?;
                self.remove_drafts(submission)?;
                return Ok(None);
            }
            Changed::NotStaged(error) => error.to_string(),
            Changed::NotApplied(error) => self.record_not_applied(by, id, &error).await?,
        };
        self.settle(GATE, submission, decision.not_applied(submission, &error)).await?;
        Ok(Some(error))
    }

    /// Rolls back what was applied.
    pub(crate) async fn undo(&mut self, by: &str, id: u64) -> Result<(), DraftError> {
        let files = self.submission(id)?.reversed();
        for hash in files.iter().filter_map(|file| file.after) {
            self.service.copy(hash)?;
        }
        let intent = Step::Undoing { submission: id, files: files.clone() };
        match self.change(by, id, &files, intent).await? {
            Changed::Done => self.record(by, Step::Undone { submission: id }).await.map(drop),
            Changed::NotStaged(error) => Err(DraftError::Conflict(error.to_string())),
            Changed::NotApplied(error) => {
                Err(DraftError::Conflict(self.record_not_applied(by, id, &error).await?))
            }
        }
    }

    /// Records that files could not be changed although the intent is recorded; gives the reason.
    async fn record_not_applied(
        &mut self,
        by: &str,
        submission: u64,
        error: &ApplyError,
    ) -> Result<String, DraftError> {
        let why = error.to_string();
        self.record(by, Step::NotApplied { submission, why: why.clone() }).await?;
        Ok(why)
    }

    /// Stages new content, records the intent, and changes the files, all or none.
    async fn change(
        &mut self,
        by: &str,
        id: u64,
        files: &[Replacing],
        intent: Step,
    ) -> Result<Changed, DraftError> {
        let (service, staging) = (Arc::clone(&self.service), self.staging()?);
        let applier = service.applier(&staging);
        let items = match applier.stage(id, files) {
            Ok(items) => items,
            Err(error) => return Ok(Changed::NotStaged(error)),
        };
        if let Err(error) = self.record(by, intent).await {
            // Without an intent nothing is applied.
            applier.clear(&items);
            return Err(error);
        }
        match applier.apply(&items) {
            Ok(()) => Ok(Changed::Done),
            // The intent stands, and the next transaction finishes it.
            Err(error @ ApplyError::Half { .. }) => Err(DraftError::Unfinished(format!(
                "{error}; it is finished as soon as the disk allows"
            ))),
            Err(error) => Ok(Changed::NotApplied(error)),
        }
    }

    /// Finishes what a process that died had begun.
    async fn finish_interrupted(&mut self) -> Result<(), DraftError> {
        let interrupted = |submission: &&Submission| {
            matches!(submission.stage, Stage::Accepting | Stage::Undoing)
        };
        let interrupted: Vec<Submission> =
            self.state().submissions.values().filter(interrupted).cloned().collect();
        for submission in interrupted {
            let (id, undoing) = (submission.id, submission.stage == Stage::Undoing);
            let (service, staging) = (Arc::clone(&self.service), self.staging()?);
            match service.applier(&staging).resume(id, &submission.changes()) {
                Ok(()) if undoing => {
                    self.record(GATE, Step::Undone { submission: id }).await?;
                }
                Ok(()) => {
                    self.record(GATE, Step::Applied { submission: id, told: false }).await?;
                    self.remove_drafts(&submission)?;
                }
                // The disk still does not let it be finished: others need not wait for that.
                Err(error @ ApplyError::Half { .. }) => {
                    tracing::warn!(submission = id, %error, "an application cannot be finished yet");
                }
                Err(error) => {
                    let why = self.record_not_applied(GATE, id, &error).await?;
                    if !undoing {
                        let decision = Decision {
                            verdict: Verdict::Escalated,
                            reasons: submission.reasons.clone(),
                            policy: submission.policy,
                            review: service.options.policy.review,
                            verified: submission.verified.clone(),
                            told: false,
                        };
                        let decision = decision.not_applied(&submission, &why);
                        self.settle(GATE, &submission, decision).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes drafts of settled submissions that a process left that died between the entry and the drafts.
    fn remove_left_drafts(&self) -> Result<(), DraftError> {
        let names = self.drafts.names().map_err(file(DRAFTS))?;
        let left = |submission: &&Submission| {
            let settled = matches!(submission.stage, Stage::Accepted | Stage::Rejected);
            let is_left =
                |draft: &String| names.contains(draft) && !self.state().drafts.contains_key(draft);
            settled && submission.files.iter().filter_map(|f| f.draft.as_ref()).any(is_left)
        };
        self.state().submissions.values().filter(left).try_for_each(|left| self.remove_drafts(left))
    }

    /// Deletes the drafts of a settled submission that were not requested again; the drafts themselves last, as they
    /// show the next transaction that this was not finished.
    fn remove_drafts(&self, submission: &Submission) -> Result<(), DraftError> {
        let waits = |s: &Submission| s.task == submission.task && s.stage.waits();
        let name = submission_file(&submission.task);
        match self.state().submissions.values().rev().find(|s| waits(s)) {
            Some(waiting) => self.write_submission(waiting),
            None => _ = self.drafts.discard(&name).map_err(file(name))?,
        }
        for draft in submission.files.iter().filter_map(|file| file.draft.as_ref()) {
            if !self.state().drafts.contains_key(draft) {
                self.drafts.remove(draft).map_err(file(draft))?;
            }
        }
        Ok(())
    }

    /// Writes a waiting submission beside the drafts, for users. It is never read back.
    pub(crate) fn write_submission(&self, submission: &Submission) {
        let name = submission_file(&submission.task);
        let mut shown = serde_json::json!({"message_id": message_id(submission.entry)});
        shown["submission"] = serde_json::json!(submission);
        let text = serde_json::to_vec_pretty(&shown).unwrap_or_default();
        if let Err(error) = self.drafts.write(&name, &text) {
            tracing::warn!(%name, %error, "what waits could not be written down beside the drafts");
        }
    }
}

/// The file of a task's submission, beside its drafts.
fn submission_file(task: &TaskId) -> String {
    format!("{task}.submission.json")
}

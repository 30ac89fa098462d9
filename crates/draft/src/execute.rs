//! Executes decisions: changes files, deletes drafts, and finishes the file changes of processes that died.

use std::sync::Arc;

use assize_config::Review;
use assize_gate::{GateVerdict, Reason, ReasonEffect, TaskId, VerifyResult};
use assize_types::Fingerprint;
use assize_workspace::{Applier, ApplyError, DRAFTS, FileReplacement, FolderHandle, HANDOFF};

use crate::service::{DraftError, DraftService, GATE, file_error, invalid_request};
use crate::state::{DraftStep, Submission, SubmissionStage, message_id};
use crate::transaction::Transaction;

/// Name of the folder in [`HANDOFF`] in which new file contents are staged before they are applied.
pub(crate) const STAGING: &str = "staging";

const TOOLS_OFF: &str =
    "the draft tools are switched off in this workspace; stop and inform the user";

/// A verdict on a submission, with its reasons.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    pub(crate) verdict: GateVerdict,
    pub(crate) reasons: Vec<Reason>,
    /// Hash of the policy under which the decision was made.
    pub(crate) policy: Fingerprint,
    pub(crate) review: Review,
    pub(crate) verified: Option<VerifyResult>,
    /// Whether the response to the agent's call reports the decision. If false, a later message reports it.
    pub(crate) reported_in_response: bool,
}

impl Decision {
    /// Creates a reviewer's decision, which a later message reports to the agent.
    pub(crate) fn by_reviewer(
        submission: &Submission,
        verdict: GateVerdict,
        reasons: Vec<Reason>,
        policy: Fingerprint,
    ) -> Decision {
        let verified = submission.verified.clone();
        Decision {
            verdict,
            reasons,
            policy,
            review: Review::Escalated,
            verified,
            reported_in_response: false,
        }
    }

    fn step(self, submission: u64, files: Vec<FileReplacement>) -> DraftStep {
        let Decision { verdict, reasons, policy, verified, reported_in_response: reported, .. } =
            self;
        DraftStep::Decided { submission, verdict, reasons, files, policy, verified, reported }
    }

    /// Replaces the verdict of a change that could not be applied: the new verdict is `escalated`, or `rejected` if
    /// reviews are disabled.
    fn not_applied(mut self, submission: &Submission, why: &str) -> Decision {
        self.reasons.retain(|reason| reason.rule != "apply");
        let message = format!("the change could not be applied: {why}");
        self.reasons.push(submission.reason(ReasonEffect::Escalate, "apply", message));
        self.verdict = match self.review {
            Review::Never => GateVerdict::Rejected,
            Review::Always | Review::Escalated => GateVerdict::Escalated,
        };
        self
    }
}

/// Result of changing the files of a submission.
#[derive(Debug)]
enum Changed {
    /// All files were changed.
    Done,
    /// The new contents could not be staged, so no file was changed. The audit log does not contain the intent to
    /// change the files.
    NotStaged(ApplyError),
    /// The change failed after the audit log had recorded the intent to change the files. No file was changed.
    NotApplied(ApplyError),
}

impl DraftService {
    /// Starts a transaction, and finishes the file changes of processes that died.
    pub(crate) async fn begin(self: &Arc<Self>) -> Result<Transaction, DraftError> {
        let (mut transaction, repaired) = Transaction::open(self).await?;
        if repaired {
            transaction.remove_left_drafts()?;
        }
        transaction.finish_interrupted().await?;
        Ok(transaction)
    }

    /// Starts a transaction for a draft tool; fails if the tools are switched off.
    pub(crate) async fn begin_if_on(self: &Arc<Self>) -> Result<Transaction, DraftError> {
        let transaction = self.begin().await?;
        if transaction.state().tools_off {
            Err(invalid_request(TOOLS_OFF))
        } else {
            Ok(transaction)
        }
    }

    fn applier<'a>(&'a self, staging: &'a FolderHandle) -> Applier<'a> {
        Applier { workspace: &self.workspace, staging, copies: &self.contents }
    }
}

impl Transaction {
    fn staging(&self) -> Result<FolderHandle, DraftError> {
        self.handoff.open_or_create(STAGING).map_err(file_error(format!("{HANDOFF}/{STAGING}")))
    }

    /// Executes the gate's decision.
    pub(crate) async fn execute(&mut self, id: u64, decision: Decision) -> Result<(), DraftError> {
        let submission = self.submission(id)?.clone();
        if decision.verdict != GateVerdict::Accepted {
            return self.reject_or_escalate(GATE, &submission, decision).await;
        }
        let files = submission.files.iter().map(|file| FileReplacement {
            path: file.path.clone(),
            before: file.before,
            after: Some(file.after),
        });
        self.accept(GATE, &submission, decision, files.collect()).await.map(drop)
    }

    /// Rejects or escalates a submission.
    pub(crate) async fn reject_or_escalate(
        &mut self,
        by: &str,
        submission: &Submission,
        decision: Decision,
    ) -> Result<(), DraftError> {
        let rejected = decision.verdict == GateVerdict::Rejected;
        self.record(by, decision.step(submission.id, Vec::new())).await?;
        if rejected {
            return self.remove_drafts(submission);
        }
        self.write_submission(self.submission(submission.id)?);
        Ok(())
    }

    /// Applies a submission. If the change fails, records the verdict `escalated` or `rejected` instead, and returns
    /// the error message.
    pub(crate) async fn accept(
        &mut self,
        by: &str,
        submission: &Submission,
        decision: Decision,
        files: Vec<FileReplacement>,
    ) -> Result<Option<String>, DraftError> {
        let id = submission.id;
        let intent = decision.clone().step(id, files.clone());
        let error = match self.change_files(by, id, &files, intent).await? {
            Changed::Done => {
                self.record(
                    by,
                    DraftStep::Applied { submission: id, reported: decision.reported_in_response },
                )
                .await?;
                self.remove_drafts(submission)?;
                return Ok(None);
            }
            Changed::NotStaged(error) => error.to_string(),
            Changed::NotApplied(error) => self.record_not_applied(by, id, &error).await?,
        };
        self.reject_or_escalate(GATE, submission, decision.not_applied(submission, &error)).await?;
        Ok(Some(error))
    }

    /// Undoes an applied submission.
    pub(crate) async fn undo(&mut self, by: &str, id: u64) -> Result<(), DraftError> {
        let files = self.submission(id)?.reversed();
        for hash in files.iter().filter_map(|file| file.after) {
            self.service.stored_content(hash)?;
        }
        let intent = DraftStep::Undoing { submission: id, files: files.clone() };
        match self.change_files(by, id, &files, intent).await? {
            Changed::Done => self.record(by, DraftStep::Undone { submission: id }).await.map(drop),
            Changed::NotStaged(error) => Err(DraftError::Conflict(error.to_string())),
            Changed::NotApplied(error) => {
                Err(DraftError::Conflict(self.record_not_applied(by, id, &error).await?))
            }
        }
    }

    /// Records that an intended change or undo was not carried out, so no file was changed; returns the error message.
    async fn record_not_applied(
        &mut self,
        by: &str,
        submission: u64,
        error: &ApplyError,
    ) -> Result<String, DraftError> {
        let why = error.to_string();
        self.record(by, DraftStep::NotApplied { submission, why: why.clone() }).await?;
        Ok(why)
    }

    /// Stages the new contents, records in the audit log that the files will be changed, and changes all files or none.
    async fn change_files(
        &mut self,
        by: &str,
        id: u64,
        files: &[FileReplacement],
        intent: DraftStep,
    ) -> Result<Changed, DraftError> {
        let (service, staging) = (Arc::clone(&self.service), self.staging()?);
        let applier = service.applier(&staging);
        let items = match applier.stage(id, files) {
            Ok(items) => items,
            Err(error) => return Ok(Changed::NotStaged(error)),
        };
        if let Err(error) = self.record(by, intent).await {
            // Without a recorded intent, no file is changed.
            applier.clear(&items);
            return Err(error);
        }
        match applier.apply(&items) {
            Ok(()) => Ok(Changed::Done),
            // The intent stays recorded, so the next transaction finishes the change.
            Err(error @ ApplyError::PartiallyApplied { .. }) => Err(DraftError::Unfinished(
                format!("{error}; the next draft operation in this workspace retries the change"),
            )),
            Err(error) => Ok(Changed::NotApplied(error)),
        }
    }

    /// Finishes the file changes that a process had started before it died.
    async fn finish_interrupted(&mut self) -> Result<(), DraftError> {
        let interrupted = |submission: &&Submission| {
            matches!(submission.stage, SubmissionStage::Accepting | SubmissionStage::Undoing)
        };
        let interrupted: Vec<Submission> =
            self.state().submissions.values().filter(interrupted).cloned().collect();
        for submission in interrupted {
            let (id, undoing) = (submission.id, submission.stage == SubmissionStage::Undoing);
            let (service, staging) = (Arc::clone(&self.service), self.staging()?);
            match service.applier(&staging).resume(id, &submission.replacements_in_progress()) {
                Ok(()) if undoing => {
                    self.record(GATE, DraftStep::Undone { submission: id }).await?;
                }
                Ok(()) => {
                    self.record(GATE, DraftStep::Applied { submission: id, reported: false })
                        .await?;
                    self.remove_drafts(&submission)?;
                }
                // The change still cannot be finished, for example because of an I/O error. This must not make other
                // calls fail.
                Err(error @ ApplyError::PartiallyApplied { .. }) => {
                    tracing::warn!(submission = id, %error, "cannot finish an interrupted change yet");
                }
                Err(error) => {
                    let why = self.record_not_applied(GATE, id, &error).await?;
                    if !undoing {
                        let decision = Decision {
                            verdict: GateVerdict::Escalated,
                            reasons: submission.reasons.clone(),
                            policy: submission.policy,
                            review: service.options.policy.review,
                            verified: submission.verified.clone(),
                            reported_in_response: false,
                        };
                        let decision = decision.not_applied(&submission, &why);
                        self.reject_or_escalate(GATE, &submission, decision).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes the remaining drafts of decided submissions, if a process died between the decision and the deletion.
    fn remove_left_drafts(&self) -> Result<(), DraftError> {
        let names = self.drafts.names().map_err(file_error(DRAFTS))?;
        let left = |submission: &&Submission| {
            let settled =
                matches!(submission.stage, SubmissionStage::Accepted | SubmissionStage::Rejected);
            let is_left =
                |draft: &String| names.contains(draft) && !self.state().drafts.contains_key(draft);
            settled && submission.files.iter().filter_map(|f| f.draft.as_ref()).any(is_left)
        };
        self.state().submissions.values().filter(left).try_for_each(|left| self.remove_drafts(left))
    }

    /// Deletes the draft files of a decided submission. If an agent has since requested a new draft under the same
    /// name, the file belongs to the new draft and is kept. The draft files are deleted as the last step of a decision.
    /// If the process dies before this step, the next transaction finds and deletes them.
    fn remove_drafts(&self, submission: &Submission) -> Result<(), DraftError> {
        let waits = |s: &Submission| s.task == submission.task && s.stage.is_undecided();
        let name = submission_file(&submission.task);
        match self.state().submissions.values().rev().find(|s| waits(s)) {
            Some(waiting) => self.write_submission(waiting),
            None => _ = self.drafts.remove_without_sync(&name).map_err(file_error(name))?,
        }
        for draft in submission.files.iter().filter_map(|file| file.draft.as_ref()) {
            if !self.state().drafts.contains_key(draft) {
                self.drafts.remove(draft).map_err(file_error(draft))?;
            }
        }
        Ok(())
    }

    /// Writes a waiting submission to a file next to the drafts, for users. Assize never reads this file.
    pub(crate) fn write_submission(&self, submission: &Submission) {
        let name = submission_file(&submission.task);
        let mut shown = serde_json::json!({"message_id": message_id(submission.entry)});
        shown["submission"] = serde_json::json!(submission);
        let text = serde_json::to_vec_pretty(&shown).unwrap_or_default();
        if let Err(error) = self.drafts.write(&name, &text) {
            tracing::warn!(%name, %error, "cannot write the submission file next to the drafts");
        }
    }
}

/// Returns the name of the file that describes the waiting submission of a task.
fn submission_file(task: &TaskId) -> String {
    format!("{task}.submission.json")
}

//! Doing what was decided: files are changed, drafts taken away, and what a process that died had begun is
//! finished.

use assize_config::Review;
use assize_types::Fingerprint;

use crate::apply::{Applier, ApplyError};
use crate::book::{Replacing, Stage, Step, Submission, message_id};
use crate::desk::{DeskError, GATE, Held, file};
use crate::folder::{DRAFTS, Folder, HANDOFF};
use crate::gate::{Effect, Reason, Verdict};
use crate::task::TaskId;
use crate::verify::Verified;

/// Where what is to come is staged, below the folder of everything that is handed over.
pub(crate) const STAGING: &str = "staging";

/// What becomes of a submission, and why.
#[derive(Debug, Clone)]
pub(crate) struct Ruling {
    pub(crate) verdict: Verdict,
    pub(crate) reasons: Vec<Reason>,
    /// What it was decided by.
    pub(crate) policy: Fingerprint,
    pub(crate) review: Review,
    pub(crate) verified: Option<Verified>,
    /// The worker learns of it by the answer to what it asked.
    pub(crate) told: bool,
}

impl Ruling {
    fn step(self, submission: u64, files: Vec<Replacing>) -> Step {
        let Ruling { verdict, reasons, policy, verified, told, .. } = self;
        Step::Decided { submission, verdict, reasons, files, policy, verified, told }
    }

    /// That it could not be applied after all: a person decides, where one is asked.
    fn not_applied(mut self, submission: &Submission, why: &str) -> Ruling {
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

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    Not(String),
}

impl Held<'_> {
    pub(crate) fn staging(&self) -> Result<Folder, DeskError> {
        self.handoff.folder(STAGING).map_err(file(format!("{HANDOFF}/{STAGING}")))
    }

    /// Does what was decided by the gate.
    pub(crate) async fn carry_out(&mut self, id: u64, ruling: Ruling) -> Result<(), DeskError> {
        let submission = self.submission(id)?.clone();
        if ruling.verdict != Verdict::Accepted {
            return self.settle(GATE, &submission, ruling).await;
        }
        let files = submission.files.iter().map(|file| Replacing {
            path: file.path.clone(),
            before: file.before,
            after: Some(file.after),
        });
        self.accept(GATE, &submission, ruling, files.collect()).await.map(drop)
    }

    /// Sends a submission back, or puts it before a person.
    pub(crate) async fn settle(
        &mut self,
        by: &str,
        submission: &Submission,
        ruling: Ruling,
    ) -> Result<(), DeskError> {
        let rejected = ruling.verdict == Verdict::Rejected;
        self.note(by, ruling.step(submission.id, Vec::new())).await?;
        match rejected {
            true => self.remove_drafts(submission),
            false => {
                self.write_submission(self.submission(submission.id)?);
                Ok(())
            }
        }
    }

    /// Applies a submission: stages it, writes the intent down, changes the files. What cannot be applied is
    /// settled otherwise.
    pub(crate) async fn accept(
        &mut self,
        by: &str,
        submission: &Submission,
        ruling: Ruling,
        files: Vec<Replacing>,
    ) -> Result<Applied, DeskError> {
        let (id, desk) = (submission.id, self.desk);
        let staging = self.staging()?;
        let applier = Applier { workspace: &desk.workspace, staging: &staging };
        let bytes = |hash| desk.copies.get(hash);
        let staged = applier.items(id, &files).and_then(|items| {
            applier.stage(&items, &bytes)?;
            Ok(items)
        });
        let items = match staged {
            Ok(items) => items,
            Err(error) => {
                let why = error.to_string();
                self.settle(GATE, submission, ruling.not_applied(submission, &why)).await?;
                return Ok(Applied::Not(why));
            }
        };
        let told = ruling.told;
        if let Err(error) = self.note(by, ruling.clone().step(id, files.clone())).await {
            // Without an intent nothing is applied.
            applier.clear(&items);
            return Err(error);
        }
        match applier.apply(&items, &bytes) {
            Ok(()) => {
                self.note(by, Step::Applied { submission: id, told }).await?;
                self.remove_drafts(submission)?;
                Ok(Applied::Done)
            }
            // The intent stands, and whoever comes next finishes it.
            Err(error @ ApplyError::Half { .. }) => Err(unfinished(&error)),
            Err(error) => {
                self.note_not_applied(by, submission, ruling, &error).await?;
                Ok(Applied::Not(error.to_string()))
            }
        }
    }

    /// Takes back what was applied.
    pub(crate) async fn undo(&mut self, by: &str, id: u64) -> Result<(), DeskError> {
        let submission = self.submission(id)?.clone();
        let files = submission.reversed();
        for hash in files.iter().filter_map(|file| file.after) {
            self.desk.copy(hash)?;
        }
        let desk = self.desk;
        let staging = self.staging()?;
        let applier = Applier { workspace: &desk.workspace, staging: &staging };
        let conflict = |error: ApplyError| DeskError::Conflict(error.to_string());
        let items = applier.items(id, &files).map_err(conflict)?;
        let bytes = |hash| desk.copies.get(hash);
        applier.stage(&items, &bytes).map_err(conflict)?;
        let step = Step::Undoing { submission: id, files: files.clone() };
        if let Err(error) = self.note(by, step).await {
            applier.clear(&items);
            return Err(error);
        }
        match applier.apply(&items, &bytes) {
            Ok(()) => self.note(by, Step::Undone { submission: id }).await.map(drop),
            Err(error @ ApplyError::Half { .. }) => Err(unfinished(&error)),
            Err(error) => {
                let why = error.to_string();
                self.note(by, Step::NotApplied { submission: id, why }).await?;
                Err(conflict(error))
            }
        }
    }

    /// Finishes what a process that died had begun.
    pub(crate) async fn finish_what_was_begun(&mut self) -> Result<(), DeskError> {
        let begun = |submission: &&Submission| {
            matches!(submission.stage, Stage::Accepting | Stage::Undoing)
        };
        let begun: Vec<Submission> =
            self.book().submissions.values().filter(begun).cloned().collect();
        for submission in begun {
            let (id, desk) = (submission.id, self.desk);
            let staging = self.staging()?;
            let applier = Applier { workspace: &desk.workspace, staging: &staging };
            let files = submission.changes();
            let bytes = |hash| desk.copies.get(hash);
            let resumed = applier.items(id, &files).and_then(|i| applier.resume(&i, &bytes));
            match (resumed, submission.stage) {
                (Ok(()), Stage::Undoing) => {
                    self.note(GATE, Step::Undone { submission: id }).await?;
                }
                (Ok(()), _) => {
                    self.note(GATE, Step::Applied { submission: id, told: false }).await?;
                    self.remove_drafts(&submission)?;
                }
                // The disk still does not let it be finished: others need not wait for that.
                (Err(error @ ApplyError::Half { .. }), _) => {
                    tracing::warn!(submission = id, %error, "an application cannot be finished yet");
                }
                (Err(error), Stage::Undoing) => {
                    let why = error.to_string();
                    self.note(GATE, Step::NotApplied { submission: id, why }).await?;
                }
                (Err(error), _) => {
                    let ruling = Ruling {
                        verdict: Verdict::Escalated,
                        reasons: submission.reasons.clone(),
                        policy: submission.policy,
                        review: desk.options.policy.review,
                        verified: submission.verified.clone(),
                        told: false,
                    };
                    self.note_not_applied(GATE, &submission, ruling, &error).await?;
                }
            }
        }
        Ok(())
    }

    /// That an intent came to nothing.
    async fn note_not_applied(
        &mut self,
        by: &str,
        submission: &Submission,
        ruling: Ruling,
        error: &ApplyError,
    ) -> Result<(), DeskError> {
        let why = error.to_string();
        let step = Step::NotApplied { submission: submission.id, why: why.clone() };
        self.note(by, step).await?;
        self.settle(GATE, submission, ruling.not_applied(submission, &why)).await
    }

    /// Takes away drafts of what was settled, where a crash came between the entry and the drafts.
    pub(crate) fn remove_left_drafts(&self) -> Result<(), DeskError> {
        let names = self.drafts.names().map_err(file(DRAFTS))?;
        let left = |submission: &&Submission| {
            let settled = matches!(submission.stage, Stage::Accepted | Stage::Rejected);
            let is_left =
                |draft: &String| names.contains(draft) && !self.book().drafts.contains_key(draft);
            settled && submission.files.iter().filter_map(|f| f.draft.as_ref()).any(is_left)
        };
        self.book().submissions.values().filter(left).try_for_each(|left| self.remove_drafts(left))
    }

    /// Takes the drafts of a settled submission away, as far as nobody has asked for them anew; last the drafts
    /// themselves, by which whoever comes next sees that it was not done to the end.
    pub(crate) fn remove_drafts(&self, submission: &Submission) -> Result<(), DeskError> {
        let waits = |s: &Submission| {
            s.task == submission.task && matches!(s.stage, Stage::Submitted | Stage::Escalated)
        };
        let name = submission_file(&submission.task);
        match self.book().submissions.values().rev().find(|s| waits(s)) {
            Some(waiting) => self.write_submission(waiting),
            None => _ = self.drafts.discard(&name).map_err(file(name))?,
        }
        for draft in submission.files.iter().filter_map(|file| file.draft.as_ref()) {
            if !self.book().drafts.contains_key(draft) {
                self.drafts.remove(draft).map_err(file(draft))?;
            }
        }
        Ok(())
    }

    /// Writes down beside the drafts what was submitted, for people. Nobody reads it back.
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

/// That files could be changed neither all the way nor back.
fn unfinished(error: &ApplyError) -> DeskError {
    DeskError::Unfinished(format!("{error}; it is finished as soon as the disk allows"))
}

/// Where a task's submission is written down.
fn submission_file(task: &TaskId) -> String {
    format!("{task}.submission.json")
}

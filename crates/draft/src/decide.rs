//! The desk's back: what becomes of what was handed in. The gate decides, and where it is in doubt a person.

use std::sync::Arc;

use assize_types::Fingerprint;

use crate::book::{Replacing, Stage, Step, Submission};
use crate::desk::{Accept, Applied, Desk, DeskError, GATE, Held, file};
use crate::gate::{self, Change, Effect, Reason, Verdict};
use crate::inside::Inside;
use crate::policy::{Places, Policy, Review};
use crate::verify::{NotVerified, Verified};

/// Whether a person accepts what has changed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    No,
    /// The draft replaces whatever is there now.
    Yes,
}

impl Desk {
    /// Decides on what was handed in. `told` says whether the worker waits for the answer.
    pub(crate) async fn decide(self: &Arc<Self>, id: u64, told: bool) -> Result<(), DeskError> {
        let Some(_right) = self.right_to_decide(id)? else { return Ok(()) };
        let mut held = self.hold().await?;
        let (policy, places) = held.policy()?;
        let mut submission = held.submission(id)?.clone();
        if submission.stage != Stage::Submitted {
            return Ok(());
        }
        let mut reasons = held.look(&submission, &policy, &places)?;
        let mut verified = None;
        let fails = Verdict::of(&reasons, policy.review) == Verdict::Rejected;
        if let Some(how) = policy.verify.as_ref().filter(|_| !fails) {
            // It may take long, and others may use the desk meanwhile.
            drop(held);
            match self.verify(&submission, how, &policy).await {
                Ok(done) => {
                    if !done.passed {
                        reasons.push(failed_verification(&submission, &done));
                    }
                    verified = Some(done);
                }
                Err(NotVerified(why)) => reasons.push(not_verified(&submission, &why)),
            }
            held = self.hold().await?;
            submission = held.submission(id)?.clone();
            if submission.stage != Stage::Submitted {
                return Ok(());
            }
            // The files may have changed in the meantime.
            reasons.retain(|reason| !matches!(reason.rule.as_str(), "conflict" | "symlink"));
            reasons.extend(held.conflicts(&submission)?);
        }
        let decided = held.conclude(&submission, &policy, reasons, verified, told).await;
        drop(held);
        self.forget_right(id);
        decided
    }

    /// Decides on all that nobody decides on: their process is gone.
    ///
    /// # Errors
    /// When the store or the files cannot be used.
    pub async fn decide_what_is_left(self: &Arc<Self>) -> Result<(), DeskError> {
        let book = self.book().await?;
        let left = book.submissions.values().filter(|s| s.stage == Stage::Submitted).map(|s| s.id);
        for id in left.collect::<Vec<_>>() {
            self.decide(id, false).await?;
        }
        Ok(())
    }

    /// A person accepts what was escalated.
    ///
    /// # Errors
    /// When it is not to be decided any more, or the files have changed.
    pub async fn accept(&self, by: &str, id: u64, force: Force) -> Result<(), DeskError> {
        let mut held = self.hold().await?;
        let submission = held.escalated(id)?;
        let (policy, _) = held.policy()?;
        let mut files = Vec::new();
        for proposed in &submission.files {
            let path = held.path(&proposed.path)?;
            let now = self.workspace.read(&path, u64::MAX - 1);
            let before = match (now, force) {
                (Ok(original), Force::Yes) => {
                    self.copies.keep(&original.bytes).map_err(file("copies"))?;
                    Some(original.sha256)
                }
                (Err(crate::FileError::Missing), Force::Yes) => None,
                (now, _) => {
                    let now = gate::now(now).map_err(file(&proposed.path))?;
                    if now != proposed.before {
                        let path = &proposed.path;
                        return Err(DeskError::Conflict(format!(
                            "`{path}` has changed since the draft was made from it"
                        )));
                    }
                    now
                }
            };
            let after = Some(proposed.after);
            if before != after {
                files.push(Replacing { path: proposed.path.clone(), before, after });
            }
        }
        let accept = Accept {
            submission: id,
            decision: Verdict::Accepted,
            reasons: submission.reasons,
            files,
            policy: policy.fingerprint(),
            verified: submission.verified,
            told: false,
        };
        match held.apply(by, accept).await? {
            Applied::Done => Ok(()),
            Applied::Not(why) => Err(DeskError::Conflict(why)),
        }
    }

    /// A person rejects what was escalated.
    ///
    /// # Errors
    /// When it is not to be decided any more.
    pub async fn reject(&self, by: &str, id: u64, why: &str) -> Result<(), DeskError> {
        let mut held = self.hold().await?;
        let submission = held.escalated(id)?;
        let (policy, _) = held.policy()?;
        let file = submission.files.first().map(|file| file.path.clone()).unwrap_or_default();
        let message = match why.trim() {
            "" => "a person rejected it".to_owned(),
            why => format!("a person rejected it: {}", assize_types::text::shorten(why, 2000)),
        };
        let reason = Reason {
            effect: Effect::Reject,
            rule: "person".to_owned(),
            file,
            line: None,
            message,
            what_to_do: "do what they say".to_owned(),
        };
        let reasons = std::iter::once(reason).chain(submission.reasons.clone()).collect();
        let verified = submission.verified.clone();
        held.reject(by, &submission, reasons, &policy, verified, false).await
    }

    /// A person takes back what was accepted: the files are again what they were, byte for byte.
    ///
    /// # Errors
    /// When it was not accepted, or the files have changed since.
    pub async fn undo(&self, by: &str, id: u64) -> Result<(), DeskError> {
        let mut held = self.hold().await?;
        let submission = held.submission(id)?;
        if submission.stage != Stage::Accepted {
            let stage = submission.stage.name();
            return Err(DeskError::Wrong(format!("submission {id} is {stage}, not accepted")));
        }
        if submission.swept {
            let why = format!("what was before submission {id} is not kept any more");
            return Err(DeskError::Wrong(why));
        }
        held.undo(by, id).await
    }
}

fn failed_verification(submission: &Submission, done: &Verified) -> Reason {
    let file = submission.files.first().map(|file| file.path.clone()).unwrap_or_default();
    let end: Vec<&str> = done.output.lines().rev().take(20).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    Reason {
        effect: Effect::Reject,
        rule: "verify".to_owned(),
        file,
        line: None,
        message: format!("`{}` failed: {}\n{}", done.command, done.outcome, end.join("\n")),
        what_to_do: "mend what it complains about".to_owned(),
    }
}

fn not_verified(submission: &Submission, why: &str) -> Reason {
    let file = submission.files.first().map(|file| file.path.clone()).unwrap_or_default();
    Reason {
        effect: Effect::Escalate,
        rule: "verify".to_owned(),
        file,
        line: None,
        message: format!("it could not be verified: {why}"),
        what_to_do: "wait for a person's decision".to_owned(),
    }
}

impl Held<'_> {
    fn path(&self, path: &str) -> Result<Inside, DeskError> {
        self.desk.workspace.inside(path).map_err(|error| DeskError::Wrong(error.to_string()))
    }

    fn escalated(&self, id: u64) -> Result<Submission, DeskError> {
        let submission = self.submission(id)?;
        match submission.stage {
            Stage::Escalated => Ok(submission.clone()),
            stage => {
                let stage = stage.name();
                Err(DeskError::Wrong(format!("submission {id} is {stage}, and waits for nobody")))
            }
        }
    }

    /// All that speaks against a submission.
    fn look(
        &self,
        submission: &Submission,
        policy: &Policy,
        places: &Places,
    ) -> Result<Vec<Reason>, DeskError> {
        let mut reasons = Vec::new();
        for proposed in &submission.files {
            let path = self.path(&proposed.path)?;
            let base = proposed.before.map(|hash| self.desk.copy(hash)).transpose()?;
            let draft = self.desk.copy(proposed.after)?;
            let change = Change {
                path: &path,
                base: base.as_deref(),
                draft: &draft,
                draft_mode: proposed.draft_mode,
                now: gate::now(self.desk.workspace.read(&path, u64::MAX - 1)),
                twin: self.twin(&path, proposed.before),
            };
            reasons.extend(gate::look(&change, policy, places));
        }
        // What the task has changed already counts.
        let earlier =
            self.book().submissions.values().filter(|earlier| {
                earlier.task == submission.task && earlier.stage == Stage::Accepted
            });
        let files: std::collections::BTreeSet<&str> = earlier
            .flat_map(|earlier| &earlier.files)
            .chain(&submission.files)
            .map(|file| file.path.as_str())
            .collect();
        if let Some(first) = submission.files.first().filter(|_| files.len() > policy.max_files) {
            let path = self.path(&first.path)?;
            let (count, most) = (files.len(), policy.max_files);
            let message = format!("the task changes {count} files, and {most} may be changed");
            let reason = Reason::about(&path, Effect::Escalate, "scope/files");
            reasons.push(
                reason.saying(message, "change fewer files, or wait for a person's decision"),
            );
        }
        Ok(reasons)
    }

    /// A file beside a new one that has the same name but for the case of its letters.
    fn twin(&self, path: &Inside, before: Option<Fingerprint>) -> Option<String> {
        if before.is_some() {
            return None;
        }
        self.desk.workspace.twin(path)
    }

    fn conflicts(&self, submission: &Submission) -> Result<Vec<Reason>, DeskError> {
        let mut reasons = Vec::new();
        for proposed in &submission.files {
            let path = self.path(&proposed.path)?;
            let base = proposed.before.map(|hash| self.desk.copy(hash)).transpose()?;
            let change = Change {
                path: &path,
                base: base.as_deref(),
                draft: &[],
                draft_mode: proposed.draft_mode,
                now: gate::now(self.desk.workspace.read(&path, u64::MAX - 1)),
                twin: None,
            };
            reasons.extend(gate::conflict(&change));
        }
        Ok(reasons)
    }

    /// Does what the reasons come to.
    async fn conclude(
        &mut self,
        submission: &Submission,
        policy: &Policy,
        reasons: Vec<Reason>,
        verified: Option<Verified>,
        told: bool,
    ) -> Result<(), DeskError> {
        let id = submission.id;
        match Verdict::of(&reasons, policy.review) {
            Verdict::Rejected => {
                self.reject(GATE, submission, reasons, policy, verified, told).await
            }
            Verdict::Accepted => {
                let files = submission.files.iter().map(|file| Replacing {
                    path: file.path.clone(),
                    before: file.before,
                    after: Some(file.after),
                });
                let accept = Accept {
                    submission: id,
                    decision: Verdict::Accepted,
                    reasons: reasons.clone(),
                    files: files.collect(),
                    policy: policy.fingerprint(),
                    verified: verified.clone(),
                    told,
                };
                let Applied::Not(why) = self.apply(GATE, accept).await? else { return Ok(()) };
                if self.submission(id)?.stage == Stage::Escalated {
                    return Ok(());
                }
                // It could not even be staged.
                let path = self.path(&submission.files[0].path)?;
                let reason = Reason::about(&path, Effect::Escalate, "apply");
                let message = format!("it could not be applied: {why}");
                let mut reasons = reasons;
                reasons.push(reason.saying(message, "wait for a person's decision"));
                self.escalate(submission, reasons, policy, verified, told).await
            }
            Verdict::Escalated => {
                let mut reasons = reasons;
                let doubts = reasons.iter().any(|reason| reason.effect == Effect::Escalate);
                if policy.review == Review::Always && !doubts {
                    let path = self.path(&submission.files[0].path)?;
                    let reason = Reason::about(&path, Effect::Escalate, "review");
                    let message = "every change here is looked at by a person";
                    reasons.push(reason.saying(message, "wait for their decision"));
                }
                self.escalate(submission, reasons, policy, verified, told).await
            }
        }
    }

    async fn escalate(
        &mut self,
        submission: &Submission,
        reasons: Vec<Reason>,
        policy: &Policy,
        verified: Option<Verified>,
        told: bool,
    ) -> Result<(), DeskError> {
        let step = Step::Escalated {
            submission: submission.id,
            decision: Verdict::Escalated,
            reasons,
            policy: policy.fingerprint(),
            verified,
            told,
        };
        self.note(GATE, step).await?;
        self.write_submission(self.submission(submission.id)?)
    }

    async fn reject(
        &mut self,
        by: &str,
        submission: &Submission,
        reasons: Vec<Reason>,
        policy: &Policy,
        verified: Option<Verified>,
        told: bool,
    ) -> Result<(), DeskError> {
        let step = Step::Rejected {
            submission: submission.id,
            decision: Verdict::Rejected,
            reasons,
            policy: policy.fingerprint(),
            verified,
            told,
        };
        self.note(by, step).await?;
        self.remove_drafts(submission)
    }
}

//! The desk's back: what becomes of what was handed in. The gate decides, and where it is in doubt a person.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_config::Review;
use assize_types::Fingerprint;

use crate::book::{Proposed, Replacing, Stage, Submission};
use crate::carry_out::{Applied, Ruling};
use crate::desk::{Desk, DeskError, Held, file};
use crate::diff::Diff;
use crate::folder::{Lock, Wait};
use crate::gate::{self, Change, Effect, Reason, Scanners, Verdict};
use crate::inside::Inside;
use crate::missing::missing_tool;
use crate::places::Places;
use crate::policy::Policy;
use crate::verify::{Judged, NotVerified, Verified};
use crate::workspace::FileError;

/// Whether a person accepts what has changed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    No,
    /// The draft replaces whatever is there now.
    Yes,
}

impl Desk {
    /// Decides on what was handed in, or waits for whoever does. `waits` says whether the worker waits for the
    /// answer.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        id: u64,
        waits: &AtomicBool,
        wait: Wait,
    ) -> Result<(), DeskError> {
        let _right = match (self.right_to_decide(id)?, wait) {
            (Some(right), _) => right,
            (None, Wait::No) => return Ok(()),
            (None, Wait::Yes) => self.wait_for_right(id).await?,
        };
        let mut held = self.hold().await?;
        let submission = held.submission(id)?.clone();
        if submission.stage != Stage::Submitted {
            return Ok(());
        }
        let (mut policy, places) = held.policy()?;
        let mut reasons = held.look(&submission, &policy, &places)?;
        let mut verified = None;
        let hopeless = |reason: &Reason| {
            reason.effect == Effect::Reject || ["conflict", "symlink"].contains(&&*reason.rule)
        };
        if !policy.verify.is_empty() && !reasons.iter().any(hopeless) {
            // It may take long, and others may use the desk meanwhile.
            drop(held);
            let found = self.run_all(&submission, &policy).await;
            held = self.hold().await?;
            if held.submission(id)?.stage != Stage::Submitted {
                return Ok(());
            }
            // Much may have changed in the meantime: files, the contract, the switch.
            let (now, places) = held.policy()?;
            reasons = held.look(&submission, &now, &places)?;
            reasons.extend(found.0);
            verified = found.1;
            policy = now;
        }
        // While the tools are off a reviewer decides, even where none is asked otherwise.
        let review = match held.book().off {
            true => Review::Escalated,
            false => policy.review,
        };
        let told = waits.load(Ordering::Relaxed);
        let policy = policy.fingerprint();
        let ruling = rule(&submission, (review, policy), reasons, verified, told);
        held.carry_out(id, ruling).await
    }

    /// Runs all that must pass; gives what speaks against it, and the last that was run.
    async fn run_all(
        &self,
        submission: &Submission,
        policy: &Policy,
    ) -> (Vec<Reason>, Option<Verified>) {
        let (mut reasons, mut verified) = (Vec::new(), None);
        for how in &policy.verify {
            match self.verify(submission, how, policy).await {
                Ok(Judged { verified: done, doubt: Some(why) }) => {
                    let message = format!("`{}` exited with 0, but {why}", done.command);
                    reasons.push(submission.reason(Effect::Escalate, "verify", message));
                    return (reasons, Some(done));
                }
                Ok(Judged { verified: done, .. }) if done.passed => verified = Some(done),
                Ok(Judged { verified: done, .. }) => {
                    let reason = match missing_tool(&done.output, &self.added_lines(submission)) {
                        None => failed_verification(submission, &done),
                        Some(tool) => {
                            let message = format!(
                                "`{}` could not be run: `{tool}` is missing in the sandbox",
                                done.command
                            );
                            submission.reason(Effect::Escalate, "verify", message)
                        }
                    };
                    reasons.push(reason);
                    return (reasons, Some(done));
                }
                Err(NotVerified(why)) => {
                    let message = format!("it could not be verified: {why}");
                    reasons.push(submission.reason(Effect::Escalate, "verify", message));
                }
            }
        }
        (reasons, verified)
    }

    /// The lines that a submission adds.
    fn added_lines(&self, submission: &Submission) -> String {
        let text =
            |hash| String::from_utf8_lossy(&self.copy(hash).unwrap_or_default()).into_owned();
        let mut added = String::new();
        for file in &submission.files {
            let before = file.before.map(text).unwrap_or_default();
            for (_, line) in Diff::between(&before, &text(file.after)).added {
                added.push_str(&line);
                added.push('\n');
            }
        }
        added
    }

    async fn wait_for_right(&self, id: u64) -> Result<Lock, DeskError> {
        let (state, name) = (self.state.clone(), format!("deciding-{id}"));
        let waited = tokio::task::spawn_blocking(move || state.lock(&name, Wait::Yes)).await;
        let lost = || DeskError::Wrong("the wait for a decision was given up".to_owned());
        waited.map_err(|_| lost())?.map_err(file("lock"))?.ok_or_else(lost)
    }

    /// The right to decide on a submission; `None` where another process does.
    pub(crate) fn right_to_decide(&self, id: u64) -> Result<Option<Lock>, DeskError> {
        self.state.lock(&format!("deciding-{id}"), Wait::No).map_err(file("lock"))
    }

    /// Begins to decide on all that nobody decides on: their process is gone.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn begin_to_decide_what_is_left(self: &Arc<Self>) -> Result<(), DeskError> {
        let book = self.book().await?;
        let left = book.submissions.values().filter(|s| s.stage == Stage::Submitted).map(|s| s.id);
        for id in left.collect::<Vec<_>>() {
            let desk = Arc::clone(self);
            self.deciding.spawn(async move {
                let nobody = AtomicBool::new(false);
                if let Err(error) = desk.decide(id, &nobody, Wait::No).await {
                    tracing::warn!(submission = id, %error, "nothing could be decided");
                }
            });
        }
        Ok(())
    }

    /// Waits for decisions that are under way here.
    pub async fn finish_deciding(&self) {
        self.deciding.close();
        self.deciding.wait().await;
        self.deciding.reopen();
    }

    /// A person accepts what waits.
    ///
    /// # Errors
    /// When it is not to be decided any more, or the files have changed.
    pub async fn accept(&self, by: &str, id: u64, force: Force) -> Result<(), DeskError> {
        let _right = self.right_to_decide(id)?.ok_or_else(|| being_verified(id))?;
        let mut held = self.hold().await?;
        let submission = held.waiting(id)?;
        let (policy, _) = held.policy()?;
        let mut files = Vec::new();
        for proposed in &submission.files {
            let before = held.replaced(proposed, force)?;
            let after = Some(proposed.after);
            if before != after {
                files.push(Replacing { path: proposed.path.clone(), before, after });
            }
        }
        let ruling = Ruling {
            verdict: Verdict::Accepted,
            reasons: submission.reasons.clone(),
            policy: policy.fingerprint(),
            // They look at it now.
            review: Review::Escalated,
            verified: submission.verified.clone(),
            told: false,
        };
        match held.accept(by, &submission, ruling, files).await? {
            Applied::Done => Ok(()),
            Applied::Not(why) => Err(DeskError::Conflict(why)),
        }
    }

    /// A person rejects what waits.
    ///
    /// # Errors
    /// When it is not to be decided any more.
    pub async fn reject(&self, by: &str, id: u64, why: &str) -> Result<(), DeskError> {
        let _right = self.right_to_decide(id)?.ok_or_else(|| being_verified(id))?;
        let mut held = self.hold().await?;
        let submission = held.waiting(id)?;
        let message = match why.trim() {
            "" => "a person rejected it".to_owned(),
            why => format!("a person rejected it: {}", assize_types::text::shorten(why, 2000)),
        };
        let mut reason = submission.reason(Effect::Reject, "person", message);
        reason.what_to_do = "do what they say".to_owned();
        let ruling = Ruling {
            verdict: Verdict::Rejected,
            // What the gate had doubted is settled by what they say.
            reasons: vec![reason],
            // A contract that is not right keeps nobody from saying no.
            policy: held.policy().map_or(submission.policy, |(policy, _)| policy.fingerprint()),
            review: Review::Escalated,
            verified: submission.verified.clone(),
            told: false,
        };
        held.settle(by, &submission, ruling).await
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

/// What the reasons come to.
fn rule(
    submission: &Submission,
    (review, policy): (Review, Fingerprint),
    mut reasons: Vec<Reason>,
    verified: Option<Verified>,
    told: bool,
) -> Ruling {
    if review == Review::Always && reasons.is_empty() {
        let message = "every change here is looked at by a person";
        reasons.push(submission.reason(Effect::Escalate, "review", message));
    }
    if review == Review::Never {
        for reason in reasons.iter_mut().filter(|reason| reason.effect == Effect::Escalate) {
            reason.what_to_do =
                "nobody is asked here: change less, or leave this file alone".to_owned();
        }
    }
    let verdict = Verdict::of(&reasons, review);
    if verdict == Verdict::Rejected && review != Review::Never {
        for reason in reasons.iter_mut().filter(|reason| reason.effect == Effect::Escalate) {
            reason.what_to_do =
                "mend the rest; this alone would be for a person to decide".to_owned();
        }
    }
    Ruling { verdict, reasons, policy, review, verified, told }
}

fn failed_verification(submission: &Submission, done: &Verified) -> Reason {
    let end: Vec<&str> = done.output.lines().rev().take(20).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    let message = format!("`{}` failed: {}\n{}", done.command, done.outcome, end.join("\n"));
    let mut reason = submission.reason(Effect::Reject, "verify", message);
    reason.what_to_do = "mend what it complains about".to_owned();
    reason
}

pub(crate) fn being_verified(id: u64) -> DeskError {
    DeskError::Wrong(format!("submission {id} is being verified; wait until that is done"))
}

impl Held<'_> {
    fn path(&self, path: &str) -> Result<Inside, DeskError> {
        self.desk.workspace.inside(path).map_err(|error| DeskError::Wrong(error.to_string()))
    }

    /// A submission that a person can decide on.
    fn waiting(&self, id: u64) -> Result<Submission, DeskError> {
        let submission = self.submission(id)?;
        match submission.stage {
            Stage::Escalated | Stage::Submitted => Ok(submission.clone()),
            stage => {
                let stage = stage.name();
                Err(DeskError::Wrong(format!("submission {id} is {stage}, and waits for nobody")))
            }
        }
    }

    /// What a person replaces: what the draft was made from, or whatever is there now.
    fn replaced(
        &self,
        proposed: &Proposed,
        force: Force,
    ) -> Result<Option<Fingerprint>, DeskError> {
        let path = self.path(&proposed.path)?;
        let now = match self.desk.workspace.read(&path, u64::MAX - 1) {
            Ok(original) => Some(original),
            Err(FileError::Missing) => None,
            Err(error) => return Err(file(&proposed.path)(error)),
        };
        let hash = now.as_ref().map(|original| original.sha256);
        match (now, force) {
            (_, Force::No) if hash != proposed.before => Err(DeskError::Conflict(format!(
                "`{}` has changed since the draft was made from it",
                proposed.path
            ))),
            // So that it can be brought back.
            (Some(original), Force::Yes) => {
                self.desk.copies.keep(&original.bytes).map_err(file("copies"))?;
                Ok(hash)
            }
            _ => Ok(hash),
        }
    }

    /// All that speaks against a submission.
    fn look(
        &self,
        submission: &Submission,
        policy: &Policy,
        places: &Places,
    ) -> Result<Vec<Reason>, DeskError> {
        let scanners = Scanners::get()?;
        let mut reasons = Vec::new();
        if policy.task.as_deref().is_some_and(|only| only != submission.task.as_str()) {
            let message = "the contract is about another task";
            let mut reason = submission.reason(Effect::Reject, "path/not-allowed", message);
            reason.what_to_do = "work on the task that the contract names".to_owned();
            reasons.push(reason);
        }
        for proposed in &submission.files {
            match self.change(proposed) {
                Ok(change) => {
                    reasons.extend(gate::look(&change.beside(), policy, places, scanners));
                }
                // What cannot be looked at is nothing that may pass.
                Err(error) => {
                    let message = format!("it cannot be looked at: {error}");
                    reasons.push(submission.reason(Effect::Escalate, "unreadable", message));
                }
            }
        }
        reasons.extend(self.too_many_files(submission, policy));
        if self.book().off {
            let message = "the draft tools are off: the change is kept as a proposed patch";
            let mut reason = submission.reason(Effect::Escalate, "off", message);
            reason.what_to_do = format!("`assize gate accept {}` applies it", submission.id);
            reasons.push(reason);
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
            self.book().submissions.values().filter(|earlier| {
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

    /// A draft beside what it is to replace.
    fn change(&self, proposed: &Proposed) -> Result<Owned, DeskError> {
        let path = self.path(&proposed.path)?;
        let is_new = proposed.before.is_none();
        let now = self.desk.workspace.read(&path, u64::MAX - 1);
        Ok(Owned {
            base: proposed.before.map(|hash| self.desk.copy(hash)).transpose()?,
            draft: self.desk.copy(proposed.after)?,
            draft_mode: proposed.draft_mode,
            mode: now.as_ref().ok().map(|original| original.mode),
            now: gate::fingerprint(now),
            ignored_by: self.desk.workspace.ignored_by(&path, &self.desk.options.git),
            twin: is_new.then(|| self.desk.workspace.twin(&path)).flatten(),
            path,
        })
    }
}

/// A draft beside what it is to replace, with all that belongs to it.
struct Owned {
    path: Inside,
    base: Option<Vec<u8>>,
    draft: Vec<u8>,
    draft_mode: u32,
    now: Result<Option<Fingerprint>, FileError>,
    twin: Option<String>,
    mode: Option<u32>,
    ignored_by: Option<String>,
}

impl Owned {
    fn beside(&self) -> Change<'_> {
        Change {
            path: &self.path,
            base: self.base.as_deref(),
            draft: &self.draft,
            draft_mode: self.draft_mode,
            now: self.now.as_ref().copied(),
            twin: self.twin.as_deref(),
            mode: self.mode,
            ignored_by: self.ignored_by.as_deref(),
        }
    }
}

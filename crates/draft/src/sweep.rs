//! Putting away what is old, and what processes left that died.

use std::collections::BTreeSet;
use std::time::Duration;

use assize_config::Review;
use assize_types::Fingerprint;
use serde::Serialize;

use crate::book::{OpenDraft, Stage, Step, Submission};
use crate::carry_out::{Ruling, STAGING};
use crate::decide::being_verified;
use crate::desk::{Desk, DeskError, Held, file};
use crate::folder::DRAFTS;
use crate::gate::{Effect, Verdict};
use crate::task::TaskId;

/// What was put away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cleared {
    pub submissions: usize,
    pub drafts: usize,
    pub copies: usize,
}

impl Desk {
    /// Puts away what has been settled, or lain about, for longer than it is kept.
    ///
    /// # Errors
    /// When something cannot be put away.
    pub async fn sweep(&self, by: &str, now: u64, keep: Duration) -> Result<Cleared, DeskError> {
        let mut held = self.hold().await?;
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let old = |at: u64| at.saturating_add(keep) <= now;
        let abandoned = held.abandoned(&old)?;
        let settled = |s: &&Submission| {
            let settled = matches!(s.stage, Stage::Accepted | Stage::Rejected | Stage::Undone);
            !s.swept && settled && old(s.settled)
        };
        let submissions: Vec<u64> =
            held.book().submissions.values().filter(settled).map(|s| s.id).collect();
        for (draft, task) in &abandoned {
            held.note(by, Step::Expired { draft: draft.clone(), task: task.clone() }).await?;
            held.drafts.remove(draft).map_err(file(draft))?;
        }
        let copies = self.copies.sweep(&held.wanted(&submissions)).map_err(file("copies"))?;
        let cleared = Cleared { submissions: submissions.len(), drafts: abandoned.len(), copies };
        if !submissions.is_empty() || copies > 0 {
            held.note(by, Step::Swept { submissions, copies }).await?;
        }
        held.clear_leftovers()?;
        Ok(cleared)
    }
}

/// What emptying the drafts folder deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Emptied {
    /// Submissions that waited for a decision and are rejected now.
    pub rejected: usize,
    /// Drafts that were never submitted.
    pub drafts: usize,
    /// Other files in the folder.
    pub files: usize,
    /// Folders in it, which are left: drafts are files, so they belong to another program.
    pub left: Vec<String>,
}

impl Desk {
    /// Empties the drafts folder: rejects every submission that waits, and deletes every draft and every other file.
    /// What was decided before stays in the log and can be undone.
    ///
    /// # Errors
    /// When a submission is being verified, or a file cannot be deleted.
    pub async fn empty(&self, by: &str) -> Result<Emptied, DeskError> {
        let mut held = self.hold().await?;
        let waits = |s: &&Submission| matches!(s.stage, Stage::Submitted | Stage::Escalated);
        let waiting: Vec<Submission> =
            held.book().submissions.values().filter(waits).cloned().collect();
        let rights = waiting.iter().map(|submission| {
            self.right_to_decide(submission.id)?.ok_or_else(|| being_verified(submission.id))
        });
        // All of them before anything is deleted.
        let _rights = rights.collect::<Result<Vec<_>, _>>()?;
        for submission in &waiting {
            let reason =
                submission.reason(Effect::Reject, "person", "the drafts folder was emptied");
            let ruling = Ruling {
                verdict: Verdict::Rejected,
                reasons: vec![reason],
                policy: submission.policy,
                review: Review::Escalated,
                verified: submission.verified.clone(),
                told: false,
            };
            held.settle(by, submission, ruling).await?;
        }
        let open: Vec<OpenDraft> = held.book().drafts.values().cloned().collect();
        for OpenDraft { name, task, .. } in &open {
            held.note(by, Step::Expired { draft: name.clone(), task: task.clone() }).await?;
            held.drafts.remove(name).map_err(file(name))?;
        }
        held.drafts.discard_unfinished().map_err(file(DRAFTS))?;
        let (mut files, mut left) = (0, Vec::new());
        for name in held.drafts.names().map_err(file(DRAFTS))? {
            match held.drafts.discard(&name).map_err(file(&name))? {
                true => files += 1,
                false => left.push(name),
            }
        }
        Ok(Emptied { rejected: waiting.len(), drafts: open.len(), files, left })
    }
}

impl Held<'_> {
    /// Open drafts that nobody has written to for long.
    fn abandoned(&self, old: &dyn Fn(u64) -> bool) -> Result<Vec<(String, TaskId)>, DeskError> {
        let mut abandoned = Vec::new();
        let idle = |draft: &&OpenDraft| draft.submission.is_none() && old(draft.since);
        for draft in self.book().drafts.values().filter(idle) {
            let written = self.drafts.stat(&draft.name).ok().flatten();
            if written.is_none_or(|(_, at)| old(at)) {
                abandoned.push((draft.name.clone(), draft.task.clone()));
            }
        }
        Ok(abandoned)
    }

    /// Copies that something still needs, once these submissions are put away.
    fn wanted(&self, swept: &[u64]) -> BTreeSet<Fingerprint> {
        let submissions = self.book().submissions.values();
        let needs = |s: &Submission| {
            let proposed = s.files.iter().flat_map(|f| [f.before, Some(f.after)]);
            let replaced = s.replaced.iter().flat_map(|f| [f.before, f.after]);
            let needed: Vec<Fingerprint> =
                proposed.chain(replaced).flatten().chain([s.policy]).collect();
            needed
        };
        submissions
            .filter(|s| !s.swept && !swept.contains(&s.id))
            .flat_map(needs)
            .chain(self.book().drafts.values().filter_map(|draft| draft.before))
            .collect()
    }

    /// What processes left that died. Nobody else is at the desk, so that nothing of it is in use, but copies that
    /// are being verified.
    fn clear_leftovers(&self) -> Result<(), DeskError> {
        self.drafts.discard_unfinished().map_err(file("drafts"))?;
        if let Ok(staging) = self.handoff.existing(STAGING) {
            for name in staging.names().map_err(file(STAGING))? {
                staging.discard(&name).map_err(file(name))?;
            }
        }
        let waits = |id: u64| {
            let submission = self.book().submissions.get(&id);
            submission.is_some_and(|submission| submission.stage == Stage::Submitted)
        };
        let state = &self.desk.state;
        for name in state.names().map_err(file("state"))? {
            // A copy is in use for as long as somebody decides.
            let copy = name.strip_prefix("verify-").and_then(|rest| rest.split('-').next());
            if let Some(id) = copy.and_then(|id| id.parse().ok())
                && let Some(_right) = self.desk.right_to_decide(id)?
            {
                let _ = std::fs::remove_dir_all(self.desk.own_folder().join(&name));
            }
            let number = name.strip_prefix("deciding-").and_then(|id| id.parse().ok());
            if number.is_some_and(|id| !waits(id)) {
                state.discard(&name).map_err(file(&name))?;
            }
        }
        Ok(())
    }
}

//! Changes that a worker without tools writes as text: whole files, without drafts.
//!
//! They go through the same gate as drafts. While the draft tools are off, this is the only way to propose a change,
//! and the gate applies nothing: every proposal waits for a reviewer.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_gate::{Places, Policy, TaskId};
use assize_types::Fingerprint;
use assize_workspace::as_the_original;

use crate::answers::Submitted;
use crate::handlers::waits;
use crate::service::{DraftError, DraftService, wrong};
use crate::state::{Proposed, Submission};
use crate::transaction::Transaction;

/// A whole file as a worker wants it to be.
#[derive(Debug, Clone, Copy)]
pub struct NewContent<'a> {
    pub path: &'a str,
    pub content: &'a str,
    pub seen: Seen<'a>,
}

/// A file as the worker saw it. A file that differs from that when it is submitted is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen<'a> {
    /// The worker was not shown the file: the proposal is compared with the file of now.
    NotShown,
    /// The worker was told that there is no such file.
    Absent,
    Text(&'a str),
}

/// Whole files that a worker submits together.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// Idempotency key. A second proposal with the same key, as after a crash, is the same submission.
    pub key: &'a str,
    pub task_id: &'a str,
    pub summary: &'a str,
    pub contents: &'a [NewContent<'a>],
}

impl DraftService {
    /// Submits whole files together, and waits a while for the verdict.
    ///
    /// # Errors
    /// When they cannot be submitted; the message names every file that is in the way.
    pub async fn propose(
        self: &Arc<Self>,
        by: &str,
        proposal: Proposal<'_>,
    ) -> Result<Submitted, DraftError> {
        let mut transaction = self.begin().await?;
        let task = transaction.task(by, "propose", proposal.task_id).await?;
        let known = transaction.state().last_submission();
        let id = match transaction.state().submission_with_key(proposal.key).map(|s| s.id) {
            Some(id) => id,
            None => transaction.take_proposal(by, &task, proposal).await?,
        };
        self.verdict((id > known).then_some(transaction), id, &task).await
    }
}

impl Transaction {
    /// Records a proposal, or finds the waiting submission with the same changes; returns its number.
    async fn take_proposal(
        &mut self,
        by: &str,
        task: &TaskId,
        proposal: Proposal<'_>,
    ) -> Result<u64, DraftError> {
        let summary = self.summary(proposal.summary)?;
        let (policy, places) = self.policy()?;
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for new in proposal.contents {
            // Alone, as the messages below repeat the path.
            self.refuse_secret_path(new.path, &policy)?;
            match self.proposed(task, new, &policy, &places) {
                Ok(proposed) => files.push(proposed),
                Err(DraftError::Refused(why)) => {
                    let refused =
                        self.refuse(by, "propose", Some(task.as_str()), new.path, why).await;
                    problems.push(format!("{}: {refused}", new.path));
                }
                Err(DraftError::Wrong(why)) => problems.push(format!("{}: {why}", new.path)),
                Err(error) => return Err(error),
            }
        }
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        if paths.len() < files.len() {
            problems.push("a file is proposed twice; propose it once".to_owned());
        }
        if !problems.is_empty() {
            return Err(wrong(problems.join("\n- ")));
        }
        files.retain(|file| file.before != Some(file.after));
        if files.is_empty() {
            let why = "the proposal changes nothing; write the change into the file first";
            return Err(wrong(why));
        }
        match self.waiting_for_a_file_of(task, &files) {
            Some(waiting) if contents(&waiting.files) == contents(&files) => Ok(waiting.id),
            Some(waiting) => Err(waits(waiting.id)),
            None => self.record_submission(by, task, (summary, Some(proposal.key)), files).await,
        }
    }

    /// One file of a proposal, with copies of both sides that stay as they are.
    fn proposed(
        &self,
        task: &TaskId,
        new: &NewContent<'_>,
        policy: &Policy,
        places: &Places,
    ) -> Result<Proposed, DraftError> {
        let (path, original) = self.draftable(new.path, task, policy, places)?;
        // The worker changed the file as it saw it: the gate reports a conflict if that is not the file of now.
        let base = match new.seen {
            Seen::Text(seen) => Some(seen.as_bytes().to_vec()),
            Seen::Absent => None,
            Seen::NotShown => original.map(|original| original.bytes),
        };
        let text = String::from_utf8_lossy(base.as_deref().unwrap_or_default()).into_owned();
        let (content, _) = as_the_original(&text, new.content);
        if content.len() as u64 > policy.max_bytes {
            let (bytes, most) = (content.len(), policy.max_bytes);
            let why = format!("the content has {bytes} bytes, and a file may have {most}");
            return Err(wrong(why));
        }
        let before = base.as_deref().map(|bytes| self.service.keep(bytes)).transpose()?;
        self.proposed_file(&path.to_string(), (before, text.as_bytes()), content.as_bytes())
    }

    /// The last submission of a task that changes one of these files and waits for a decision.
    fn waiting_for_a_file_of(&self, task: &TaskId, files: &[Proposed]) -> Option<&Submission> {
        let shares = |s: &Submission| {
            s.files.iter().any(|file| files.iter().any(|other| other.path == file.path))
        };
        self.state()
            .submissions
            .values()
            .rev()
            .find(|s| s.stage.waits() && s.task == *task && shares(s))
    }
}

/// The files of a submission, by path and new content.
fn contents(files: &[Proposed]) -> BTreeSet<(&str, Fingerprint)> {
    files.iter().map(|file| (file.path.as_str(), file.after)).collect()
}

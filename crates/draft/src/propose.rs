//! Proposals: complete new file contents that an agent without tools writes as text, instead of writing drafts.
//!
//! Proposals pass the same gate as drafts. While the draft tools are switched off, a proposal is the only way to
//! suggest a change, and a reviewer must accept each proposal before it is applied.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_gate::{PathRules, Policy, TaskId};
use assize_types::Fingerprint;
use assize_workspace::restore_line_ends;

use crate::handlers::already_submitted;
use crate::responses::SubmitResponse;
use crate::service::{DraftError, DraftService, invalid_request};
use crate::state::{ProposedFile, Submission};
use crate::transaction::Transaction;

/// Complete new content of one file in a proposal.
#[derive(Debug, Clone, Copy)]
pub struct ProposedContent<'a> {
    pub path: &'a str,
    pub content: &'a str,
    pub seen: SeenFile<'a>,
}

/// Content of a file as the agent saw it before it made a proposal. If the file has different content when the proposal
/// is submitted, the gate reports a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenFile<'a> {
    /// The agent was not shown the file; the proposal is compared with the current file.
    NotShown,
    /// The agent was informed that the file does not exist.
    Absent,
    /// The agent was shown this content.
    Text(&'a str),
}

/// New contents of one or more files, which an agent without tools submits together.
#[derive(Debug, Clone, Copy)]
pub struct FileProposal<'a> {
    /// Idempotency key. A second proposal with the same key, for example after a crash, returns the first submission.
    pub key: &'a str,
    pub task_id: &'a str,
    pub summary: &'a str,
    pub contents: &'a [ProposedContent<'a>],
}

impl DraftService {
    /// Submits the files of a proposal together, and waits for the verdict for at most
    /// [`DraftOptions::verdict_timeout`](crate::DraftOptions::verdict_timeout).
    ///
    /// # Errors
    /// If the files cannot be submitted; the message lists the problems of all files.
    pub async fn propose(
        self: &Arc<Self>,
        by: &str,
        proposal: FileProposal<'_>,
    ) -> Result<SubmitResponse, DraftError> {
        let mut transaction = self.begin().await?;
        let task = transaction.parse_task_id(by, "propose", proposal.task_id).await?;
        let known = transaction.state().last_submission();
        let id = match transaction.state().submission_with_key(proposal.key).map(|s| s.id) {
            Some(id) => id,
            None => transaction.record_proposal(by, &task, proposal).await?,
        };
        self.wait_for_verdict((id > known).then_some(transaction), id, &task).await
    }
}

impl Transaction {
    /// Records a proposal as a submission, or finds a waiting submission with the same changes. Returns the number of
    /// that submission.
    async fn record_proposal(
        &mut self,
        by: &str,
        task: &TaskId,
        proposal: FileProposal<'_>,
    ) -> Result<u64, DraftError> {
        let summary = self.summary(proposal.summary)?;
        let (policy, places) = self.policy()?;
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for new in proposal.contents {
            // Return this error without the path: the messages below contain the path, and here the path contains a
            // secret.
            self.refuse_secret_path(new.path, &policy)?;
            match self.proposed(task, new, &policy, &places) {
                Ok(proposed) => files.push(proposed),
                Err(DraftError::PathRefused(why)) => {
                    let refused =
                        self.refuse(by, "propose", Some(task.as_str()), new.path, why).await;
                    problems.push(format!("{}: {refused}", new.path));
                }
                Err(DraftError::InvalidRequest(why)) => {
                    problems.push(format!("{}: {why}", new.path))
                }
                Err(error) => return Err(error),
            }
        }
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        if paths.len() < files.len() {
            problems.push("the same file is proposed twice; propose it once".to_owned());
        }
        if !problems.is_empty() {
            return Err(invalid_request(problems.join("\n- ")));
        }
        files.retain(|file| file.before != Some(file.after));
        if files.is_empty() {
            let why = "the proposal changes nothing; propose content that contains your changes";
            return Err(invalid_request(why));
        }
        match self.waiting_submission(task, &files) {
            Some(waiting) if contents(&waiting.files) == contents(&files) => Ok(waiting.id),
            Some(waiting) => Err(already_submitted(waiting.id)),
            None => self.record_submission(by, task, (summary, Some(proposal.key)), files).await,
        }
    }

    /// Builds the submission record of one proposed file, and stores immutable copies of its old and new content.
    fn proposed(
        &self,
        task: &TaskId,
        new: &ProposedContent<'_>,
        policy: &Policy,
        places: &PathRules,
    ) -> Result<ProposedFile, DraftError> {
        let (path, original) = self.read_draftable_file(new.path, task, policy, places)?;
        // Compare with the content that the agent saw, so that the gate reports a conflict if the file has changed.
        let base = match new.seen {
            SeenFile::Text(seen) => Some(seen.as_bytes().to_vec()),
            SeenFile::Absent => None,
            SeenFile::NotShown => original.map(|original| original.bytes),
        };
        let text = String::from_utf8_lossy(base.as_deref().unwrap_or_default()).into_owned();
        let (content, _) = restore_line_ends(&text, new.content);
        if content.len() as u64 > policy.max_bytes {
            let (bytes, most) = (content.len(), policy.max_bytes);
            let why = format!("the content has {bytes} bytes (at most {most} are allowed)");
            return Err(invalid_request(why));
        }
        let before = base.as_deref().map(|bytes| self.service.store_content(bytes)).transpose()?;
        self.proposed_file(&path.to_string(), (before, text.as_bytes()), content.as_bytes())
    }

    /// Returns the latest of the task's waiting submissions that change at least one of the given files.
    fn waiting_submission(&self, task: &TaskId, files: &[ProposedFile]) -> Option<&Submission> {
        let shares = |s: &Submission| {
            s.files.iter().any(|file| files.iter().any(|other| other.path == file.path))
        };
        self.state()
            .submissions
            .values()
            .rev()
            .find(|s| s.stage.is_undecided() && s.task == *task && shares(s))
    }
}

/// Returns, for each file of a submission, its path and the hash of its new content.
fn contents(files: &[ProposedFile]) -> BTreeSet<(&str, Fingerprint)> {
    files.iter().map(|file| (file.path.as_str(), file.after)).collect()
}

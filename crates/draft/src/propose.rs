//! Changes that a worker without tools writes as text: whole files, without drafts.
//!
//! They go through the same gate as drafts. While the draft tools are off, this is the only way to propose a change,
//! and the gate applies nothing: every proposal waits for a reviewer.

use std::collections::BTreeSet;
use std::sync::Arc;

use assize_types::Fingerprint;

use crate::answers::Submitted;
use crate::book::{Proposed, Stage, Submission};
use crate::counter::{as_the_original, waits};
use crate::desk::{Desk, DeskError, Held, file};
use crate::diff::Diff;
use crate::gate::DRAFT_MODE;
use crate::policy::{Places, Policy};
use crate::task::TaskId;

/// A whole file as a worker wants it to be.
#[derive(Debug, Clone, Copy)]
pub struct NewContent<'a> {
    pub path: &'a str,
    pub content: &'a str,
    /// The file as the worker saw it; `None` if the worker was not shown it.
    pub seen: Option<&'a str>,
}

impl Desk {
    /// Submits whole files together, and waits a while for the verdict.
    ///
    /// # Errors
    /// When they cannot be submitted; the message names every file that is in the way.
    pub async fn propose(
        self: &Arc<Self>,
        by: &str,
        task_id: &str,
        summary: &str,
        contents: &[NewContent<'_>],
    ) -> Result<Submitted, DeskError> {
        let mut held = self.hold().await?;
        let task = held.task(by, "propose", task_id).await?;
        let summary = held.summary(summary)?;
        let (policy, places) = held.policy()?;
        let (mut files, mut wrong) = (Vec::new(), Vec::new());
        for new in contents {
            match held.proposed(&task, new, &policy, &places) {
                Ok(proposed) => files.push(proposed),
                Err(DeskError::Refused(why)) => {
                    let refused = held.refuse(by, "propose", Some(task_id), new.path, why).await;
                    wrong.push(format!("{}: {refused}", new.path));
                }
                Err(DeskError::Wrong(why)) => wrong.push(format!("{}: {why}", new.path)),
                Err(error) => return Err(error),
            }
        }
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        if paths.len() < files.len() {
            wrong.push("a file is proposed twice; propose it once".to_owned());
        }
        if !wrong.is_empty() {
            return Err(DeskError::Wrong(wrong.join("\n- ")));
        }
        // Asked again after a crash, it is the same submission.
        let known = held.proposed_before(&task, &files);
        files.retain(|file| file.before != Some(file.after));
        let id = match known {
            Some(id) => id,
            None if files.is_empty() => {
                let why = "the proposal changes nothing; write the change into the file first";
                return Err(DeskError::Wrong(why.to_owned()));
            }
            None => held.note_submission(by, &task, summary, files).await?,
        };
        drop(held);
        self.verdict(id, &task).await
    }
}

impl Desk {
    /// A submission as one unified diff.
    ///
    /// # Errors
    /// When there is no such submission, or its copies are not kept any more.
    pub async fn patch(&self, id: u64) -> Result<String, DeskError> {
        let book = self.book().await?;
        let submission = book.submissions.get(&id);
        let unknown = || DeskError::Wrong(format!("no submission {id} in this workspace"));
        let mut patch = String::new();
        for file in &submission.ok_or_else(unknown)?.files {
            let before = file.before.map(|hash| self.copy(hash)).transpose()?.unwrap_or_default();
            let after = self.copy(file.after)?;
            let (before, after) =
                (String::from_utf8_lossy(&before), String::from_utf8_lossy(&after));
            patch.push_str(&Diff::unified(&file.path, &before, &after));
        }
        Ok(patch)
    }
}

impl Held<'_> {
    /// One file of a proposal, with copies of both sides that stay as they are.
    fn proposed(
        &self,
        task: &TaskId,
        new: &NewContent<'_>,
        policy: &Policy,
        places: &Places,
    ) -> Result<Proposed, DeskError> {
        let (path, original) = self.draftable(new.path, task, policy, places)?;
        let path = path.to_string();
        let waiting = |s: &&Submission| {
            let open = matches!(s.stage, Stage::Submitted | Stage::Escalated);
            open && s.task == *task && s.files.iter().any(|file| file.path == path)
        };
        let content_of =
            |s: &Submission| s.files.iter().find(|file| file.path == path).map(|f| f.after);
        // What the worker saw is what it changed: a file that has changed since is a conflict.
        let base = match (new.seen.filter(|seen| !seen.is_empty()), &original) {
            (Some(seen), Some(_)) => Some(seen.as_bytes().to_vec()),
            (_, original) => original.as_ref().map(|original| original.bytes.clone()),
        };
        let text = String::from_utf8_lossy(base.as_deref().unwrap_or_default()).into_owned();
        let (content, _) = as_the_original(&text, new.content);
        if content.len() as u64 > policy.max_bytes {
            let (bytes, most) = (content.len(), policy.max_bytes);
            let why = format!("the content has {bytes} bytes, and a file may have {most}");
            return Err(DeskError::Wrong(why));
        }
        let keep = |bytes: &[u8]| self.desk.copies.keep(bytes).map_err(file("copies"));
        let before: Option<Fingerprint> = base.as_deref().map(keep).transpose()?;
        let after = keep(content.as_bytes())?;
        if let Some(other) = self.book().submissions.values().find(waiting)
            && content_of(other) != Some(after)
        {
            return Err(waits(other.id));
        }
        let diff = Diff::between(&text, &content);
        Ok(Proposed {
            path,
            draft: None,
            before,
            after,
            draft_mode: DRAFT_MODE,
            added: diff.added.len(),
            removed: diff.removed,
        })
    }

    /// The last submission of a task, if it has the same contents and was neither rejected nor undone.
    fn proposed_before(&self, task: &TaskId, files: &[Proposed]) -> Option<u64> {
        let last = self.book().submissions.values().rev().find(|s| s.task == *task)?;
        let contents = |files: &[Proposed]| -> BTreeSet<(String, Fingerprint)> {
            files.iter().map(|file| (file.path.clone(), file.after)).collect()
        };
        let stands = !matches!(last.stage, Stage::Rejected | Stage::Undone | Stage::Undoing);
        (stands && contents(&last.files) == contents(files)).then_some(last.id)
    }
}

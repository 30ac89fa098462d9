//! The handlers of the draft tools: request a copy of a file, write and read the draft, and submit it. Every answer
//! says what to do next; every path is hostile input.

use std::sync::Arc;

use assize_gate::secrets::SecretScanner;
use assize_gate::{DRAFT_MODE, Diff, FileKind, Policy, TaskId};
use assize_types::Fingerprint;
use assize_workspace::{DRAFTS, FileError, HANDOFF, Inside, as_the_original};
use tokio_util::sync::CancellationToken;

use crate::answers::{Read, Requested, Submit, Submitted, Written, answer};
use crate::names::{draft_name, draft_path, free_name};
use crate::service::{DraftError, DraftService, file, wrong};
use crate::state::{OpenDraft, Proposed, Step, Submission};
use crate::transaction::Transaction;

/// The longest summary that is kept.
const LONGEST_SUMMARY: usize = 2000;

/// Open drafts of one task, for each file that it may change.
const DRAFTS_FOR_A_FILE: usize = 10;

impl DraftService {
    /// A copy of a file, to be edited as a draft.
    ///
    /// # Errors
    /// When the file may not be drafted, with the reason.
    pub async fn request(
        self: &Arc<Self>,
        by: &str,
        source_path: &str,
        task_id: &str,
    ) -> Result<Requested, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let task = transaction.task(by, "request", task_id).await?;
        let (policy, places) = transaction.policy()?;
        let (path, original) = match transaction.draftable(source_path, &task, &policy, &places) {
            Ok(found) => found,
            Err(DraftError::Refused(why)) => {
                return Err(transaction
                    .refuse(by, "request", Some(task_id), source_path, why)
                    .await);
            }
            Err(error) => return Err(error),
        };
        let bytes = original.as_ref().map(|original| original.bytes.as_slice()).unwrap_or_default();
        let before = original.as_ref().map(|original| original.sha256);
        if before.is_some() {
            self.keep(bytes)?;
        }
        let (name, note) =
            transaction.draft_for(by, &path, &task, &policy, (before, bytes)).await?;
        let new = || {
            format!("there is no `{path}` yet: this draft proposes it as a new file, empty so far")
        };
        Ok(Requested {
            draft_path: draft_path(&name),
            original_hash: before.map(|hash| hash.to_string()).unwrap_or_default(),
            line_count: String::from_utf8_lossy(bytes).lines().count(),
            new_file: before.is_none(),
            note: note.map(str::to_owned).or_else(|| before.is_none().then(new)),
            messages: transaction.messages(&task).await?,
        })
    }

    /// Puts new content into a draft.
    pub async fn write(
        self: &Arc<Self>,
        by: &str,
        path: &str,
        content: &str,
    ) -> Result<Written, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let draft = transaction.open_draft(by, "write", path).await?;
        let (policy, _) = transaction.policy()?;
        let base = self.base(draft.before)?;
        let (content, note) = as_the_original(&String::from_utf8_lossy(&base), content);
        if content.len() as u64 > policy.max_bytes {
            return Err(wrong(format!(
                "the content has {} bytes, and a draft may have {}; the draft is as it was",
                content.len(),
                policy.max_bytes
            )));
        }
        transaction.drafts.write(&draft.name, content.as_bytes()).map_err(file(&draft.name))?;
        Ok(Written {
            success: true,
            new_hash: Fingerprint::of(content.as_bytes()).to_string(),
            line_count: content.lines().count(),
            note,
            messages: transaction.messages(&draft.task).await?,
        })
    }

    /// What is in a draft.
    pub async fn read(self: &Arc<Self>, by: &str, path: &str) -> Result<Read, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let draft = transaction.draft(by, "read", path).await?;
        let bytes = transaction.read_draft(by, "read", &draft).await?.0;
        let content = String::from_utf8(bytes).map_err(|_| {
            wrong(format!("the draft `{path}` is no UTF-8 text any more; write it anew"))
        })?;
        let line_count = content.lines().count();
        Ok(Read { content, line_count, messages: transaction.messages(&draft.task).await? })
    }

    /// Hands drafts in, and waits a while for the verdict.
    pub async fn submit(
        self: &Arc<Self>,
        by: &str,
        submit: Submit<'_>,
    ) -> Result<Submitted, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let task = transaction.task(by, "submit", submit.task_id).await?;
        let known = transaction.state().last_submission();
        let id = match transaction.handed_in_before(&submit, &task) {
            Some(id) => id,
            None => transaction.take_in(by, submit, &task).await?,
        };
        let again = id <= known;
        let mut answer = self.verdict((!again).then_some(transaction), id, &task).await?;
        if again {
            let said = format!(
                "this is what became of {}, and nothing new was handed in: ",
                answer.message_id
            );
            answer.next.insert_str(0, &said);
        }
        Ok(answer)
    }

    /// Has the gate decide on a submission, and waits for the verdict as long as workers wait. `transaction` is the
    /// one that recorded it; without one, it was recorded earlier.
    pub(crate) async fn verdict(
        self: &Arc<Self>,
        transaction: Option<Transaction>,
        id: u64,
        task: &TaskId,
    ) -> Result<Submitted, DraftError> {
        let gone = CancellationToken::new();
        let waiting = gone.clone().drop_guard();
        let service = Arc::clone(self);
        // The decision goes on if the worker stops waiting.
        let deciding = self.deciding.spawn(async move {
            match transaction {
                Some(transaction) => service.decide(transaction, None, id, &gone).await,
                None => service.decide_earlier(id, &gone).await,
            }
        });
        let mut transaction = match tokio::time::timeout(self.options.patience, deciding).await {
            Ok(decided) => {
                let broke = |_| wrong("the gate broke off; hand it in again");
                decided.map_err(broke)??
            }
            Err(_) => self.begin().await?,
        };
        // In a transaction nothing else decides: either it is decided and this tells so, or a later answer will.
        drop(waiting);
        let messages = transaction.messages(task).await?;
        Ok(answer(transaction.submission(id)?, messages))
    }
}

impl Transaction {
    /// Finds the open draft of a file, or opens one; gives its name and what to say about it.
    async fn draft_for(
        &mut self,
        by: &str,
        path: &Inside,
        task: &TaskId,
        policy: &Policy,
        (before, bytes): (Option<Fingerprint>, &[u8]),
    ) -> Result<(String, Option<&'static str>), DraftError> {
        let path_text = path.to_string();
        let is_it = |draft: &&OpenDraft| draft.task == *task && draft.path == path_text;
        let (name, note) = match self.state().drafts.values().find(is_it) {
            Some(OpenDraft { submission: Some(id), .. }) => return Err(waits(*id)),
            Some(draft) if draft.before != before => {
                let note =
                    "the file has changed since, so the draft starts again from what it is now";
                (draft.name.clone(), Some(note))
            }
            Some(draft) if self.drafts.stat(&draft.name).is_ok_and(|there| there.is_some()) => {
                let note = "the draft is open already; what was written to it is kept";
                return Ok((draft.name.clone(), Some(note)));
            }
            Some(draft) => (draft.name.clone(), None),
            None => {
                let open = self.state().drafts.values().filter(|draft| draft.task == *task).count();
                if open >= policy.max_files * DRAFTS_FOR_A_FILE {
                    let why =
                        format!("the task `{task}` has {open} open drafts; hand some in first");
                    return Err(wrong(why));
                }
                (free_name(self.state(), path, task), None)
            }
        };
        let step = Step::Requested {
            task: task.clone(),
            path: path_text,
            draft: name.clone(),
            before,
            policy: policy.fingerprint(),
        };
        self.record(by, step).await?;
        self.drafts.write(&name, bytes).map_err(file(&name))?;
        Ok((name, note))
    }

    /// Takes in what is handed in: copies of the drafts that nobody can change any more.
    async fn take_in(
        &mut self,
        by: &str,
        submit: Submit<'_>,
        task: &TaskId,
    ) -> Result<u64, DraftError> {
        let draft = self.open_draft(by, "submit", submit.draft_path).await?;
        if draft.task != *task {
            let why = format!("this draft belongs to the task `{}`, not to `{task}`", draft.task);
            return Err(wrong(why));
        }
        match self.service.workspace.inside(submit.original_path) {
            Ok(path) if path.to_string() == draft.path => {}
            Ok(path) => {
                return Err(wrong(format!(
                    "this is a draft of `{}`, not of `{path}`; name that as `original_path`",
                    draft.path
                )));
            }
            Err(error) => {
                let (path, why) = (submit.original_path, error.to_string());
                return Err(self.refuse(by, "submit", Some(submit.task_id), path, why).await);
            }
        }
        let summary = self.summary(submit.change_summary)?;
        let named = draft.name.clone();
        let others = self.state().drafts.values().filter(|other| {
            let free = other.task == *task && other.name != named && other.submission.is_none();
            submit.all_drafts && free
        });
        let drafts: Vec<OpenDraft> = std::iter::once(draft).chain(others.cloned()).collect();
        let (mut files, mut unchanged) = (Vec::new(), Vec::new());
        for draft in &drafts {
            match self.propose(by, draft).await? {
                // Nobody has written to it yet.
                Some(new) if new.before.is_none() && new.added == 0 && draft.name != named => {}
                Some(proposed) => files.push(proposed),
                None => unchanged.push(draft.path.as_str()),
            }
        }
        if files.is_empty() {
            let names = unchanged.join("`, `");
            return Err(wrong(format!(
                "the draft changes nothing in `{names}`; write the change to it first"
            )));
        }
        self.record_submission(by, task, (summary, None), files).await
    }

    /// A summary of at most so many characters, without a secret in it.
    pub(crate) fn summary(&self, text: &str) -> Result<String, DraftError> {
        let summary = assize_types::text::shorten(text.trim(), LONGEST_SUMMARY);
        let secrets = SecretScanner::get()?;
        let in_summary = |line| secrets.in_line(line, FileKind::Prose);
        match summary.lines().flat_map(in_summary).next() {
            None => Ok(summary),
            Some(found) => Err(wrong(format!(
                "the summary has {} in it; leave that out and hand it in again",
                found.what
            ))),
        }
    }

    /// Records a submission, which the gate decides on next; returns its number. The entry of a caller that was
    /// cancelled may be written first, so the number is known only once both are read back.
    pub(crate) async fn record_submission(
        &mut self,
        by: &str,
        task: &TaskId,
        (summary, key): (String, Option<&str>),
        files: Vec<Proposed>,
    ) -> Result<u64, DraftError> {
        let (policy, _) = self.policy()?;
        let policy = self.service.keep(&policy.to_bytes())?;
        let (task, owned) = (task.clone(), key.map(str::to_owned));
        let step = Step::Submitted { task, summary, files, policy, key: owned };
        let entry = self.record(by, step).await?;
        let recorded = match key {
            Some(key) => self.state().submission_with_key(key),
            None => self.state().submission_of_entry(entry),
        };
        let lost = || wrong("the submission was not recorded; submit it again");
        Ok(recorded.ok_or_else(lost)?.id)
    }

    /// The draft that is meant by a path.
    async fn draft(&mut self, by: &str, tool: &str, path: &str) -> Result<OpenDraft, DraftError> {
        let name = draft_name(path, &self.service.workspace.roots());
        let Some(name) = name else {
            let why = format!(
                "`{}` is no draft in `{HANDOFF}/{DRAFTS}`, the only place that drafts are in; use the \
                 `draft_path` that you were given",
                assize_types::text::shorten(path, 200)
            );
            return Err(self.refuse(by, tool, None, path, why).await);
        };
        let missing = || {
            wrong(format!(
                "there is no open draft `{name}`; ask for one with `ollama_request_draft`"
            ))
        };
        self.state().drafts.get(&name).cloned().ok_or_else(missing)
    }

    /// The same, if it can still be changed.
    async fn open_draft(
        &mut self,
        by: &str,
        tool: &str,
        path: &str,
    ) -> Result<OpenDraft, DraftError> {
        let draft = self.draft(by, tool, path).await?;
        match draft.submission {
            None => Ok(draft),
            Some(id) => Err(waits(id)),
        }
    }

    /// What is in a draft, and its permissions.
    async fn read_draft(
        &mut self,
        by: &str,
        tool: &str,
        draft: &OpenDraft,
    ) -> Result<(Vec<u8>, u32), DraftError> {
        let (policy, _) = self.policy()?;
        match self.drafts.read_with_mode(&draft.name, policy.max_bytes) {
            Ok(found) => Ok(found),
            Err(FileError::Missing) => Err(wrong(format!(
                "the draft `{}` is not there any more; ask for it again with `ollama_request_draft`",
                draft.name
            ))),
            Err(error @ (FileError::Link | FileError::Special)) => {
                let why = format!(
                    "something else is in the place of the draft `{}`: {error}",
                    draft.name
                );
                let (task, path) = (draft.task.to_string(), draft_path(&draft.name));
                Err(self.refuse(by, tool, Some(&task), &path, why).await)
            }
            Err(error) => Err(file(&draft.name)(error)),
        }
    }

    /// A draft as part of a submission, with an immutable copy of it; `None` if it changes nothing.
    async fn propose(
        &mut self,
        by: &str,
        draft: &OpenDraft,
    ) -> Result<Option<Proposed>, DraftError> {
        let (bytes, draft_mode) = self.read_draft(by, "submit", draft).await?;
        let base = self.service.base(draft.before)?;
        if bytes == base && draft.before.is_some() {
            return Ok(None);
        }
        let proposed = self.proposed_file(&draft.path, (draft.before, &base), &bytes)?;
        Ok(Some(Proposed { draft: Some(draft.name.clone()), draft_mode, ..proposed }))
    }

    /// A file of a submission, with an immutable copy of its new content.
    pub(crate) fn proposed_file(
        &self,
        path: &str,
        (before, base): (Option<Fingerprint>, &[u8]),
        content: &[u8],
    ) -> Result<Proposed, DraftError> {
        let diff = Diff::between(&String::from_utf8_lossy(base), &String::from_utf8_lossy(content));
        Ok(Proposed {
            path: path.to_owned(),
            draft: None,
            before,
            after: self.service.keep(content)?,
            draft_mode: DRAFT_MODE,
            added: diff.added.len(),
            removed: diff.removed,
        })
    }

    /// The submission that a draft was handed in with before, where it has not been asked for anew since: whoever
    /// asks again, as after a crash, has the same answer.
    fn handed_in_before(&self, submit: &Submit<'_>, task: &TaskId) -> Option<u64> {
        let name = draft_name(submit.draft_path, &self.service.workspace.roots())?;
        if self.state().drafts.get(&name).is_some_and(|draft| draft.submission.is_none()) {
            return None;
        }
        let is_of = |s: &&Submission| {
            s.task == *task && s.files.iter().any(|file| file.draft.as_ref() == Some(&name))
        };
        self.state().submissions.values().rev().find(is_of).map(|submission| submission.id)
    }
}

/// That a file's change is submitted, and not to be changed.
pub(crate) fn waits(id: u64) -> DraftError {
    wrong(format!(
        "this change is submitted and waits for a decision (submission {id}); work on something else until it is made"
    ))
}

//! Handlers of the draft tools: request a draft of a file, write and read the draft, and submit it. Responses contain
//! instructions for the agent's next step. Paths from agents are untrusted input.

use std::sync::Arc;

use assize_gate::secrets::SecretScanner;
use assize_gate::{DRAFT_MODE, Diff, FileKind, Policy, TaskId};
use assize_types::Fingerprint;
use assize_workspace::{DRAFTS, FileError, HANDOFF, WorkspacePath, restore_line_ends};
use tokio_util::sync::CancellationToken;

use crate::names::{draft_name, draft_path, free_name};
use crate::responses::{
    DraftContent, DraftCreated, DraftWritten, SubmitRequest, SubmitResponse, submit_response,
};
use crate::service::{DraftError, DraftService, file_error, invalid_request};
use crate::state::{DraftStep, OpenDraft, ProposedFile, Submission};
use crate::transaction::Transaction;

/// Maximum length of the summary of a change, in characters.
const MAX_SUMMARY: usize = 2000;

/// Maximum number of open drafts of a task, divided by the maximum number of files that the task may change.
const MAX_DRAFTS_PER_FILE: usize = 10;

impl DraftService {
    /// Creates a draft: a copy of a file for editing.
    ///
    /// # Errors
    /// If the agent may not change the file; the message contains the reason.
    pub async fn request(
        self: &Arc<Self>,
        by: &str,
        source_path: &str,
        task_id: &str,
    ) -> Result<DraftCreated, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let task = transaction.parse_task_id(by, "request", task_id).await?;
        let (policy, places) = transaction.policy()?;
        let (path, original) =
            match transaction.read_draftable_file(source_path, &task, &policy, &places) {
                Ok(found) => found,
                Err(DraftError::PathRefused(why)) => {
                    return Err(transaction
                        .refuse(by, "request", Some(task_id), source_path, why)
                        .await);
                }
                Err(error) => return Err(error),
            };
        let bytes = original.as_ref().map(|original| original.bytes.as_slice()).unwrap_or_default();
        let before = original.as_ref().map(|original| original.sha256);
        if before.is_some() {
            self.store_content(bytes)?;
        }
        let (name, note) =
            transaction.find_or_create_draft(by, &path, &task, &policy, (before, bytes)).await?;
        let new =
            || format!("`{path}` does not exist yet: the draft is empty and proposes a new file");
        Ok(DraftCreated {
            draft_path: draft_path(&name),
            original_hash: before.map(|hash| hash.to_string()).unwrap_or_default(),
            line_count: String::from_utf8_lossy(bytes).lines().count(),
            new_file: before.is_none(),
            note: note.map(str::to_owned).or_else(|| before.is_none().then(new)),
            messages: transaction.deliver_messages(&task).await?,
        })
    }

    /// Replaces the content of a draft.
    pub async fn write(
        self: &Arc<Self>,
        by: &str,
        path: &str,
        content: &str,
    ) -> Result<DraftWritten, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let draft = transaction.open_draft(by, "write", path).await?;
        let (policy, _) = transaction.policy()?;
        let base = self.old_content(draft.before)?;
        let (content, note) = restore_line_ends(&String::from_utf8_lossy(&base), content);
        if content.len() as u64 > policy.max_bytes {
            return Err(invalid_request(format!(
                "the content has {} bytes (at most {} are allowed); the draft is unchanged",
                content.len(),
                policy.max_bytes
            )));
        }
        transaction
            .drafts
            .write(&draft.name, content.as_bytes())
            .map_err(file_error(&draft.name))?;
        Ok(DraftWritten {
            success: true,
            new_hash: Fingerprint::of(content.as_bytes()).to_string(),
            line_count: content.lines().count(),
            note,
            messages: transaction.deliver_messages(&draft.task).await?,
        })
    }

    /// Returns the content of a draft.
    pub async fn read(self: &Arc<Self>, by: &str, path: &str) -> Result<DraftContent, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let draft = transaction.find_draft(by, "read", path).await?;
        let bytes = transaction.read_draft(by, "read", &draft).await?.0;
        let content = String::from_utf8(bytes).map_err(|_| {
            invalid_request(format!("the draft `{path}` is not UTF-8 text; write it again"))
        })?;
        let line_count = content.lines().count();
        Ok(DraftContent {
            content,
            line_count,
            messages: transaction.deliver_messages(&draft.task).await?,
        })
    }

    /// Submits drafts, and waits for the verdict for at most
    /// [`DraftOptions::verdict_timeout`](crate::DraftOptions::verdict_timeout).
    pub async fn submit(
        self: &Arc<Self>,
        by: &str,
        submit: SubmitRequest<'_>,
    ) -> Result<SubmitResponse, DraftError> {
        let mut transaction = self.begin_if_on().await?;
        let task = transaction.parse_task_id(by, "submit", submit.task_id).await?;
        let known = transaction.state().last_submission();
        let id = match transaction.earlier_submission(&submit, &task) {
            Some(id) => id,
            None => transaction.record_drafts(by, submit, &task).await?,
        };
        let again = id <= known;
        let mut answer = self.wait_for_verdict((!again).then_some(transaction), id, &task).await?;
        if again {
            let prefix =
                format!("this is the status of {}; nothing new was submitted: ", answer.message_id);
            answer.next.insert_str(0, &prefix);
        }
        Ok(answer)
    }

    /// Starts the gate's decision on a submission, and waits for the verdict for at most
    /// [`DraftOptions::verdict_timeout`](crate::DraftOptions::verdict_timeout). `transaction` is the transaction that
    /// recorded the submission, or `None` if an earlier transaction recorded the submission.
    pub(crate) async fn wait_for_verdict(
        self: &Arc<Self>,
        transaction: Option<Transaction>,
        id: u64,
        task: &TaskId,
    ) -> Result<SubmitResponse, DraftError> {
        let gone = CancellationToken::new();
        let waiting = gone.clone().drop_guard();
        let service = Arc::clone(self);
        // The decision continues if the agent stops waiting.
        let deciding = self.decision_tasks.spawn(async move {
            match transaction {
                Some(transaction) => service.decide(transaction, None, id, &gone).await,
                None => service.decide_recorded(id, &gone).await,
            }
        });
        let mut transaction =
            match tokio::time::timeout(self.options.verdict_timeout, deciding).await {
                Ok(decided) => {
                    let failed =
                        |_| invalid_request("the gate failed unexpectedly; submit the draft again");
                    decided.map_err(failed)??
                }
                Err(_) => self.begin().await?,
            };
        // Every decision needs a transaction, so none is made while this transaction exists. This response reports an
        // earlier decision; a later decision is reported by a message.
        drop(waiting);
        let messages = transaction.deliver_messages(task).await?;
        Ok(submit_response(transaction.submission(id)?, messages))
    }
}

impl Transaction {
    /// Finds the open draft of a file, or creates a draft; returns the name of the draft and a note for the agent.
    async fn find_or_create_draft(
        &mut self,
        by: &str,
        path: &WorkspacePath,
        task: &TaskId,
        policy: &Policy,
        (before, bytes): (Option<Fingerprint>, &[u8]),
    ) -> Result<(String, Option<&'static str>), DraftError> {
        let path_text = path.to_string();
        let is_same = |draft: &&OpenDraft| draft.task == *task && draft.path == path_text;
        let (name, note) = match self.state().drafts.values().find(is_same) {
            Some(OpenDraft { submission: Some(id), .. }) => return Err(already_submitted(*id)),
            Some(draft) if draft.before != before => {
                let note = "the file has changed, so the draft starts again from the current file";
                (draft.name.clone(), Some(note))
            }
            Some(draft) if self.drafts.stat(&draft.name).is_ok_and(|there| there.is_some()) => {
                let note = "the draft is already open; its content is kept";
                return Ok((draft.name.clone(), Some(note)));
            }
            Some(draft) => (draft.name.clone(), None),
            None => {
                let open = self.state().drafts.values().filter(|draft| draft.task == *task).count();
                if open >= policy.max_files * MAX_DRAFTS_PER_FILE {
                    let why = format!(
                        "the task `{task}` has too many open drafts ({open}); submit some first"
                    );
                    return Err(invalid_request(why));
                }
                (free_name(self.state(), path, task), None)
            }
        };
        let step = DraftStep::Requested {
            task: task.clone(),
            path: path_text,
            draft: name.clone(),
            before,
            policy: policy.fingerprint(),
        };
        self.record(by, step).await?;
        self.drafts.write(&name, bytes).map_err(file_error(&name))?;
        Ok((name, note))
    }

    /// Records a submission of drafts, and stores immutable copies of their contents. Returns the submission's number.
    async fn record_drafts(
        &mut self,
        by: &str,
        submit: SubmitRequest<'_>,
        task: &TaskId,
    ) -> Result<u64, DraftError> {
        let draft = self.open_draft(by, "submit", submit.draft_path).await?;
        if draft.task != *task {
            let why = format!("this draft belongs to the task `{}`, not to `{task}`", draft.task);
            return Err(invalid_request(why));
        }
        match self.service.workspace.parse_path(submit.original_path) {
            Ok(path) if path.to_string() == draft.path => {}
            Ok(path) => {
                return Err(invalid_request(format!(
                    "this is a draft of `{0}`, not of `{path}`; set `original_path` to `{0}`",
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
                // Skip the draft of a new file if the agent never wrote to the draft.
                Some(new) if new.before.is_none() && new.added == 0 && draft.name != named => {}
                Some(proposed) => files.push(proposed),
                None => unchanged.push(draft.path.as_str()),
            }
        }
        if files.is_empty() {
            let (count, names) = (unchanged.len(), unchanged.join("`, `"));
            return Err(invalid_request(if count == 1 {
                format!(
                    "the draft of `{names}` contains no change; write the change to the draft first"
                )
            } else {
                format!(
                    "the drafts of `{names}` contain no changes; write the changes to the drafts first"
                )
            }));
        }
        self.record_submission(by, task, (summary, None), files).await
    }

    /// Shortens the summary of a change. A summary that contains a secret is an error.
    pub(crate) fn summary(&self, text: &str) -> Result<String, DraftError> {
        let summary = assize_types::text::shorten(text.trim(), MAX_SUMMARY);
        let secrets = SecretScanner::get()?;
        let in_summary = |line| secrets.in_line(line, FileKind::Prose);
        match summary.lines().flat_map(in_summary).next() {
            None => Ok(summary),
            Some(found) => Err(invalid_request(format!(
                "the summary contains {}; remove it and submit again",
                found.what
            ))),
        }
    }

    /// Records a submission, on which the gate then decides; returns the submission's number. The number is known only
    /// after the log entry is recorded, because the store can write an entry of an earlier, cancelled call first.
    pub(crate) async fn record_submission(
        &mut self,
        by: &str,
        task: &TaskId,
        (summary, key): (String, Option<&str>),
        files: Vec<ProposedFile>,
    ) -> Result<u64, DraftError> {
        let (policy, _) = self.policy()?;
        let policy = self.service.store_content(&policy.to_bytes())?;
        let (task, owned) = (task.clone(), key.map(str::to_owned));
        let step = DraftStep::Submitted { task, summary, files, policy, key: owned };
        let entry = self.record(by, step).await?;
        let recorded = match key {
            Some(key) => self.state().submission_with_key(key),
            None => self.state().submission_of_entry(entry),
        };
        let lost = || invalid_request("the submission was not recorded; submit it again");
        Ok(recorded.ok_or_else(lost)?.id)
    }

    /// Finds the open draft with the given draft path. A path outside the drafts folder is refused.
    async fn find_draft(
        &mut self,
        by: &str,
        tool: &str,
        path: &str,
    ) -> Result<OpenDraft, DraftError> {
        let name = draft_name(path, &self.service.workspace.roots());
        let Some(name) = name else {
            let why = format!(
                "`{}` is not a draft in `{HANDOFF}/{DRAFTS}`; use the \
                 `draft_path` that `ollama_request_draft` returned",
                assize_types::text::shorten(path, 200)
            );
            return Err(self.refuse(by, tool, None, path, why).await);
        };
        let missing = || {
            invalid_request(format!(
                "there is no open draft `{name}`; request one with `ollama_request_draft`"
            ))
        };
        self.state().drafts.get(&name).cloned().ok_or_else(missing)
    }

    /// Finds the open draft with the given draft path. A draft that is already submitted is an error.
    async fn open_draft(
        &mut self,
        by: &str,
        tool: &str,
        path: &str,
    ) -> Result<OpenDraft, DraftError> {
        let draft = self.find_draft(by, tool, path).await?;
        match draft.submission {
            None => Ok(draft),
            Some(id) => Err(already_submitted(id)),
        }
    }

    /// Reads the content and the permission bits of a draft.
    async fn read_draft(
        &mut self,
        by: &str,
        tool: &str,
        draft: &OpenDraft,
    ) -> Result<(Vec<u8>, u32), DraftError> {
        let (policy, _) = self.policy()?;
        match self.drafts.read_with_mode(&draft.name, policy.max_bytes) {
            Ok(found) => Ok(found),
            Err(FileError::Missing) => Err(invalid_request(format!(
                "the draft `{}` was deleted; request it again with `ollama_request_draft`",
                draft.name
            ))),
            Err(error @ (FileError::Link | FileError::NotRegularFile)) => {
                let why =
                    format!("the draft `{}` is not a regular file any more: {error}", draft.name);
                let (task, path) = (draft.task.to_string(), draft_path(&draft.name));
                Err(self.refuse(by, tool, Some(&task), &path, why).await)
            }
            Err(error) => Err(file_error(&draft.name)(error)),
        }
    }

    /// Builds the submission record of a draft, and stores an immutable copy of its content. Returns `None` if the
    /// draft has the same content as its file.
    async fn propose(
        &mut self,
        by: &str,
        draft: &OpenDraft,
    ) -> Result<Option<ProposedFile>, DraftError> {
        let (bytes, draft_mode) = self.read_draft(by, "submit", draft).await?;
        let base = self.service.old_content(draft.before)?;
        if bytes == base && draft.before.is_some() {
            return Ok(None);
        }
        let proposed = self.proposed_file(&draft.path, (draft.before, &base), &bytes)?;
        Ok(Some(ProposedFile { draft: Some(draft.name.clone()), draft_mode, ..proposed }))
    }

    /// Builds the submission record of a file, and stores an immutable copy of the file's new content.
    pub(crate) fn proposed_file(
        &self,
        path: &str,
        (before, base): (Option<Fingerprint>, &[u8]),
        content: &[u8],
    ) -> Result<ProposedFile, DraftError> {
        let diff = Diff::between(&String::from_utf8_lossy(base), &String::from_utf8_lossy(content));
        Ok(ProposedFile {
            path: path.to_owned(),
            draft: None,
            before,
            after: self.service.store_content(content)?,
            draft_mode: DRAFT_MODE,
            added: diff.added.len(),
            removed: diff.removed,
        })
    }

    /// Finds the earlier submission of a draft, so that a repeated submit call, for example after a crash, returns the
    /// status of that submission. Returns `None` if the agent has since requested a new draft under the same name and
    /// has not submitted the new draft.
    fn earlier_submission(&self, submit: &SubmitRequest<'_>, task: &TaskId) -> Option<u64> {
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

/// Creates the error for a file whose submission waits for a decision.
pub(crate) fn already_submitted(id: u64) -> DraftError {
    invalid_request(format!(
        "this change is submitted and waits for a decision (submission {id}); work on other files until then"
    ))
}

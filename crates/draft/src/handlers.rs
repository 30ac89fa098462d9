//! The desk's front: what workers do. They ask for a copy of a file, write and read their drafts, and hand
//! them in. Every answer says what to do next; every path is what somebody wrote, and hostile until it is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_gate::secrets::{Secret, SecretScanner};
use assize_gate::{Diff, FileKind, Places, Policy, TaskId};
use assize_types::Fingerprint;
use assize_workspace::{DRAFTS, FileError, HANDOFF, Inside, Original, Wait, as_the_original};

use crate::answers::{Read, Requested, Submit, Submitted, Written, answer};
use crate::names::{draft_name, draft_path, free_name};
use crate::service::{DraftError, DraftService, Transaction, file};
use crate::state::{OpenDraft, Proposed, Step, Submission};

/// A worker that waits for a verdict, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<AtomicBool>);

impl Waiting {
    fn begin() -> (Waiting, Arc<AtomicBool>) {
        let waits = Arc::new(AtomicBool::new(true));
        (Waiting(waits.clone()), waits)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

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
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let task = held.task(by, "request", task_id).await?;
        let (policy, places) = held.policy()?;
        let (path, original) = match held.draftable(source_path, &task, &policy, &places) {
            Ok(found) => found,
            Err(DraftError::Refused(why)) => {
                return Err(held.refuse(by, "request", Some(task_id), source_path, why).await);
            }
            Err(error) => return Err(error),
        };
        let bytes = original.as_ref().map(|original| original.bytes.as_slice()).unwrap_or_default();
        let before = original.as_ref().map(|original| original.sha256);
        if before.is_some() {
            self.copies.keep(bytes).map_err(file("copies"))?;
        }
        let (name, note) = held.open(by, &path, &task, &policy, (before, bytes)).await?;
        let new = || {
            format!("there is no `{path}` yet: this draft proposes it as a new file, empty so far")
        };
        Ok(Requested {
            draft_path: draft_path(&name),
            original_hash: before.map(|hash| hash.to_string()).unwrap_or_default(),
            line_count: String::from_utf8_lossy(bytes).lines().count(),
            new_file: before.is_none(),
            note: note.map(str::to_owned).or_else(|| before.is_none().then(new)),
            messages: held.messages(&task).await?,
        })
    }

    /// Puts new content into a draft.
    ///
    /// # Errors
    /// When there is no such draft to write to, or the content is too large.
    pub async fn write(
        self: &Arc<Self>,
        by: &str,
        path: &str,
        content: &str,
    ) -> Result<Written, DraftError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let draft = held.open_draft(by, "write", path).await?;
        let (policy, _) = held.policy()?;
        let base = match draft.before {
            Some(hash) => self.copy(hash)?,
            None => Vec::new(),
        };
        let (content, note) = as_the_original(&String::from_utf8_lossy(&base), content);
        if content.len() as u64 > policy.max_bytes {
            return Err(DraftError::Wrong(format!(
                "the content has {} bytes, and a draft may have {}; the draft is as it was",
                content.len(),
                policy.max_bytes
            )));
        }
        held.drafts.write(&draft.name, content.as_bytes()).map_err(file(&draft.name))?;
        Ok(Written {
            success: true,
            new_hash: Fingerprint::of(content.as_bytes()).to_string(),
            line_count: content.lines().count(),
            note,
            messages: held.messages(&draft.task).await?,
        })
    }

    /// What is in a draft.
    ///
    /// # Errors
    /// When there is no such draft.
    pub async fn read(self: &Arc<Self>, by: &str, path: &str) -> Result<Read, DraftError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let draft = held.draft(by, "read", path).await?;
        let bytes = held.read_draft(by, "read", &draft).await?.0;
        let content = String::from_utf8(bytes).map_err(|_| {
            DraftError::Wrong(format!(
                "the draft `{path}` is no UTF-8 text any more; write it anew"
            ))
        })?;
        let line_count = content.lines().count();
        Ok(Read { content, line_count, messages: held.messages(&draft.task).await? })
    }

    /// Hands drafts in, and waits a while for the verdict.
    ///
    /// # Errors
    /// When they cannot be handed in like this; they are as they were then.
    pub async fn submit(
        self: &Arc<Self>,
        by: &str,
        submit: Submit<'_>,
    ) -> Result<Submitted, DraftError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let task = held.task(by, "submit", submit.task_id).await?;
        let (id, again) = match held.handed_in_before(&submit, &task) {
            Some(id) => (id, true),
            None => (held.take_in(by, submit, &task).await?, false),
        };
        drop(held);
        let mut answer = self.verdict(id, &task).await?;
        if again {
            let said = format!(
                "this is what became of {}, and nothing new was handed in: ",
                answer.message_id
            );
            answer.next.insert_str(0, &said);
        }
        Ok(answer)
    }

    /// Has the gate decide on a submission, and waits for the verdict as long as workers wait.
    pub(crate) async fn verdict(
        self: &Arc<Self>,
        id: u64,
        task: &TaskId,
    ) -> Result<Submitted, DraftError> {
        let (waiting, waits) = Waiting::begin();
        let desk = Arc::clone(self);
        let deciding = self.deciding.spawn(async move { desk.decide(id, &waits, Wait::Yes).await });
        if let Ok(decided) = tokio::time::timeout(self.options.patience, deciding).await {
            let broke = |_| DraftError::Wrong("the gate broke off; hand it in again".to_owned());
            decided.map_err(broke)??;
        }
        // With the desk held nobody decides: either it is decided and told by this, or it will be told later.
        let mut held = self.hold().await?;
        drop(waiting);
        let messages = held.messages(task).await?;
        Ok(answer(held.submission(id)?, messages))
    }
}

impl Transaction<'_> {
    /// Rejects a name that holds a secret. The message does not repeat the name.
    pub(crate) fn refuse_secret(&self, what: &str, name: &str) -> Result<(), DraftError> {
        match SecretScanner::get()?.in_name(name) {
            None => Ok(()),
            Some(found) => Err(DraftError::Wrong(format!(
                "the {what} has {} in it, found by `{}`; choose another {what} without it",
                found.what, found.rule
            ))),
        }
    }

    /// Rejects the path of a new file that holds a secret. The name of an existing file is not judged.
    pub(crate) fn refuse_secret_path(&self, path: &str, policy: &Policy) -> Result<(), DraftError> {
        self.refuse_secret("file name", path).or_else(|error| {
            let workspace = &self.desk.workspace;
            let missing = |path: &Inside| {
                matches!(workspace.read(path, policy.max_bytes), Err(FileError::Missing))
            };
            match workspace.inside(path) {
                Ok(path) if !missing(&path) => Ok(()),
                _ => Err(error),
            }
        })
    }

    /// The task that is meant. One that would lead elsewhere as a path is written down.
    pub(crate) async fn task(
        &mut self,
        by: &str,
        tool: &str,
        text: &str,
    ) -> Result<TaskId, DraftError> {
        self.refuse_secret("task id", text)?;
        match text.parse() {
            Ok(task) => Ok(task),
            Err(error) if text.contains(['/', '\\', '\0']) => {
                let why = format!("{error}");
                Err(self.refuse(by, tool, Some(text), text, why).await)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The file that is meant, if the task may draft it, and what is in it.
    pub(crate) fn draftable(
        &self,
        source: &str,
        task: &TaskId,
        policy: &Policy,
        places: &Places,
    ) -> Result<(Inside, Option<Original>), DraftError> {
        if let Some(only) = policy.task.as_deref().filter(|only| *only != task.as_str()) {
            let why = format!("the contract is about the task `{only}`; use that as `task_id`");
            return Err(DraftError::Wrong(why));
        }
        self.refuse_secret_path(source, policy)?;
        let path = self.visible_path(source, places)?;
        if !places.is_allowed(&path) {
            let allowed = policy.allowed.as_deref().unwrap_or_default().join("`, `");
            return Err(DraftError::Refused(format!(
                "the contract does not let `{path}` be changed; it allows `{allowed}`"
            )));
        }
        let original = self.visible_file(&path, policy, places)?;
        if original.is_none() && source.ends_with('/') {
            return Err(DraftError::Wrong(format!("`{source}` names a folder; name a file")));
        }
        Ok((path, original))
    }

    /// What a path means, if workers may see what is there.
    pub(crate) fn visible_path(&self, text: &str, places: &Places) -> Result<Inside, DraftError> {
        let path = self.desk.workspace.inside(text);
        let path = path.map_err(|error| DraftError::Refused(error.to_string()))?;
        match places.is_hidden(&path) {
            false => Ok(path),
            true => Err(DraftError::Refused(format!(
                "`{path}` may hold secrets, and no worker may see it; {ALLOW}"
            ))),
        }
    }

    /// A file that workers may see, which is text; `None` if there is none.
    pub(crate) fn visible_file(
        &self,
        path: &Inside,
        policy: &Policy,
        places: &Places,
    ) -> Result<Option<Original>, DraftError> {
        let original = match self.desk.workspace.read(path, policy.max_bytes) {
            Ok(original) => original,
            Err(FileError::Missing) => return Ok(None),
            Err(error @ (FileError::Link | FileError::ManyNames(_) | FileError::Special)) => {
                return Err(DraftError::Refused(format!("`{path}` cannot be used here: {error}")));
            }
            Err(FileError::TooLarge(most)) => {
                return Err(DraftError::Wrong(format!(
                    "`{path}` has more than {most} bytes, and is too large for this; ask a person"
                )));
            }
            Err(error) => return Err(file(path.to_string())(error)),
        };
        if places.is_key(path, &original.bytes) {
            let why = format!(
                "`{path}` contains a private key (rule `secret/private-key`), and no worker may see it; {ALLOW}"
            );
            return Err(DraftError::Refused(why));
        }
        if original.bytes.contains(&0) || std::str::from_utf8(&original.bytes).is_err() {
            return Err(DraftError::Wrong(format!(
                "`{path}` is no UTF-8 text, and cannot be used here; ask a person to change it"
            )));
        }
        if let Some((line, secret)) = secret_in(path, &original.bytes)?
            && !places.is_readable(path)
        {
            return Err(DraftError::Refused(format!(
                "line {line} of `{path}` contains a secret (rule `secret/{}`), and no worker may see it; {ALLOW}",
                secret.rule
            )));
        }
        Ok(Some(original))
    }

    /// Finds the open draft of a file, or opens one; gives its name and what to say about it.
    async fn open(
        &mut self,
        by: &str,
        path: &Inside,
        task: &TaskId,
        policy: &Policy,
        (before, bytes): (Option<Fingerprint>, &[u8]),
    ) -> Result<(String, Option<&'static str>), DraftError> {
        let (name, note) = match self.state().draft_of(task, &path.to_string()) {
            Some(OpenDraft { submission: Some(id), .. }) => return Err(waits(*id)),
            Some(draft) => {
                let there = self.drafts.stat(&draft.name).is_ok_and(|there| there.is_some());
                match draft.before == before {
                    true if there => {
                        let note = "the draft is open already; what was written to it is kept";
                        return Ok((draft.name.clone(), Some(note)));
                    }
                    true => (draft.name.clone(), None),
                    false => {
                        let note = "the file has changed since, so the draft starts again from what it is now";
                        (draft.name.clone(), Some(note))
                    }
                }
            }
            None => {
                let open = self.state().drafts.values().filter(|draft| draft.task == *task).count();
                if open >= policy.max_files * DRAFTS_FOR_A_FILE {
                    let why =
                        format!("the task `{task}` has {open} open drafts; hand some in first");
                    return Err(DraftError::Wrong(why));
                }
                (free_name(self.state(), path, task), None)
            }
        };
        let step = Step::Requested {
            task: task.clone(),
            path: path.to_string(),
            draft: name.clone(),
            before,
            policy: policy.fingerprint(),
        };
        self.note(by, step).await?;
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
            return Err(DraftError::Wrong(why));
        }
        match self.desk.workspace.inside(submit.original_path) {
            Ok(path) if path.to_string() == draft.path => {}
            Ok(path) => {
                return Err(DraftError::Wrong(format!(
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
            return Err(DraftError::Wrong(format!(
                "the draft changes nothing in `{names}`; write the change to it first"
            )));
        }
        self.note_submission(by, task, (summary, None), files).await
    }

    /// A summary of at most so many characters, without a secret in it.
    pub(crate) fn summary(&self, text: &str) -> Result<String, DraftError> {
        let summary = assize_types::text::shorten(text.trim(), LONGEST_SUMMARY);
        let secrets = SecretScanner::get()?;
        let in_summary = |line| secrets.in_line(line, FileKind::Prose);
        match summary.lines().flat_map(in_summary).next() {
            None => Ok(summary),
            Some(found) => Err(DraftError::Wrong(format!(
                "the summary has {} in it; leave that out and hand it in again",
                found.what
            ))),
        }
    }

    /// Records a submission, which the gate decides on next; returns its number. The entry of a caller that was
    /// cancelled may be written first, so the number is known only once both are read back.
    pub(crate) async fn note_submission(
        &mut self,
        by: &str,
        task: &TaskId,
        (summary, key): (String, Option<&str>),
        files: Vec<Proposed>,
    ) -> Result<u64, DraftError> {
        let (policy, _) = self.policy()?;
        let policy = self.desk.copies.keep(&policy.to_bytes()).map_err(file("copies"))?;
        let (task, owned) = (task.clone(), key.map(str::to_owned));
        let step = Step::Submitted { task, summary, files, policy, key: owned };
        let entry = self.note(by, step).await?;
        let recorded = match key {
            Some(key) => self.state().submission_with_key(key),
            None => self.state().submission_of_entry(entry),
        };
        let lost =
            || DraftError::Wrong("the submission was not recorded; submit it again".to_owned());
        let submission = recorded.ok_or_else(lost)?;
        self.write_submission(submission);
        Ok(submission.id)
    }

    /// The draft that is meant by a path.
    async fn draft(&mut self, by: &str, tool: &str, path: &str) -> Result<OpenDraft, DraftError> {
        let name = draft_name(path, &self.desk.workspace.roots());
        let Some(name) = name else {
            let why = format!(
                "`{}` is no draft in `{HANDOFF}/{DRAFTS}`, the only place that drafts are in; use the \
                 `draft_path` that you were given",
                assize_types::text::shorten(path, 200)
            );
            return Err(self.refuse(by, tool, None, path, why).await);
        };
        let missing = || {
            DraftError::Wrong(format!(
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
            Err(FileError::Missing) => Err(DraftError::Wrong(format!(
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
        let base = match draft.before {
            Some(hash) => self.desk.copy(hash)?,
            None => Vec::new(),
        };
        if bytes == base && draft.before.is_some() {
            return Ok(None);
        }
        let after = self.desk.copies.keep(&bytes).map_err(file("copies"))?;
        let diff = Diff::between(&String::from_utf8_lossy(&base), &String::from_utf8_lossy(&bytes));
        Ok(Some(Proposed {
            path: draft.path.clone(),
            draft: Some(draft.name.clone()),
            before: draft.before,
            after,
            draft_mode,
            added: diff.added.len(),
            removed: diff.removed,
        }))
    }

    /// The submission that a draft was handed in with before, where it has not been asked for anew since: whoever
    /// asks again, as after a crash, has the same answer.
    fn handed_in_before(&self, submit: &Submit<'_>, task: &TaskId) -> Option<u64> {
        let name = draft_name(submit.draft_path, &self.desk.workspace.roots())?;
        if self.state().drafts.get(&name).is_some_and(|draft| draft.submission.is_none()) {
            return None;
        }
        let is_of = |s: &&Submission| {
            s.task == *task && s.files.iter().any(|file| file.draft.as_ref() == Some(&name))
        };
        self.state().submissions.values().rev().find(is_of).map(|submission| submission.id)
    }
}

/// What a user does about a file that is refused for its content.
const ALLOW: &str = "leave it alone, or have a user add it to the setting `draft.readable`";

/// The first secret in a file, with its line. A line whose comment lets a secret stay was confirmed by a reviewer.
fn secret_in(path: &Inside, bytes: &[u8]) -> Result<Option<(usize, Secret)>, DraftError> {
    let scanner = SecretScanner::get()?;
    let kind = FileKind::of(&path.to_string());
    let text = String::from_utf8_lossy(bytes);
    let found = scanner.in_text(&text, kind, |_| true).into_iter();
    Ok(found.filter(|(_, secret)| !secret.allowed).min_by_key(|(line, _)| *line))
}

/// That a file's change is submitted, and not to be changed.
pub(crate) fn waits(id: u64) -> DraftError {
    DraftError::Wrong(format!(
        "this change is submitted and waits for a decision (submission {id}); work on something else until it is made"
    ))
}

//! The desk's front: what workers do. They ask for a copy of a file, write and read their drafts, and hand
//! them in. Every answer says what to do next; every path is what somebody wrote, and hostile until it is not.

use std::path::{Component, Path};
use std::sync::Arc;

use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::Serialize;

use crate::book::{Message, OpenDraft, Proposed, Stage, Step, message_id};
use crate::desk::{Desk, DeskError, Held, file};
use crate::diff::Diff;
use crate::folder::{DRAFTS, HANDOFF};
use crate::gate::{Reason, Verdict};
use crate::inside::Inside;
use crate::policy::{Places, Policy};
use crate::task::TaskId;
use crate::verify::Verified;
use crate::workspace::FileError;

/// What a worker gets for asking.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Requested {
    /// Where the draft is, from the workspace's folder.
    pub draft_path: String,
    /// The SHA-256 of the file; empty for a file that is not there yet.
    pub original_hash: String,
    pub line_count: usize,
    /// There is no such file: the draft proposes one.
    pub new_file: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub messages: Vec<Message>,
}

/// What a worker gets for writing.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Written {
    pub success: bool,
    pub new_hash: String,
    pub line_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub messages: Vec<Message>,
}

/// What a worker gets for reading.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Read {
    pub content: String,
    pub line_count: usize,
    pub messages: Vec<Message>,
}

/// What a worker hands in.
#[derive(Debug, Clone, Copy)]
pub struct Submit<'a> {
    pub draft_path: &'a str,
    pub original_path: &'a str,
    pub task_id: &'a str,
    pub change_summary: &'a str,
    /// With all other drafts of the task, to be applied all or none.
    pub all_drafts: bool,
}

/// What a worker gets for handing in.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Submitted {
    pub submitted: bool,
    pub message_id: String,
    /// `accepted`, `rejected`, `escalated` or, while it is not decided, `pending`.
    pub verdict: &'static str,
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// What to do now.
    pub next: String,
    pub messages: Vec<Message>,
}

/// The longest summary that is kept.
const LONGEST_SUMMARY: usize = 2000;

/// Open drafts of one task, for each file that it may change.
const DRAFTS_FOR_A_FILE: usize = 10;

impl Desk {
    /// A copy of a file, to be edited as a draft.
    ///
    /// # Errors
    /// When the file may not be drafted, with the reason.
    pub async fn request(
        self: &Arc<Self>,
        by: &str,
        source_path: &str,
        task_id: &str,
    ) -> Result<Requested, DeskError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let task: TaskId = task_id.parse()?;
        let (policy, places) = held.policy()?;
        let path = match held.draftable(source_path, &task, &policy, &places) {
            Ok(path) => path,
            Err(why) => {
                return Err(held.refuse(by, "request", Some(task_id), source_path, why).await);
            }
        };
        let original = match self.workspace.read(&path, policy.max_bytes) {
            Ok(original) if places.is_key(&path, &original.bytes) => {
                let why = format!("`{path}` is a private key, and no worker may see it");
                return Err(held.refuse(by, "request", Some(task_id), source_path, why).await);
            }
            Ok(original) => Some(original),
            Err(FileError::Missing) => None,
            Err(error @ (FileError::Link | FileError::ManyNames(_) | FileError::Special)) => {
                let why = format!("`{path}` cannot be drafted: {error}");
                return Err(held.refuse(by, "request", Some(task_id), source_path, why).await);
            }
            Err(FileError::TooLarge(most)) => {
                return Err(DeskError::Wrong(format!(
                    "`{path}` has more than {most} bytes, and is too large to be drafted; ask a person"
                )));
            }
            Err(error) => return Err(file(path.to_string())(error)),
        };
        let bytes = original.as_ref().map(|original| original.bytes.as_slice()).unwrap_or_default();
        let Ok(text) = std::str::from_utf8(bytes)
            .map_err(drop)
            .and_then(|text| if text.contains('\0') { Err(()) } else { Ok(text) })
        else {
            return Err(DeskError::Wrong(format!(
                "`{path}` is no UTF-8 text, and cannot be drafted here; ask a person to change it"
            )));
        };
        let before = original.as_ref().map(|original| original.sha256);
        let messages = held.messages(&task).await?;
        let mut answer = Requested {
            draft_path: String::new(),
            original_hash: before.map(|hash| hash.to_string()).unwrap_or_default(),
            line_count: text.lines().count(),
            new_file: before.is_none(),
            note: before.is_none().then(|| {
                format!(
                    "there is no `{path}` yet: this draft proposes it as a new file, empty so far"
                )
            }),
            messages,
        };
        let name = match held.book().draft_of(&task, &path.to_string()) {
            Some(OpenDraft { submission: Some(id), .. }) => {
                return Err(DeskError::Wrong(format!(
                    "the draft of `{path}` is handed in and waits for a decision ({}); work on something else \
                     until it is made",
                    message_id(*id)
                )));
            }
            Some(draft)
                if draft.before == before
                    && held.drafts.read(&draft.name, u64::MAX - 1).is_ok() =>
            {
                answer.draft_path = draft_path(&draft.name);
                answer.note =
                    Some("the draft is open already; what was written to it is kept".to_owned());
                return Ok(answer);
            }
            Some(draft) => {
                if draft.before != before {
                    let note =
                        "the file has changed since, so the draft starts again from what it is now";
                    answer.note = Some(note.to_owned());
                }
                draft.name.clone()
            }
            None => {
                let open = held.book().drafts.values().filter(|draft| draft.task == task).count();
                if open >= policy.max_files * DRAFTS_FOR_A_FILE {
                    let why =
                        format!("the task `{task}` has {open} open drafts; hand some in first");
                    return Err(DeskError::Wrong(why));
                }
                held.free_name(&path, &task)
            }
        };
        if before.is_some() {
            self.copies.keep(bytes).map_err(file("copies"))?;
        }
        let step = Step::Requested {
            task,
            path: path.to_string(),
            draft: name.clone(),
            before,
            policy: policy.fingerprint(),
        };
        held.note(by, step).await?;
        held.drafts.write(&name, bytes).map_err(file(&name))?;
        answer.draft_path = draft_path(&name);
        Ok(answer)
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
    ) -> Result<Written, DeskError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let draft = held.open_draft(by, "write", path).await?;
        let (policy, _) = held.policy()?;
        if content.len() as u64 > policy.max_bytes {
            return Err(DeskError::Wrong(format!(
                "the content has {} bytes, and a draft may have {}; the draft is as it was",
                content.len(),
                policy.max_bytes
            )));
        }
        let base = match draft.before {
            Some(hash) => self.copy(hash)?,
            None => Vec::new(),
        };
        let (content, note) = as_the_original(&String::from_utf8_lossy(&base), content);
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
    pub async fn read(self: &Arc<Self>, by: &str, path: &str) -> Result<Read, DeskError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let draft = held.draft(by, "read", path).await?;
        let bytes = held.read_draft(by, "read", &draft).await?.0;
        let content = String::from_utf8(bytes).map_err(|_| {
            DeskError::Wrong(format!("the draft `{path}` is no UTF-8 text any more; write it anew"))
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
    ) -> Result<Submitted, DeskError> {
        let mut held = self.hold().await?;
        held.refuse_if_off()?;
        let task: TaskId = submit.task_id.parse()?;
        let draft = match held.settled_before(&submit, &task) {
            Some(answer) => return Ok(answer),
            None => held.open_draft(by, "submit", submit.draft_path).await?,
        };
        if draft.task != task {
            let why = format!("this draft belongs to the task `{}`, not to `{task}`", draft.task);
            return Err(DeskError::Wrong(why));
        }
        match self.workspace.inside(submit.original_path) {
            Ok(path) if path.to_string() == draft.path => {}
            Ok(path) => {
                return Err(DeskError::Wrong(format!(
                    "this is a draft of `{}`, not of `{path}`; name that as `original_path`",
                    draft.path
                )));
            }
            Err(error) => {
                let (path, why) = (submit.original_path, error.to_string());
                return Err(held.refuse(by, "submit", Some(submit.task_id), path, why).await);
            }
        }
        let others: Vec<OpenDraft> = held
            .book()
            .drafts
            .values()
            .filter(|other| submit.all_drafts && other.task == task && other.name != draft.name)
            .filter(|other| other.submission.is_none())
            .cloned()
            .collect();
        let mut files = Vec::new();
        let mut unchanged = Vec::new();
        for draft in std::iter::once(draft).chain(others) {
            match held.propose(by, &draft).await? {
                Some(proposed) => files.push(proposed),
                None => unchanged.push(draft.path),
            }
        }
        if files.is_empty() {
            let names = unchanged.join("`, `");
            return Err(DeskError::Wrong(format!(
                "the draft changes nothing in `{names}`; write the change to it first"
            )));
        }
        let (policy, _) = held.policy()?;
        let summary = assize_types::text::shorten(submit.change_summary.trim(), LONGEST_SUMMARY);
        let step =
            Step::Submitted { task: task.clone(), summary, files, policy: policy.fingerprint() };
        let id = held.note(by, step).await?;
        held.write_submission(held.submission(id)?)?;
        drop(held);

        let desk = Arc::clone(self);
        let deciding = tokio::spawn(async move { desk.decide(id, true).await });
        let waited = tokio::time::timeout(self.options.patience, deciding).await;
        if let Ok(decided) = waited {
            decided.map_err(|_| {
                DeskError::Wrong("the gate broke off; hand it in again".to_owned())
            })??;
        }
        let mut held = self.hold().await?;
        let messages = held.messages(&task).await?;
        let submission = held.submission(id)?;
        Ok(answer(submission, messages))
    }
}

/// How a submission stands, for its worker.
fn answer(submission: &crate::book::Submission, messages: Vec<Message>) -> Submitted {
    let (verdict, next) = match submission.stage {
        Stage::Accepted | Stage::Accepting => (
            "accepted",
            "the change is in the file, and the draft is gone; go on with what is left to do",
        ),
        Stage::Rejected => (
            "rejected",
            "the draft is gone and the file is unchanged; ask for the draft again, mend what the reasons \
             name, and hand it in again",
        ),
        Stage::Escalated => (
            "escalated",
            "a person decides; leave this file alone until they have, and do not hand it in again",
        ),
        Stage::Submitted => {
            ("pending", "it is being verified; the verdict comes with the answer to a later call")
        }
        Stage::Undone | Stage::Undoing => ("undone", "a person has taken the change back"),
    };
    Submitted {
        submitted: true,
        message_id: message_id(submission.id),
        verdict,
        reasons: submission.reasons.clone(),
        verified: submission.verified.clone(),
        next: next.to_owned(),
        messages,
    }
}

/// A draft's path as workers see it.
fn draft_path(name: &str) -> String {
    format!("{HANDOFF}/{DRAFTS}/{name}")
}

/// The name of the draft that is meant by a path: full, from the workspace's folder, or the name alone.
fn draft_name(text: &str, root: &Path) -> Option<String> {
    let path = Path::new(text);
    let below = if path.is_absolute() { path.strip_prefix(root).ok()? } else { path };
    let mut parts = Vec::new();
    for part in below.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    match (parts.as_slice(), path.is_absolute()) {
        ([HANDOFF, DRAFTS, name], _) | ([name], false) => Some((*name).to_owned()),
        _ => None,
    }
}

/// What was written, with the line ends and the mark at the beginning that the original has, which models
/// tend to lose; and what to say about it.
fn as_the_original(original: &str, content: &str) -> (String, Option<String>) {
    const MARK: char = '\u{feff}';
    let mut content = content.to_owned();
    let mut notes = Vec::new();
    let lines = |text: &str, end: &str| text.matches(end).count();
    let windows = lines(original, "\n") > 0 && lines(original, "\n") == lines(original, "\r\n");
    if windows && !content.contains('\r') && content.contains('\n') {
        content = content.replace('\n', "\r\n");
        notes.push("its lines end with CRLF, as those of the file do");
    }
    if original.starts_with(MARK) && !content.starts_with(MARK) {
        content.insert(0, MARK);
        notes.push("it begins with a byte order mark, as the file does");
    }
    if original.ends_with('\n') && !content.is_empty() && !content.ends_with('\n') {
        notes.push("it has no newline at its end, and the file has one");
    }
    (content, (!notes.is_empty()).then(|| notes.join("; ")))
}

impl Held<'_> {
    fn refuse_if_off(&self) -> Result<(), DeskError> {
        match self.book().off {
            false => Ok(()),
            true => Err(DeskError::Wrong(
                "the draft tools are switched off in this workspace; stop, and tell the person you work for"
                    .to_owned(),
            )),
        }
    }

    /// The file that is meant, if the task may draft it.
    fn draftable(
        &self,
        source: &str,
        task: &TaskId,
        policy: &Policy,
        places: &Places,
    ) -> Result<Inside, String> {
        if let Some(only) = policy.task.as_deref().filter(|only| *only != task.as_str()) {
            return Err(format!("the contract is about the task `{only}`; use that as `task_id`"));
        }
        let path = self.desk.workspace.inside(source).map_err(|error| error.to_string())?;
        if places.is_hidden(&path) {
            return Err(format!(
                "`{path}` may hold secrets, and no worker may see it; leave it alone"
            ));
        }
        if !places.is_allowed(&path) {
            let allowed = policy.allowed.as_deref().unwrap_or_default().join("`, `");
            return Err(format!(
                "the contract does not let `{path}` be changed; it allows `{allowed}`"
            ));
        }
        Ok(path)
    }

    /// A name for a draft that no other has.
    fn free_name(&self, path: &Inside, task: &TaskId) -> String {
        let taken = |name: &str| {
            let name = name.to_lowercase();
            self.book().drafts.keys().any(|other| other.to_lowercase() == name)
        };
        let hash = &Fingerprint::of(path.to_string()).to_string()[..8];
        let plain = format!("{}.{task}.draft", path.name());
        let cut: String = path.name().chars().take(40).collect();
        match plain.len() <= 200 && !taken(&plain) {
            true => plain,
            false => format!("{cut}.{task}.{hash}.draft"),
        }
    }

    /// The draft that is meant by a path.
    async fn draft(&mut self, by: &str, tool: &str, path: &str) -> Result<OpenDraft, DeskError> {
        let name = draft_name(path, self.desk.workspace.path());
        let Some(name) = name else {
            let why = format!(
                "`{}` is not in `{HANDOFF}/{DRAFTS}`, the only place that drafts are in; use the \
                 `draft_path` that you were given",
                assize_types::text::shorten(path, 200)
            );
            return Err(self.refuse(by, tool, None, path, why).await);
        };
        match self.book().drafts.get(&name) {
            Some(draft) => Ok(draft.clone()),
            None => {
                let why = format!(
                    "there is no open draft `{name}`; ask for one with `ollama_request_draft`"
                );
                Err(self.refuse(by, tool, None, path, why).await)
            }
        }
    }

    /// The same, if it can still be changed.
    async fn open_draft(
        &mut self,
        by: &str,
        tool: &str,
        path: &str,
    ) -> Result<OpenDraft, DeskError> {
        let draft = self.draft(by, tool, path).await?;
        match draft.submission {
            None => Ok(draft),
            Some(id) => Err(DeskError::Wrong(format!(
                "this draft is handed in and waits for a decision ({}); work on something else until it is made",
                message_id(id)
            ))),
        }
    }

    /// What is in a draft, and its permissions.
    async fn read_draft(
        &mut self,
        by: &str,
        tool: &str,
        draft: &OpenDraft,
    ) -> Result<(Vec<u8>, u32), DeskError> {
        let (policy, _) = self.policy()?;
        match self.drafts.read_with_mode(&draft.name, policy.max_bytes) {
            Ok(found) => Ok(found),
            Err(FileError::Missing) => Err(DeskError::Wrong(format!(
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
    ) -> Result<Option<Proposed>, DeskError> {
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
            draft: draft.name.clone(),
            before: draft.before,
            after,
            draft_mode,
            added: diff.added.len(),
            removed: diff.removed,
        }))
    }

    /// The verdict on a draft that was handed in before, and has been settled since: whoever asks again after
    /// a crash has the same answer.
    fn settled_before(&self, submit: &Submit<'_>, task: &TaskId) -> Option<Submitted> {
        let name = draft_name(submit.draft_path, self.desk.workspace.path())?;
        if self.book().drafts.get(&name).is_some_and(|draft| draft.submission.is_none()) {
            return None;
        }
        let is_of = |s: &&crate::book::Submission| {
            s.task == *task && s.files.iter().any(|file| file.draft == name)
        };
        let submission = self.book().submissions.values().rev().find(is_of)?;
        Some(answer(submission, Vec::new()))
    }
}

/// What a verdict is called.
impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::Rejected => "rejected",
            Verdict::Escalated => "escalated",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_meant_by_its_path_or_its_name() {
        let root = Path::new("/srv/repo");
        let name = |text: &str| draft_name(text, root);
        for text in [
            "_handoff/drafts/a.t.draft",
            "./_handoff/drafts/a.t.draft",
            "/srv/repo/_handoff/drafts/a.t.draft",
            "a.t.draft",
        ] {
            assert_eq!(name(text).as_deref(), Some("a.t.draft"), "{text}");
        }
        for text in [
            "",
            "/a.t.draft",
            "_handoff/a.t.draft",
            "_handoff/drafts/../../src/x",
            "_handoff/drafts/x/a.t.draft",
            "/srv/other/_handoff/drafts/a",
            "/etc/passwd",
            "..",
            "_HANDOFF/drafts/a",
        ] {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn line_ends_are_those_of_the_file() {
        let kept = |original: &str, content: &str| as_the_original(original, content).0;
        assert_eq!(kept("a\r\nb\r\n", "a\nc\n"), "a\r\nc\r\n");
        assert_eq!(kept("a\r\nb\n", "a\nc\n"), "a\nc\n");
        assert_eq!(kept("a\nb\n", "a\r\nc\r\n"), "a\r\nc\r\n");
        assert_eq!(kept("\u{feff}a\n", "b\n"), "\u{feff}b\n");
        assert_eq!(kept("a\n", "b"), "b");
        assert!(as_the_original("a\n", "b").1.unwrap().contains("no newline at its end"));
        assert_eq!(as_the_original("a", "b").1, None);
        assert_eq!(as_the_original("", "b").1, None);
    }
}

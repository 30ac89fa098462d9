//! The steps that happen to the drafts of a workspace, and its state: the sum of the steps.

use std::collections::BTreeMap;

use assize_gate::{Effect, Reason, TaskId, Verdict, Verified};
use assize_run::AuditEntry;
use assize_types::Fingerprint;
use assize_workspace::Replacing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

/// One thing that happened. What it is called and what it carries stand in the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", content = "detail", rename_all = "snake_case")]
pub enum Step {
    /// A worker asked for a copy of a file.
    Requested {
        task: TaskId,
        path: String,
        draft: String,
        /// The file's content, if there is such a file.
        before: Option<Fingerprint>,
        policy: Fingerprint,
    },
    /// A worker submits its changes: `DRAFT_READY`. Submissions of a workspace are numbered from 1, in the order of
    /// their entries; the entry itself has no number, as another may be written before it.
    Submitted {
        task: TaskId,
        summary: String,
        files: Vec<Proposed>,
        policy: Fingerprint,
        /// Idempotency key: a second entry with the same key is the same submission.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// What becomes of it. Where it is to be applied, this is written down before it is; else it is
    /// `DRAFT_REJECTED` or `DRAFT_ESCALATED`.
    Decided {
        submission: u64,
        verdict: Verdict,
        reasons: Vec<Reason>,
        /// What is to be replaced.
        files: Vec<Replacing>,
        policy: Fingerprint,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verified: Option<Verified>,
        /// The worker learns of it by the answer to what it asked.
        told: bool,
    },
    /// It was applied: `DRAFT_ACCEPTED`.
    Applied { submission: u64, told: bool },
    /// It was not, after all.
    NotApplied { submission: u64, why: String },
    /// What was applied will be taken back.
    Undoing { submission: u64, files: Vec<Replacing> },
    /// It was: `DRAFT_UNDONE`.
    Undone { submission: u64 },
    /// A path was refused.
    Refused {
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        path: String,
        why: String,
    },
    /// The worker of a task has had all messages up to this one.
    Told { task: TaskId, up_to: u64 },
    /// The tools were switched on or off.
    Switched { on: bool },
    /// A draft that was never submitted was deleted.
    Expired { draft: String, task: TaskId },
    /// What was kept of settled submissions was put away.
    Swept { submissions: Vec<u64>, copies: usize },
    /// The log in the workspace ended too early, and was completed.
    LogCompleted { lines_there: usize, lines_added: usize },
    /// The log in the workspace was another's, as after a move of the folder, and was put aside.
    LogSetAside { name: String },
}

/// A file of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProposedFile")]
pub struct Proposed {
    pub path: String,
    /// Its name in the drafts folder; `None` for a change that a worker without tools wrote as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    pub before: Option<Fingerprint>,
    pub after: Fingerprint,
    /// The permissions of the draft.
    pub draft_mode: u32,
    pub added: usize,
    pub removed: usize,
}

impl Step {
    /// Its name and what it carries, as they are written down.
    pub(crate) fn parts(&self) -> (String, Value) {
        let mut value = json!(self);
        let action = value["action"].as_str().unwrap_or_default().to_owned();
        (action, value["detail"].take())
    }

    /// The step that an entry records.
    pub fn of(entry: &AuditEntry) -> Result<Step, serde_json::Error> {
        serde_json::from_value(json!({"action": entry.action, "detail": entry.detail}))
    }
}

/// A draft that somebody works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenDraft {
    /// Its name in the drafts folder.
    pub name: String,
    pub task: TaskId,
    pub path: String,
    pub before: Option<Fingerprint>,
    /// When it was asked for, in milliseconds since 1970.
    pub since: u64,
    /// The submission that it waits in.
    pub submission: Option<u64>,
}

/// How a submission stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, IntoStaticStr, VariantArray)]
#[schemars(rename = "SubmissionStage")]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Stage {
    /// Nobody has decided yet.
    Submitted,
    Escalated,
    /// It is being applied.
    Accepting,
    Accepted,
    Rejected,
    /// It is being taken back.
    Undoing,
    Undone,
}

impl Stage {
    /// Whether a submission waits for the gate or a reviewer.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Stage::Submitted | Stage::Escalated)
    }

    pub const ALL: &'static [Stage] = Stage::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Drafts that were submitted together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Submission {
    /// Its number in the workspace, from 1.
    pub id: u64,
    /// The log entry that it is, after which its message is named.
    pub entry: u64,
    pub at: u64,
    /// When it came to where it is.
    pub settled: u64,
    /// Idempotency key of the request that submitted it.
    #[serde(skip)]
    pub key: Option<String>,
    pub task: TaskId,
    pub summary: String,
    pub worker: String,
    pub files: Vec<Proposed>,
    /// What the gate went by when it was handed in.
    pub policy: Fingerprint,
    pub stage: Stage,
    /// Who decided.
    pub by: Option<String>,
    pub reasons: Vec<Reason>,
    pub verified: Option<Verified>,
    /// What was replaced when it was applied.
    pub replaced: Vec<Replacing>,
    /// Its copies were put away, so that it cannot be shown or undone any more.
    pub swept: bool,
}

impl Submission {
    /// Something about it as a whole; its first file stands for it.
    pub(crate) fn reason(&self, effect: Effect, rule: &str, message: impl Into<String>) -> Reason {
        let file = self.files.first().map(|file| file.path.clone()).unwrap_or_default();
        Reason::of_file(&file, effect, rule, message)
    }

    /// What is being changed in the stage it is in.
    pub(crate) fn changes(&self) -> Vec<Replacing> {
        if self.stage == Stage::Undoing { self.reversed() } else { self.replaced.clone() }
    }

    /// The way back.
    pub(crate) fn reversed(&self) -> Vec<Replacing> {
        let reverse = |file: &Replacing| Replacing {
            path: file.path.clone(),
            before: file.after,
            after: file.before,
        };
        self.replaced.iter().map(reverse).collect()
    }
}

/// What workers are told.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Message {
    pub message_id: String,
    pub kind: MessageKind,
    pub task_id: TaskId,
    /// The number of the submission that it is about.
    pub submission: u64,
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageKind {
    DraftReady,
    DraftAccepted,
    DraftRejected,
    DraftEscalated,
    DraftUndone,
}

impl MessageKind {
    /// What a step tells, if anything.
    pub fn of(step: &Step) -> Option<MessageKind> {
        match step {
            Step::Submitted { .. } => Some(MessageKind::DraftReady),
            Step::Applied { .. } => Some(MessageKind::DraftAccepted),
            Step::Decided { verdict: Verdict::Rejected, .. } => Some(MessageKind::DraftRejected),
            Step::Decided { verdict: Verdict::Escalated, .. } => Some(MessageKind::DraftEscalated),
            Step::Undone { .. } => Some(MessageKind::DraftUndone),
            _ => None,
        }
    }
}

/// What a message is called, by the entry that it is.
pub fn message_id(entry: u64) -> String {
    format!("msg_{entry}")
}

/// The state of a workspace's drafts: the sum of its log entries.
#[derive(Debug, Clone, Default)]
pub struct DraftState {
    /// Open drafts, by name.
    pub drafts: BTreeMap<String, OpenDraft>,
    pub submissions: BTreeMap<u64, Submission>,
    /// Messages that no worker has had yet, by the entry that they are.
    pub pending: BTreeMap<u64, Message>,
    /// Whether the tools are switched off.
    pub off: bool,
    /// How many paths were refused.
    pub refused: u64,
    /// The last entry that is in it.
    pub last: u64,
    /// How many entries are in it.
    pub entries: usize,
}

impl DraftState {
    /// The state after all entries of a workspace.
    pub fn of(entries: &[AuditEntry]) -> DraftState {
        let mut state = DraftState::default();
        entries.iter().for_each(|entry| state.take(entry));
        state
    }

    /// Takes the next entry in. What a later version wrote, and this one does not know, changes nothing.
    pub(crate) fn take(&mut self, entry: &AuditEntry) {
        self.last = entry.id;
        self.entries += 1;
        let Ok(step) = Step::of(entry) else { return };
        let message = MessageKind::of(&step);
        // The submission whose worker is still to be told.
        let untold = match step {
            Step::Applied { submission, told: false }
            | Step::Decided { submission, told: false, .. }
            | Step::Undone { submission } => Some(submission),
            _ => None,
        };
        match step {
            Step::Requested { task, path, draft, before, .. } => {
                let (name, since) = (draft.clone(), entry.at);
                let open = OpenDraft { name, task, path, before, since, submission: None };
                self.drafts.insert(draft, open);
            }
            Step::Submitted { key: Some(key), .. } if self.submission_with_key(&key).is_some() => {}
            Step::Submitted { task, summary, files, policy, key } => {
                let id = self.last_submission() + 1;
                for name in files.iter().filter_map(|file| file.draft.as_ref()) {
                    if let Some(draft) = self.drafts.get_mut(name) {
                        draft.submission = Some(id);
                    }
                }
                let submission = Submission {
                    id,
                    entry: entry.id,
                    at: entry.at,
                    settled: entry.at,
                    key,
                    task,
                    summary,
                    worker: entry.actor.clone(),
                    files,
                    policy,
                    stage: Stage::Submitted,
                    by: None,
                    reasons: Vec::new(),
                    verified: None,
                    replaced: Vec::new(),
                    swept: false,
                };
                self.submissions.insert(id, submission);
            }
            Step::Decided { submission: id, verdict, reasons, files, verified, .. } => {
                let stage = match verdict {
                    Verdict::Accepted => Stage::Accepting,
                    Verdict::Rejected => Stage::Rejected,
                    Verdict::Escalated => Stage::Escalated,
                };
                if let Some(submission) = self.moved(id, entry, stage) {
                    submission.by = Some(entry.actor.clone());
                    submission.reasons = reasons;
                    submission.verified = verified;
                    submission.replaced = files;
                }
                if verdict == Verdict::Rejected {
                    self.close_drafts(id);
                }
            }
            Step::Applied { submission, .. } => {
                self.moved(submission, entry, Stage::Accepted);
                self.close_drafts(submission);
            }
            Step::NotApplied { submission, .. } => {
                // Nothing came of it: it stands as long as before.
                if let Some(submission) = self.submissions.get_mut(&submission) {
                    submission.stage = match submission.stage {
                        Stage::Undoing => Stage::Accepted,
                        _ => Stage::Escalated,
                    };
                }
            }
            Step::Undoing { submission, .. } => {
                if let Some(submission) = self.submissions.get_mut(&submission) {
                    submission.stage = Stage::Undoing;
                }
            }
            Step::Undone { submission } => {
                if let Some(submission) = self.moved(submission, entry, Stage::Undone) {
                    submission.by = Some(entry.actor.clone());
                }
            }
            Step::Refused { .. } => self.refused += 1,
            Step::Told { task, up_to } => {
                self.pending.retain(|id, message| *id > up_to || message.task_id != task);
            }
            Step::Switched { on } => self.off = !on,
            Step::Expired { draft, .. } => drop(self.drafts.remove(&draft)),
            Step::Swept { submissions, .. } => {
                for id in submissions {
                    if let Some(submission) = self.submissions.get_mut(&id) {
                        submission.swept = true;
                    }
                }
            }
            Step::LogCompleted { .. } | Step::LogSetAside { .. } => {}
        }
        if let (Some(kind), Some(id)) = (message, untold) {
            self.keep_message(entry, kind, id);
        }
    }

    fn moved(&mut self, id: u64, entry: &AuditEntry, stage: Stage) -> Option<&mut Submission> {
        let submission = self.submissions.get_mut(&id)?;
        (submission.stage, submission.settled) = (stage, entry.at);
        Some(submission)
    }

    fn close_drafts(&mut self, id: u64) {
        self.drafts.retain(|_, draft| draft.submission != Some(id));
    }

    /// Keeps what a worker is still to be told.
    fn keep_message(&mut self, entry: &AuditEntry, kind: MessageKind, id: u64) {
        let Some(submission) = self.submissions.get(&id) else { return };
        let undone = kind == MessageKind::DraftUndone;
        let message = Message {
            message_id: message_id(entry.id),
            kind,
            task_id: submission.task.clone(),
            submission: id,
            reasons: if undone { Vec::new() } else { submission.reasons.clone() },
            verified: submission.verified.clone().filter(|_| !undone),
        };
        self.pending.insert(entry.id, message);
    }

    /// The number of the last submission; 0 if there is none.
    pub(crate) fn last_submission(&self) -> u64 {
        self.submissions.last_key_value().map_or(0, |(last, _)| *last)
    }

    /// The submission that was recorded by a log entry.
    pub(crate) fn submission_of_entry(&self, entry: u64) -> Option<&Submission> {
        self.submissions.values().rev().find(|submission| submission.entry == entry)
    }

    /// The submission with an idempotency key.
    pub(crate) fn submission_with_key(&self, key: &str) -> Option<&Submission> {
        self.submissions.values().rev().find(|submission| submission.key.as_deref() == Some(key))
    }

    /// The submission that a person or a worker names: by its number (`3`) or by its message (`msg_12`).
    pub fn submission_named(&self, text: &str) -> Option<&Submission> {
        match text.strip_prefix("msg_") {
            Some(entry) => self.submission_of_entry(entry.parse().ok()?),
            None => self.submissions.get(&text.parse().ok()?),
        }
    }
}

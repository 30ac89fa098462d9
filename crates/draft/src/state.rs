//! Steps of the draft workflow, which are recorded in the audit log, and the state that is computed from these steps.

use std::collections::BTreeMap;

use assize_gate::{GateVerdict, Reason, ReasonEffect, TaskId, VerifyResult};
use assize_run::AuditEntry;
use assize_types::Fingerprint;
use assize_workspace::FileReplacement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

/// A step of the draft workflow. An entry of the audit log records it as `action` and `detail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", content = "detail", rename_all = "snake_case")]
pub enum DraftStep {
    /// An agent requested a draft of a file.
    Requested {
        task: TaskId,
        path: String,
        draft: String,
        /// Hash of the file's content; null if the file does not exist.
        before: Option<Fingerprint>,
        policy: Fingerprint,
    },
    /// An agent submitted changes (message `DRAFT_READY`). Submissions of a workspace are numbered from 1 in the order
    /// of their entries. The entry does not contain the number, because another entry may be written just before this
    /// entry.
    Submitted {
        task: TaskId,
        summary: String,
        files: Vec<ProposedFile>,
        policy: Fingerprint,
        /// Idempotency key: a second entry with the same key does not create a second submission.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// A verdict on a submission. The verdict `accepted` records only the intent to apply the change; a second entry
    /// records that the change was applied. The verdicts `rejected` and `escalated` are sent to the agent as
    /// `DRAFT_REJECTED` and `DRAFT_ESCALATED`.
    Decided {
        submission: u64,
        verdict: GateVerdict,
        reasons: Vec<Reason>,
        /// Files that will be replaced; empty unless the verdict is `accepted`.
        files: Vec<FileReplacement>,
        policy: Fingerprint,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verified: Option<VerifyResult>,
        /// Whether the response to the agent's call reports the verdict; if false, a later message reports it.
        reported: bool,
    },
    /// The change of an accepted submission was applied (message `DRAFT_ACCEPTED`).
    Applied { submission: u64, reported: bool },
    /// The change of an accepted submission could not be applied, or could not be undone.
    NotApplied { submission: u64, why: String },
    /// A reviewer decided to undo an applied change. This step is recorded before the files are restored.
    Undoing { submission: u64, files: Vec<FileReplacement> },
    /// An applied change was undone (message `DRAFT_UNDONE`).
    Undone { submission: u64 },
    /// A tool call was refused because its path is not allowed.
    Refused {
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        path: String,
        why: String,
    },
    /// All messages for the agent of a task, up to the entry `up_to`, were delivered.
    MessagesDelivered { task: TaskId, up_to: u64 },
    /// The draft tools were switched on or off.
    Switched { on: bool },
    /// A draft that was never submitted was deleted.
    Expired { draft: String, task: TaskId },
    /// A cleanup deleted the stored file contents of old submissions.
    ContentsDeleted { submissions: Vec<u64>, copies: usize },
    /// The log file in the workspace was too short, and the missing lines were appended.
    LogCompleted { lines_present: usize, lines_added: usize },
    /// The log file in the workspace belonged to another folder, for example because a user moved the workspace. The
    /// log file was renamed.
    LogSetAside { name: String },
}

/// One file of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProposedFile {
    pub path: String,
    /// Name of the draft in the drafts folder; null for a change that an agent without tools wrote as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<String>,
    /// Hash of the old content; null for a new file.
    pub before: Option<Fingerprint>,
    /// Hash of the proposed content.
    pub after: Fingerprint,
    /// Unix permission bits of the draft.
    pub draft_mode: u32,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
}

impl DraftStep {
    /// Splits the step into the action and the detail of an audit log entry.
    pub(crate) fn parts(&self) -> (String, Value) {
        let mut value = json!(self);
        let action = value["action"].as_str().unwrap_or_default().to_owned();
        (action, value["detail"].take())
    }

    /// Parses the step that an entry of the audit log records.
    pub fn of(entry: &AuditEntry) -> Result<DraftStep, serde_json::Error> {
        serde_json::from_value(json!({"action": entry.action, "detail": entry.detail}))
    }
}

/// A draft that an agent requested and that is not decided on yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenDraft {
    /// File name in the drafts folder.
    pub name: String,
    pub task: TaskId,
    pub path: String,
    /// Hash of the content from which the draft was created; null for a new file.
    pub before: Option<Fingerprint>,
    /// When the draft was requested, in milliseconds since 1970.
    pub since: u64,
    /// Number of the waiting submission that contains the draft; null if the draft is not submitted.
    pub submission: Option<u64>,
}

/// Stage of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SubmissionStage {
    /// The submission is not decided yet.
    Submitted,
    Escalated,
    /// The change is being applied.
    Accepting,
    Accepted,
    Rejected,
    /// The change is being undone.
    Undoing,
    Undone,
}

impl SubmissionStage {
    /// Whether a submission in this stage waits for a decision of the gate or a reviewer.
    pub(crate) fn is_undecided(self) -> bool {
        matches!(self, SubmissionStage::Submitted | SubmissionStage::Escalated)
    }

    pub const ALL: &'static [SubmissionStage] = SubmissionStage::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Changes to files that were submitted together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Submission {
    /// Number of the submission in its workspace, from 1.
    pub id: u64,
    /// Id of the submission's log entry. The message id of the submission is built from this id.
    pub entry: u64,
    /// When the submission was recorded, in milliseconds since 1970.
    pub at: u64,
    /// When the submission reached its current stage, in milliseconds since 1970.
    pub settled: u64,
    /// Idempotency key of the request that created the submission.
    #[serde(skip)]
    pub key: Option<String>,
    pub task: TaskId,
    pub summary: String,
    /// Name of the agent that submitted the changes.
    pub worker: String,
    pub files: Vec<ProposedFile>,
    /// Hash of the gate's policy at the time of submission.
    pub policy: Fingerprint,
    pub stage: SubmissionStage,
    /// Actor that decided: `gate` or the name of a reviewer; null if the submission is not decided yet.
    pub by: Option<String>,
    pub reasons: Vec<Reason>,
    pub verified: Option<VerifyResult>,
    /// Files that were replaced when the submission was applied.
    pub replaced: Vec<FileReplacement>,
    /// Whether a cleanup deleted the stored file contents. If so, there are no diffs any more, and undo is impossible.
    pub contents_deleted: bool,
}

impl Submission {
    /// Creates a reason that concerns the whole submission. The reason contains the path of the first file of the
    /// submission.
    pub(crate) fn reason(
        &self,
        effect: ReasonEffect,
        rule: &str,
        message: impl Into<String>,
    ) -> Reason {
        let file = self.files.first().map(|file| file.path.clone()).unwrap_or_default();
        Reason::of_file(&file, effect, rule, message)
    }

    /// Returns the file replacements that are in progress. In the stage `undoing`, the replacements restore the old
    /// contents. In other stages, the replacements write the proposed contents.
    pub(crate) fn replacements_in_progress(&self) -> Vec<FileReplacement> {
        if self.stage == SubmissionStage::Undoing { self.reversed() } else { self.replaced.clone() }
    }

    /// Returns the file replacements that undo the submission.
    pub(crate) fn reversed(&self) -> Vec<FileReplacement> {
        let reverse = |file: &FileReplacement| FileReplacement {
            path: file.path.clone(),
            before: file.after,
            after: file.before,
        };
        self.replaced.iter().map(reverse).collect()
    }
}

/// Message that informs an agent about a decision on one of its submissions.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentMessage {
    pub message_id: String,
    pub kind: MessageKind,
    pub task_id: TaskId,
    /// Number of the submission.
    pub submission: u64,
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifyResult>,
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
    /// Returns the kind of message that a step of the draft workflow produces, if any.
    pub fn of(step: &DraftStep) -> Option<MessageKind> {
        match step {
            DraftStep::Submitted { .. } => Some(MessageKind::DraftReady),
            DraftStep::Applied { .. } => Some(MessageKind::DraftAccepted),
            DraftStep::Decided { verdict: GateVerdict::Rejected, .. } => {
                Some(MessageKind::DraftRejected)
            }
            DraftStep::Decided { verdict: GateVerdict::Escalated, .. } => {
                Some(MessageKind::DraftEscalated)
            }
            DraftStep::Undone { .. } => Some(MessageKind::DraftUndone),
            _ => None,
        }
    }
}

/// Returns the message id of a log entry, such as `msg_12`.
pub fn message_id(entry: u64) -> String {
    format!("msg_{entry}")
}

/// State of a workspace's drafts, computed from its log entries.
#[derive(Debug, Clone, Default)]
pub struct DraftState {
    /// Open drafts, by name.
    pub drafts: BTreeMap<String, OpenDraft>,
    /// All submissions, by number.
    pub submissions: BTreeMap<u64, Submission>,
    /// Messages for agents that are not delivered yet, by the id of their log entry.
    pub undelivered_messages: BTreeMap<u64, AgentMessage>,
    /// Whether the draft tools are switched off.
    pub tools_off: bool,
    /// Number of tool calls that were refused because of their path.
    pub refused_calls: u64,
    /// Id of the last log entry from which this state is computed; 0 if there is none.
    pub last_entry: u64,
    /// Number of log entries from which this state is computed.
    pub entries: usize,
}

impl DraftState {
    /// Computes the state from all log entries of a workspace.
    pub fn of(entries: &[AuditEntry]) -> DraftState {
        let mut state = DraftState::default();
        entries.iter().for_each(|entry| state.apply_entry(entry));
        state
    }

    /// Applies the next log entry to the state. An entry with an unknown step (written by a later version of Assize) is
    /// only counted.
    pub(crate) fn apply_entry(&mut self, entry: &AuditEntry) {
        self.last_entry = entry.id;
        self.entries += 1;
        let Ok(step) = DraftStep::of(entry) else { return };
        let message = MessageKind::of(&step);
        // The submission whose agent must still be informed with a message.
        let undelivered = match step {
            DraftStep::Applied { submission, reported: false }
            | DraftStep::Decided { submission, reported: false, .. }
            | DraftStep::Undone { submission } => Some(submission),
            _ => None,
        };
        match step {
            DraftStep::Requested { task, path, draft, before, .. } => {
                let (name, since) = (draft.clone(), entry.at);
                let open = OpenDraft { name, task, path, before, since, submission: None };
                self.drafts.insert(draft, open);
            }
            DraftStep::Submitted { key: Some(key), .. }
                if self.submission_with_key(&key).is_some() => {}
            DraftStep::Submitted { task, summary, files, policy, key } => {
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
                    stage: SubmissionStage::Submitted,
                    by: None,
                    reasons: Vec::new(),
                    verified: None,
                    replaced: Vec::new(),
                    contents_deleted: false,
                };
                self.submissions.insert(id, submission);
            }
            DraftStep::Decided { submission: id, verdict, reasons, files, verified, .. } => {
                let stage = match verdict {
                    GateVerdict::Accepted => SubmissionStage::Accepting,
                    GateVerdict::Rejected => SubmissionStage::Rejected,
                    GateVerdict::Escalated => SubmissionStage::Escalated,
                };
                if let Some(submission) = self.set_stage(id, entry, stage) {
                    submission.by = Some(entry.actor.clone());
                    submission.reasons = reasons;
                    submission.verified = verified;
                    submission.replaced = files;
                }
                if verdict == GateVerdict::Rejected {
                    self.close_drafts(id);
                }
            }
            DraftStep::Applied { submission, .. } => {
                self.set_stage(submission, entry, SubmissionStage::Accepted);
                self.close_drafts(submission);
            }
            DraftStep::NotApplied { submission, .. } => {
                // No file was changed, so `settled` keeps the time of the earlier stage.
                if let Some(submission) = self.submissions.get_mut(&submission) {
                    submission.stage = match submission.stage {
                        SubmissionStage::Undoing => SubmissionStage::Accepted,
                        _ => SubmissionStage::Escalated,
                    };
                }
            }
            DraftStep::Undoing { submission, .. } => {
                if let Some(submission) = self.submissions.get_mut(&submission) {
                    submission.stage = SubmissionStage::Undoing;
                }
            }
            DraftStep::Undone { submission } => {
                if let Some(submission) = self.set_stage(submission, entry, SubmissionStage::Undone)
                {
                    submission.by = Some(entry.actor.clone());
                }
            }
            DraftStep::Refused { .. } => self.refused_calls += 1,
            DraftStep::MessagesDelivered { task, up_to } => {
                self.undelivered_messages
                    .retain(|id, message| *id > up_to || message.task_id != task);
            }
            DraftStep::Switched { on } => self.tools_off = !on,
            DraftStep::Expired { draft, .. } => drop(self.drafts.remove(&draft)),
            DraftStep::ContentsDeleted { submissions, .. } => {
                for id in submissions {
                    if let Some(submission) = self.submissions.get_mut(&id) {
                        submission.contents_deleted = true;
                    }
                }
            }
            DraftStep::LogCompleted { .. } | DraftStep::LogSetAside { .. } => {}
        }
        if let (Some(kind), Some(id)) = (message, undelivered) {
            self.add_message(entry, kind, id);
        }
    }

    fn set_stage(
        &mut self,
        id: u64,
        entry: &AuditEntry,
        stage: SubmissionStage,
    ) -> Option<&mut Submission> {
        let submission = self.submissions.get_mut(&id)?;
        (submission.stage, submission.settled) = (stage, entry.at);
        Some(submission)
    }

    fn close_drafts(&mut self, id: u64) {
        self.drafts.retain(|_, draft| draft.submission != Some(id));
    }

    /// Adds a message about a submission to the messages that are not delivered yet.
    fn add_message(&mut self, entry: &AuditEntry, kind: MessageKind, id: u64) {
        let Some(submission) = self.submissions.get(&id) else { return };
        let undone = kind == MessageKind::DraftUndone;
        let message = AgentMessage {
            message_id: message_id(entry.id),
            kind,
            task_id: submission.task.clone(),
            submission: id,
            reasons: if undone { Vec::new() } else { submission.reasons.clone() },
            verified: submission.verified.clone().filter(|_| !undone),
        };
        self.undelivered_messages.insert(entry.id, message);
    }

    /// Returns the number of the last submission; 0 if there is none.
    pub(crate) fn last_submission(&self) -> u64 {
        self.submissions.last_key_value().map_or(0, |(last, _)| *last)
    }

    /// Returns the submission that a log entry recorded.
    pub(crate) fn submission_of_entry(&self, entry: u64) -> Option<&Submission> {
        self.submissions.values().rev().find(|submission| submission.entry == entry)
    }

    /// Returns the submission with the given idempotency key.
    pub(crate) fn submission_with_key(&self, key: &str) -> Option<&Submission> {
        self.submissions.values().rev().find(|submission| submission.key.as_deref() == Some(key))
    }

    /// Finds a submission by number (`3`) or message id (`msg_12`).
    pub fn submission_named(&self, text: &str) -> Option<&Submission> {
        match text.strip_prefix("msg_") {
            Some(entry) => self.submission_of_entry(entry.parse().ok()?),
            None => self.submissions.get(&text.parse().ok()?),
        }
    }
}

//! Requests and responses of the draft tools.

use assize_gate::{Reason, VerifyResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::state::{AgentMessage, Submission, SubmissionStage, message_id};

/// Result of `ollama_request_draft`, which creates a draft.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DraftCreated {
    /// Path of the draft, relative to the workspace.
    pub draft_path: String,
    /// SHA-256 of the file; empty if it does not exist yet.
    pub original_hash: String,
    /// Number of lines of the draft.
    pub line_count: usize,
    /// Whether the draft proposes a new file.
    pub new_file: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub messages: Vec<AgentMessage>,
}

/// Result of `ollama_write_draft`, which replaces the content of a draft.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DraftWritten {
    pub success: bool,
    pub new_hash: String,
    pub line_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub messages: Vec<AgentMessage>,
}

/// Result of `ollama_read_draft`, which returns the content of a draft.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DraftContent {
    pub content: String,
    pub line_count: usize,
    pub messages: Vec<AgentMessage>,
}

// Input of `ollama_submit_draft`. Models see the doc comments of this struct as part of the schema.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "SubmitDraft")]
pub struct SubmitRequest<'a> {
    /// The `draft_path` that `ollama_request_draft` gave you.
    pub draft_path: &'a str,
    /// The file that the draft is of: the `source_path` that you asked for.
    pub original_path: &'a str,
    /// The task that you asked for the draft in.
    pub task_id: &'a str,
    /// What you changed and why, in a sentence.
    pub change_summary: &'a str,
    /// Hand in all your open drafts of this task together: they are applied all or none. Use it when files
    /// must change at the same time.
    #[serde(rename = "include_all_drafts", default)]
    pub all_drafts: bool,
}

/// Result of `ollama_submit_draft`, which submits drafts for a decision.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SubmitResponse {
    pub submitted: bool,
    pub message_id: String,
    /// Number of the submission in its workspace, from 1.
    pub submission: u64,
    pub verdict: SubmissionStatus,
    /// The files of the submission.
    pub files: Vec<String>,
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifyResult>,
    /// What the agent should do next.
    pub next: String,
    pub messages: Vec<AgentMessage>,
}

/// Status of a submission as reported to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubmissionStatus {
    Accepted,
    Rejected,
    Escalated,
    /// The submission is not decided yet.
    Pending,
    /// A reviewer undid the change.
    Undone,
}

/// Builds the response that reports the status of a submission to its agent.
pub(crate) fn submit_response(
    submission: &Submission,
    messages: Vec<AgentMessage>,
) -> SubmitResponse {
    let (verdict, next) = match submission.stage {
        SubmissionStage::Accepted => (
            SubmissionStatus::Accepted,
            "the change is applied and the draft is deleted; continue with the rest of the task",
        ),
        SubmissionStage::Rejected => (
            SubmissionStatus::Rejected,
            "the draft is deleted and the file is unchanged; request the draft again, fix what the reasons \
             describe, and submit it again",
        ),
        SubmissionStage::Escalated => (
            SubmissionStatus::Escalated,
            "a reviewer decides; do not change or resubmit this file until then",
        ),
        SubmissionStage::Submitted | SubmissionStage::Accepting => (
            SubmissionStatus::Pending,
            "the check is still running; the verdict comes with the response to a later call",
        ),
        SubmissionStage::Undone | SubmissionStage::Undoing => {
            (SubmissionStatus::Undone, "a reviewer has undone the change")
        }
    };
    SubmitResponse {
        submitted: true,
        message_id: message_id(submission.entry),
        submission: submission.id,
        verdict,
        files: submission.files.iter().map(|file| file.path.clone()).collect(),
        reasons: submission.reasons.clone(),
        verified: submission.verified.clone(),
        next: next.to_owned(),
        messages,
    }
}

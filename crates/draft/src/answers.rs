//! What workers hand in, and what they get for what they do.

use assize_gate::{Reason, Verified};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::state::{Message, Stage, Submission, message_id};

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

// What a worker hands in. Doc comments here are part of the schema that models see.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[schemars(rename = "SubmitDraft")]
pub struct Submit<'a> {
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

/// What a worker gets for handing in.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Submitted {
    pub submitted: bool,
    pub message_id: String,
    /// Its number in the workspace, from 1.
    pub submission: u64,
    pub verdict: Answer,
    /// The files that it is about.
    pub files: Vec<String>,
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// What to do now.
    pub next: String,
    pub messages: Vec<Message>,
}

/// How a submission stands, as workers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Accepted,
    Rejected,
    Escalated,
    /// It is not decided yet.
    Pending,
    /// A person has taken it back.
    Undone,
}

/// How a submission stands, for its worker.
pub(crate) fn answer(submission: &Submission, messages: Vec<Message>) -> Submitted {
    let (verdict, next) = match submission.stage {
        Stage::Accepted => (
            Answer::Accepted,
            "the change is in the file, and the draft is gone; go on with what is left to do",
        ),
        Stage::Rejected => (
            Answer::Rejected,
            "the draft is gone and the file is unchanged; ask for the draft again, mend what the reasons \
             name, and hand it in again",
        ),
        Stage::Escalated => (
            Answer::Escalated,
            "a person decides; leave this file alone until they have, and do not hand it in again",
        ),
        Stage::Submitted | Stage::Accepting => (
            Answer::Pending,
            "it is being looked at; the verdict comes with the answer to a later call",
        ),
        Stage::Undone | Stage::Undoing => (Answer::Undone, "a person has taken the change back"),
    };
    Submitted {
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

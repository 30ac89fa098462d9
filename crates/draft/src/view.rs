//! Submissions as they are shown, with their diffs.

use assize_gate::Diff;
use schemars::JsonSchema;
use serde::Serialize;

use crate::service::DraftService;
use crate::state::{Proposed, Stage, Submission};

/// What has become of a file since its draft was asked for, if that waits and anything has.
pub fn meanwhile(desk: &DraftService, submission: &Submission, file: &Proposed) -> Option<String> {
    if submission.stage != Stage::Escalated {
        return None;
    }
    let base = desk.sides(file).ok()?.0;
    let now = desk.current(&file.path).ok()?.unwrap_or_default();
    let now = String::from_utf8_lossy(&now);
    (now != base).then(|| Diff::unified(&file.path, &base, &now))
}

/// A submission with what it changes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SubmissionView {
    #[serde(flatten)]
    submission: Submission,
    diffs: Vec<FileDiff>,
}

/// What a submission changes in one file.
#[derive(Debug, Serialize, JsonSchema)]
struct FileDiff {
    path: String,
    /// Unified; null once its copies are deleted.
    diff: Option<String>,
    /// What has changed in the file since the draft was created, as a diff.
    changed_meanwhile: Option<String>,
}

impl SubmissionView {
    /// Compares each file of a submission.
    pub fn new(desk: &DraftService, submission: Submission) -> SubmissionView {
        let diff = |file: &Proposed| {
            let sides = desk.sides(file).ok();
            FileDiff {
                path: file.path.clone(),
                diff: sides.map(|(base, draft)| Diff::unified(&file.path, &base, &draft)),
                changed_meanwhile: meanwhile(desk, &submission, file),
            }
        };
        SubmissionView { diffs: submission.files.iter().map(diff).collect(), submission }
    }
}

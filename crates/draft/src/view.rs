//! Submissions with their diffs, for display.

use assize_gate::Diff;
use schemars::JsonSchema;
use serde::Serialize;

use crate::service::DraftService;
use crate::state::{ProposedFile, Submission, SubmissionStage};

/// Returns a diff of how a file has changed since its draft was created; `None` if the file is unchanged, or the
/// submission is not escalated.
pub fn diff_since_draft(
    service: &DraftService,
    submission: &Submission,
    file: &ProposedFile,
) -> Option<String> {
    if submission.stage != SubmissionStage::Escalated {
        return None;
    }
    let base = service.old_and_new_text(file).ok()?.0;
    let now = service.current(&file.path).ok()?.unwrap_or_default();
    let now = String::from_utf8_lossy(&now);
    (now != base).then(|| Diff::unified(&file.path, &base, &now))
}

/// A submission with the diffs of its files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SubmissionView {
    #[serde(flatten)]
    submission: Submission,
    diffs: Vec<FileDiff>,
}

/// Diff of one file of a submission.
#[derive(Debug, Serialize, JsonSchema)]
struct FileDiff {
    path: String,
    /// Unified diff from the old to the proposed content; null after a cleanup deleted the stored contents.
    diff: Option<String>,
    /// Unified diff of the changes to the file since the draft was created; null if there are none, or the submission
    /// is not escalated.
    changed_meanwhile: Option<String>,
}

impl SubmissionView {
    /// Computes the diffs of all files of a submission.
    pub fn new(service: &DraftService, submission: Submission) -> SubmissionView {
        let diff = |file: &ProposedFile| {
            let sides = service.old_and_new_text(file).ok();
            FileDiff {
                path: file.path.clone(),
                diff: sides.map(|(base, draft)| Diff::unified(&file.path, &base, &draft)),
                changed_meanwhile: diff_since_draft(service, &submission, file),
            }
        };
        SubmissionView { diffs: submission.files.iter().map(diff).collect(), submission }
    }
}

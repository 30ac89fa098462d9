//! Drafts behind a gate: by which policy, and who runs the project's own tests.

pub mod audit;
mod verifier;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_config::{Environment, Settings};
use assize_draft::{DraftService, Options, Proposed, Stage, Submission};
use assize_gate::{Diff, Policy, Verifier, Verify, VerifyMost};
use assize_run::Store;
use assize_types::{Failure, FailureKind};
use assize_workspace::GitSettings;
use schemars::JsonSchema;
use serde::Serialize;

/// What was said in one setting, as a list.
/// What the gate goes by, as the settings have it.
pub fn policy(config: &Settings) -> Result<Policy, Failure> {
    let (draft, verification) = (&config.draft, &config.verification);
    let policy = Policy {
        max_lines: *draft.max_lines,
        max_files: *draft.max_files,
        max_deletion: *draft.max_deletion,
        max_bytes: *draft.max_bytes,
        review: *draft.review,
        readable: (*draft.readable).clone(),
        protected: (*draft.protected).clone(),
        verify: verification.verify.as_deref().map(Verify::command).into_iter().collect(),
        verify_most: VerifyMost {
            memory_mb: *verification.verify_memory >> 20,
            seconds: *verification.verify_seconds,
            layers: (*verification.verify_layers).clone(),
            python: (*verification.verify_python).clone(),
        },
        ..Policy::default()
    };
    policy.places().map_err(|error| Failure::from_error(FailureKind::Settings, &error))?;
    Ok(policy)
}

/// What a desk is set up with, as the settings have it.
pub fn options(config: &Settings) -> Result<Options, Failure> {
    Ok(Options { policy: policy(config)?, ..Options::default() })
}

/// How long what is settled is kept.
pub fn keep(config: &Settings) -> Duration {
    Duration::from_secs(*config.undo.keep_days * 24 * 60 * 60)
}

/// The desk of a workspace.
pub fn desk(
    folder: &Path,
    around: &Environment,
    store: Arc<dyn Store>,
    how: Options,
) -> Result<Arc<DraftService>, Failure> {
    if !folder.is_dir() {
        let message = format!("there is no folder `{}`", folder.display());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let git = GitSettings::of(&around.home, |name| around.environment.get(name).cloned());
    let how = Options { git, ..how };
    Ok(DraftService::open(folder, &around.state_folder.join("drafts"), store, how)?)
}

/// The verifier that runs the project's own tests in a sandbox.
///
/// # Errors
/// When no such sandbox is known.
pub fn verifier(config: &Settings, around: &Environment) -> Result<Arc<dyn Verifier>, Failure> {
    Ok(Arc::new(verifier::InSandbox::new(config, around)?))
}

/// A file as it was and as it is to be; `None` where it is not kept any more.
pub fn sides(desk: &DraftService, file: &Proposed) -> Option<(String, String)> {
    let base = match file.before {
        Some(hash) => desk.copy(hash).ok()?,
        None => Vec::new(),
    };
    let draft = desk.copy(file.after).ok()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some((text(base), text(draft)))
}

/// What has become of a file since its draft was asked for, if that waits and anything has.
pub fn meanwhile(desk: &DraftService, submission: &Submission, file: &Proposed) -> Option<String> {
    if submission.stage != Stage::Escalated {
        return None;
    }
    let base = sides(desk, file)?.0;
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
        let diffs = submission.files.iter().map(|file| FileDiff {
            path: file.path.clone(),
            diff: sides(desk, file).map(|(base, draft)| Diff::unified(&file.path, &base, &draft)),
            changed_meanwhile: meanwhile(desk, &submission, file),
        });
        SubmissionView { diffs: diffs.collect(), submission }
    }
}

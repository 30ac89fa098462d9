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
fn listed(config: &Settings, key: &str) -> Vec<String> {
    let text = config.text(key).unwrap_or_default();
    // A comma in braces belongs to a pattern.
    let mut depth = 0;
    let splits = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    text.split(splits).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What the gate goes by, as the settings have it.
pub fn policy(config: &Settings) -> Result<Policy, Failure> {
    let usual = Policy::default();
    let number = |key: &str, usual: usize| {
        config.whole(key).and_then(|number| usize::try_from(number).ok()).unwrap_or(usual)
    };
    let most = VerifyMost::default();
    let policy = Policy {
        max_lines: number("draft.max_lines", usual.max_lines),
        max_files: number("draft.max_files", usual.max_files),
        max_deletion: config.decimal("draft.max_deletion").unwrap_or(usual.max_deletion),
        max_bytes: config.size("draft.max_bytes").unwrap_or(usual.max_bytes),
        review: config.text("draft.review").and_then(|r| r.parse().ok()).unwrap_or_default(),
        readable: listed(config, "draft.readable"),
        protected: listed(config, "draft.protected"),
        verify: config.text("draft.verify").map(Verify::command).into_iter().collect(),
        verify_most: VerifyMost {
            memory_mb: config
                .size("draft.verify_memory")
                .map_or(most.memory_mb, |bytes| bytes >> 20),
            seconds: config.whole("draft.verify_seconds").unwrap_or(most.seconds),
            layers: listed(config, "draft.verify_layers"),
            python: config.text("draft.verify_python").map(str::to_owned),
        },
        ..usual
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
    Duration::from_secs(config.whole("draft.keep_days").unwrap_or(30) * 24 * 60 * 60)
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

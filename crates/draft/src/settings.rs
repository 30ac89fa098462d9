//! Draft services as the settings ask for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_config::{Environment, Settings};
use assize_gate::{Policy, Verifier, Verify, VerifyMost};
use assize_run::Store;
use assize_sandbox::Sandboxes;
use assize_types::{Failure, FailureKind};
use assize_workspace::GitSettings;

use crate::service::{DraftService, Options};
use crate::verifier::InSandbox;

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
pub fn verifier(sandboxes: &Sandboxes) -> Arc<dyn Verifier> {
    Arc::new(InSandbox { sandboxes: sandboxes.clone() })
}

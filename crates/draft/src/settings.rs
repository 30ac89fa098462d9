//! Creates draft services from the settings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_config::{Environment, Settings};
use assize_gate::{Policy, Verifier, VerifyCommand, VerifyLimits};
use assize_run::Store;
use assize_sandbox::SandboxFactory;
use assize_types::{Failure, FailureKind};
use assize_workspace::GitSettings;

use crate::service::{DraftOptions, DraftService};
use crate::verifier::SandboxVerifier;

/// Creates the policy of the gate from the settings.
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
        verify: verification.verify.as_deref().map(VerifyCommand::command).into_iter().collect(),
        verify_most: VerifyLimits {
            memory_mb: *verification.verify_memory >> 20,
            seconds: *verification.verify_seconds,
            layers: (*verification.verify_layers).clone(),
            python: (*verification.verify_python).clone(),
        },
        ..Policy::default()
    };
    policy.path_rules().map_err(|error| Failure::from_error(FailureKind::Settings, &error))?;
    Ok(policy)
}

/// Creates the options of a draft service from the settings.
pub fn options(config: &Settings) -> Result<DraftOptions, Failure> {
    Ok(DraftOptions { policy: policy(config)?, ..DraftOptions::default() })
}

/// Returns how long abandoned drafts, and the file contents of decided submissions, are kept (`draft.keep_days`).
pub fn retention(config: &Settings) -> Duration {
    Duration::from_secs(*config.undo.keep_days * 24 * 60 * 60)
}

/// Opens the draft service of a workspace.
pub fn open_service(
    folder: &Path,
    environment: &Environment,
    store: Arc<dyn Store>,
    options: DraftOptions,
) -> Result<Arc<DraftService>, Failure> {
    if !folder.is_dir() {
        let message = format!("there is no folder `{}`", folder.display());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let git = GitSettings::of(&environment.home, |name| environment.variables.get(name).cloned());
    let options = DraftOptions { git, ..options };
    Ok(DraftService::open(folder, &environment.state_folder.join("drafts"), store, options)?)
}

/// Creates the verifier that runs the tests of a project in a sandbox.
pub fn verifier(sandboxes: &SandboxFactory) -> Arc<dyn Verifier> {
    Arc::new(SandboxVerifier { sandboxes: sandboxes.clone() })
}

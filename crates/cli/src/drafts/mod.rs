//! Functions that the commands about drafts share: they find the workspace, open its draft service, and determine the
//! name of the user.

pub(crate) mod audit;
pub(crate) mod commands;
pub(crate) mod gate;
pub(crate) mod mcp;
pub(crate) mod mcp_install;
pub(crate) mod show;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_config::Environment;
use assize_draft::{DraftOptions, DraftService, DraftState, HANDOFF};
use assize_run::Store;
use assize_service::Services;
use assize_types::Failure;

use crate::args::WorkspaceArgs;
use crate::terminal;

pub(crate) use assize_draft::{options, retention, verifier};

/// Returns the workspace of the command: `--workspace`, or the nearest folder with drafts, or the current folder.
pub(crate) fn workspace(args: &WorkspaceArgs, environment: &Environment) -> PathBuf {
    if let Some(path) = &args.workspace {
        return environment.resolve_path(path);
    }
    for folder in environment.working_folder.ancestors() {
        if is_ours(&folder.join(HANDOFF)) {
            return folder.to_owned();
        }
        // Folders above the repository or above the home folder belong to other projects.
        if folder.join(".git").exists() || folder == environment.home {
            break;
        }
    }
    environment.working_folder.clone()
}

/// Whether the path is a folder (not a symlink) that the current user owns.
fn is_ours(folder: &Path) -> bool {
    let there = std::fs::symlink_metadata(folder);
    there.is_ok_and(|there| there.is_dir() && own_id() == Some(there.uid()))
}

/// User id of this process.
fn own_id() -> Option<u32> {
    std::fs::metadata("/proc/self").map(|process| process.uid()).ok()
}

/// Returns the name of the current user, as it is written to the audit log.
pub(crate) fn current_user(environment: &Environment) -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| environment.variables.get(*name));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("user {}", assize_types::text::shorten(name, 60)),
        None => own_id().map_or("user unknown".to_owned(), |id| format!("user uid {id}")),
    }
}

/// Opens the draft service of a workspace.
pub(crate) fn draft_service(
    args: &WorkspaceArgs,
    environment: &Environment,
    store: Arc<dyn Store>,
    options: DraftOptions,
) -> Result<Arc<DraftService>, Failure> {
    assize_draft::open_service(&workspace(args, environment), environment, store, options)
}

/// Warns if the task contract of the workspace is invalid, because an invalid task contract blocks all drafts.
pub(crate) fn warn_of_contract(service: &DraftService) {
    if let Err(error) = service.contract() {
        terminal::warn(&error.to_string());
    }
}

/// Opens the draft service of a workspace for changes.
pub(crate) async fn draft_service_for_changes(
    args: &WorkspaceArgs,
    services: &mut Services,
) -> Result<Arc<DraftService>, Failure> {
    let store = services.open_store(true).await?;
    draft_service(args, &services.environment, store, options(&services.settings)?)
}

/// Opens the draft service of a workspace for reading. Returns `None` if the store does not exist yet.
pub(crate) async fn draft_service_to_read(
    args: &WorkspaceArgs,
    services: &Services,
) -> Result<Option<Arc<DraftService>>, Failure> {
    let Some(store) = services.open_store_to_read().await? else { return Ok(None) };
    draft_service(args, &services.environment, store, options(&services.settings)?).map(Some)
}

/// Reads the state of the drafts and submissions of a workspace, and warns if its task contract is invalid.
pub(crate) async fn read_draft_state(
    args: &WorkspaceArgs,
    services: &Services,
) -> Result<DraftState, Failure> {
    let Some(service) = draft_service_to_read(args, services).await? else {
        return Ok(DraftState::default());
    };
    warn_of_contract(&service);
    Ok(service.state().await?)
}

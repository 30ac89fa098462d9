//! Drafts behind a gate, as the commands use them: which workspace, by which policy, on whose behalf.

pub(crate) mod audit;
pub(crate) mod commands;
pub(crate) mod gate;
pub(crate) mod mcp;
pub(crate) mod show;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_config::Environment;
use assize_draft::{DraftService, DraftState, HANDOFF, Options};
use assize_run::Store;
use assize_service::Services;
use assize_types::Failure;

use crate::args::WorkspaceArgs;
use crate::terminal;

pub(crate) use assize_draft::{keep, options, verifier};

/// The workspace that is meant.
pub(crate) fn workspace(args: &WorkspaceArgs, around: &Environment) -> PathBuf {
    if let Some(path) = &args.workspace {
        return around.typed(path);
    }
    for folder in around.working_folder.ancestors() {
        if is_ours(&folder.join(HANDOFF)) {
            return folder.to_owned();
        }
        // What is above belongs to others.
        if folder.join(".git").exists() || folder == around.home {
            break;
        }
    }
    around.working_folder.clone()
}

/// Whether a folder is one, and of whoever runs this.
fn is_ours(folder: &Path) -> bool {
    let there = std::fs::symlink_metadata(folder);
    there.is_ok_and(|there| there.is_dir() && own_id() == Some(there.uid()))
}

/// The number of whoever runs this.
fn own_id() -> Option<u32> {
    std::fs::metadata("/proc/self").map(|process| process.uid()).ok()
}

/// The person who types.
pub(crate) fn person(around: &Environment) -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| around.environment.get(*name));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("person {}", assize_types::text::shorten(name, 60)),
        None => own_id().map_or("person unknown".to_owned(), |id| format!("person uid {id}")),
    }
}

/// The desk of a workspace.
pub(crate) fn desk(
    args: &WorkspaceArgs,
    around: &Environment,
    store: Arc<dyn Store>,
    how: Options,
) -> Result<Arc<DraftService>, Failure> {
    assize_draft::desk(&workspace(args, around), around, store, how)
}

/// Says so where a contract stops all work.
pub(crate) fn warn_of_contract(desk: &DraftService) {
    if let Err(error) = desk.contract() {
        terminal::warn(&error.to_string());
    }
}

/// The desk of a workspace, to change something at it.
pub(crate) async fn desk_to_use(
    args: &WorkspaceArgs,
    services: &mut Services,
) -> Result<Arc<DraftService>, Failure> {
    let store = services.open_store(true).await?;
    desk(args, &services.environment, store, options(&services.settings)?)
}

/// The desk of a workspace, to look at it; `None` where nothing was ever kept.
pub(crate) async fn desk_to_see(
    args: &WorkspaceArgs,
    services: &Services,
) -> Result<Option<Arc<DraftService>>, Failure> {
    let Some(store) = services.open_store_to_read().await? else { return Ok(None) };
    desk(args, &services.environment, store, options(&services.settings)?).map(Some)
}

/// How things stand at a desk, as people look at it; what keeps workers from working is said.
pub(crate) async fn book_to_see(
    args: &WorkspaceArgs,
    services: &Services,
) -> Result<DraftState, Failure> {
    let Some(desk) = desk_to_see(args, services).await? else {
        return Ok(DraftState::default());
    };
    warn_of_contract(&desk);
    Ok(desk.state().await?)
}

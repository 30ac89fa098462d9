//! Attacks the gate with requests for files: each case of the corpora becomes a file that an agent requests.

use std::path::Path;
use std::sync::Arc;

use assize_draft::{DraftError, DraftOptions, DraftService};
use assize_gate::Policy;
use assize_store::{Access, Durability, SqliteStore};
use tempfile::TempDir;

use super::plan::PlannedCase;
use super::{CaseKind, ClassResult, GateAttackError};

/// Temporary workspace with a draft service. Dropping the workspace removes its files.
pub(super) struct TemporaryWorkspace {
    pub(super) drafts: Arc<DraftService>,
    folder: TempDir,
}

impl TemporaryWorkspace {
    pub(super) fn new(options: DraftOptions) -> Result<TemporaryWorkspace, GateAttackError> {
        let folder = tempfile::Builder::new().prefix("assize-gate-").tempdir()?;
        let (repo, state) = (folder.path().join("repo"), folder.path().join("state"));
        std::fs::create_dir(&repo)?;
        let access = Access::Write(Durability::ProcessCrash);
        let store = SqliteStore::open(&state.join("store.db"), access).map_err(DraftError::from)?;
        let drafts = DraftService::open(&repo, &state.join("drafts"), Arc::new(store), options)?;
        Ok(TemporaryWorkspace { drafts, folder })
    }

    /// Folder that contains the files of the workspace.
    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("repo")
    }

    /// Writes a file to the workspace, and creates its parent folders.
    pub(super) fn write(&self, path: &str, text: &str) -> std::io::Result<()> {
        let path = self.path().join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)
    }
}

/// Requests a copy of the file of each case, as agents do before they change a file.
pub(super) async fn try_all(
    cases: &[PlannedCase],
    policy: &Policy,
    report: &mut impl FnMut(&str),
) -> Result<ClassResult, GateAttackError> {
    let places = Policy::default().path_rules().map_err(DraftError::from)?;
    let workspace = TemporaryWorkspace::new(DraftOptions {
        policy: policy.clone(),
        ..DraftOptions::default()
    })?;
    let mut tried = Vec::with_capacity(cases.len());
    for (index, case) in cases.iter().enumerate() {
        let inside = assize_workspace::WorkspacePath::parse(case.path, Path::new("/"));
        let is_hidden = inside.is_ok_and(|path| places.is_hidden(&path));
        // Workers may not read hidden files. So a harmless line in a hidden file cannot be a control, which must pass.
        if case.kind == CaseKind::Control && is_hidden {
            continue;
        }
        report(&case.name);
        workspace.write(case.path, &case.text)?;
        let requested = workspace.drafts.request("worker", case.path, &format!("t{index}")).await;
        let stopped = match requested {
            Ok(_) => None,
            Err(DraftError::PathRefused(why)) => Some(why),
            Err(error) => return Err(error.into()),
        };
        let first = case.path.split('/').next().unwrap_or_default();
        let first = workspace.path().join(first);
        if first.is_dir() {
            std::fs::remove_dir_all(first)?
        } else {
            std::fs::remove_file(first)?
        }
        tried.push(case.tried(stopped));
    }
    Ok(ClassResult::Cases(tried))
}

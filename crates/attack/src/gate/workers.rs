//! Cases as files that a worker asks for.

use std::path::Path;
use std::sync::Arc;

use assize_draft::{DraftError, DraftService, Options};
use assize_gate::Policy;
use assize_store::{Access, Durability, SqliteStore};
use tempfile::TempDir;

use super::plan::Planned;
use super::{CaseKind, GateError, Tried};

/// A workspace with a desk. It is gone when this is dropped.
pub(super) struct Workspace {
    pub(super) desk: Arc<DraftService>,
    folder: TempDir,
}

impl Workspace {
    pub(super) fn new(options: Options) -> Result<Workspace, GateError> {
        let folder = tempfile::Builder::new().prefix("assize-gate-").tempdir()?;
        let (repo, state) = (folder.path().join("repo"), folder.path().join("state"));
        std::fs::create_dir(&repo)?;
        let access = Access::Write(Durability::ProcessCrash);
        let store = SqliteStore::open(&state.join("store.db"), access).map_err(DraftError::from)?;
        let desk = DraftService::open(&repo, &state.join("drafts"), Arc::new(store), options)?;
        Ok(Workspace { desk, folder })
    }

    /// The folder that the files are in.
    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("repo")
    }

    /// Puts a file there, with its folders.
    pub(super) fn write(&self, path: &str, text: &str) -> std::io::Result<()> {
        let path = self.path().join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)
    }
}

/// Asks for a copy of each case's file, as workers do before they change one.
pub(super) async fn try_all(
    cases: &[Planned],
    policy: &Policy,
    report: &mut impl FnMut(&str),
) -> Result<Tried, GateError> {
    let places = Policy::default().places().map_err(DraftError::from)?;
    let workspace = Workspace::new(Options { policy: policy.clone(), ..Options::default() })?;
    let mut tried = Vec::with_capacity(cases.len());
    for (index, case) in cases.iter().enumerate() {
        let inside = assize_workspace::Inside::read(case.path, Path::new("/"));
        let is_hidden = inside.is_ok_and(|path| places.is_hidden(&path));
        // A harmless line in a file that workers may not see is no control.
        if case.kind == CaseKind::Control && is_hidden {
            continue;
        }
        report(&case.name);
        workspace.write(case.path, &case.text)?;
        let asked = workspace.desk.request("worker", case.path, &format!("t{index}")).await;
        let stopped = match asked {
            Ok(_) => None,
            Err(DraftError::Refused(why)) => Some(why),
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
    Ok(Tried::Cases(tried))
}

//! Copies of a workspace for verification.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use assize_types::Fingerprint;
use assize_workspace::{FileError, FolderHandle, PathKind, Workspace, WorkspacePath};
use tempfile::TempDir;

use super::verifier::VerifyError;
use crate::globs::Globs;
use crate::path_rules::PathRules;

/// Maximum number of files in a copy of a workspace. A workspace with more files cannot be verified.
const MAX_FILES: usize = 200_000;

/// Options for copying a workspace.
pub(super) struct CopyOptions {
    pub workspace: PathBuf,
    /// Folder in which the copy of the workspace is created.
    pub beside: PathBuf,
    /// Prefix of the name of the temporary folder that contains the copy.
    pub name: String,
    /// New contents of workspace files in the copy, by path.
    pub drafts: BTreeMap<String, Vec<u8>>,
    pub exclude: Globs,
    pub places: PathRules,
    /// Maximum size of all copied files, in bytes.
    pub max_bytes: u64,
}

/// A copy of a workspace.
pub(super) struct WorkspaceCopy {
    /// Temporary folder that contains the copy. It is deleted on drop.
    pub folder: TempDir,
    /// Fingerprint of all files in the copy of the workspace.
    pub fingerprint: Fingerprint,
}

impl CopyOptions {
    /// Copies the workspace and writes the drafts into the copy.
    pub(super) fn copy(self) -> Result<WorkspaceCopy, VerifyError> {
        let made = tempfile::Builder::new().prefix(&self.name).tempdir_in(&self.beside);
        let not_created =
            |error: &dyn std::fmt::Display| failed("cannot create a temporary folder", error);
        let folder = made.map_err(|error| not_created(&error))?;
        let into =
            FolderHandle::open_or_create_at(folder.path()).map_err(|error| not_created(&error))?;
        let fingerprint = self.visit_files(Some(&into))?;
        Ok(WorkspaceCopy { folder, fingerprint })
    }

    /// Computes the fingerprint of the files that the copy would have, without creating the copy.
    pub(super) fn fingerprint(self) -> Result<Fingerprint, VerifyError> {
        self.visit_files(None)
    }

    /// Visits all files that a copy of the workspace contains. If the folder `into` is given, writes the files to this
    /// folder. Returns a fingerprint of all files of the copy.
    fn visit_files(&self, into: Option<&FolderHandle>) -> Result<Fingerprint, VerifyError> {
        let not_read =
            |error: &dyn std::fmt::Display| failed("cannot read the workspace folder", error);
        let workspace = Workspace::open(&self.workspace).map_err(|error| not_read(&error))?;
        let found = workspace.walk(MAX_FILES, &|path, kind| self.is_included(path, kind));
        let found = found.map_err(|error| not_read(&error))?;
        if found.truncated {
            let why =
                format!("more than {MAX_FILES} files; exclude some of them (`verify.exclude`)");
            return Err(failed("the workspace has too many files", &why));
        }
        let mut room = self.max_bytes;
        let mut fingerprints = BTreeMap::new();
        for (path, kind) in &found.files {
            match self.put(&workspace, path, *kind, into, room) {
                Ok(None) => {}
                Ok(Some((bytes, fingerprint))) => {
                    room = room.saturating_sub(bytes);
                    fingerprints.insert(path.to_string(), fingerprint);
                }
                Err(FileError::Missing | FileError::NotRegularFile) => {}
                Err(FileError::TooLarge(_)) => {
                    let why = "the files of the workspace do not fit into the memory limit of the verification; \
                               exclude more files (`verify.exclude`) or raise the limit \
                               (`verify.memory_mb`)";
                    return Err(failed("the workspace is too large", &why));
                }
                Err(error) => return Err(failed(&path.to_string(), &error)),
            }
        }
        for (name, bytes) in &self.drafts {
            let path = WorkspacePath::from_entry(None, name)
                .ok_or_else(|| failed(name, &FileError::Missing))?;
            if let Some(into) = into {
                self.put_draft(&path, bytes, into).map_err(|error| failed(name, &error))?;
            }
            fingerprints.insert(path.to_string(), Fingerprint::of(bytes));
        }
        let lines = fingerprints.iter().map(|(path, content)| format!("{path}\0{content}\n"));
        Ok(Fingerprint::of(lines.collect::<String>()))
    }

    /// Writes a draft into the copy. An existing file is replaced, and its permissions are kept.
    fn put_draft(
        &self,
        path: &WorkspacePath,
        bytes: &[u8],
        into: &FolderHandle,
    ) -> Result<(), FileError> {
        let (last, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        // `open_or_create_nested` does not follow symbolic links, so a link in the copy cannot redirect the draft.
        let folder = into.open_or_create_nested(folders)?;
        let mode = folder.read_with_mode(last, self.max_bytes).map_or(0o644, |(_, mode)| mode);
        folder.remove_without_sync(last)?;
        folder.create(last, mode)?.write_all(bytes)?;
        Ok(())
    }

    fn is_included(&self, path: &WorkspacePath, kind: PathKind) -> bool {
        let text = path.to_string();
        let excluded = match kind {
            // A folder is skipped only if the patterns exclude all files in it, at any depth.
            PathKind::Folder => {
                let inner = format!("{text}/\u{1}");
                self.exclude.matches(&inner) && self.exclude.matches(&format!("{inner}/\u{1}"))
            }
            PathKind::File | PathKind::Link => self.exclude.matches(&text),
        };
        !excluded && !self.places.is_hidden(path)
    }

    /// Copies one file or symbolic link of the workspace, and returns its size and fingerprint. `None` if the file is
    /// not copied because it contains a private key.
    fn put(
        &self,
        workspace: &Workspace,
        path: &WorkspacePath,
        kind: PathKind,
        into: Option<&FolderHandle>,
        room: u64,
    ) -> Result<Option<(u64, Fingerprint)>, FileError> {
        let (last, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        if kind == PathKind::Link {
            let target = workspace.link(path)?;
            if let Some(into) = into {
                rustix::fs::symlinkat(&target, into.open_or_create_nested(folders)?, last)?;
            }
            return Ok(Some((0, Fingerprint::of(format!("link to {}", target.display())))));
        }
        let original = workspace.read(path, room)?;
        if self.places.is_key(path, &original.bytes) {
            return Ok(None);
        }
        if let Some(into) = into {
            let folder = into.open_or_create_nested(folders)?;
            folder.create(last, original.mode & 0o777)?.write_all(&original.bytes)?;
        }
        Ok(Some((original.bytes.len() as u64, original.sha256)))
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> VerifyError {
    VerifyError(format!("the workspace could not be copied: {what}: {error}"))
}

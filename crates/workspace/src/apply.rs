//! Applies a change to the files of the workspace: replaces all files of the change, or none.
//!
//! A change is applied in three steps. First the new content is staged: written to the staging folder, with the owner
//! and permissions of the original file, and synced to disk. Then the caller records the intent to apply the change.
//! Only then is each staged file atomically exchanged with its original. After a crash, recovery can therefore tell
//! which files were exchanged: before the exchange, the staged file has the new content; after the exchange, the staged
//! file has the original content or is missing.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use assize_types::Fingerprint;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fsync,
    linkat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::content_store::ContentStore;
use crate::folder::FolderHandle;
use crate::workspace::{FileError, Workspace};
use crate::workspace_path::WorkspacePath;

/// Permissions that a new file is created with, before the umask is applied.
const NEW_FILE: u32 = 0o644;
/// Initial permissions of a staged file that replaces an existing file. Later, the staged file gets the permissions of
/// the existing file.
const PRIVATE_FILE: u32 = 0o600;

/// Reason why a change could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file of the workspace does not have the content that the change expects.
    #[error("the file `{0}` does not have the content that the change expects")]
    Conflict(String),
    #[error("`{path}`: {error}")]
    File { path: String, error: FileError },
    /// The change failed, and some files that were already replaced could not be restored.
    #[error("{error}; `{stayed}` could not be restored")]
    PartiallyApplied { error: Box<ApplyError>, stayed: String },
}

/// Hashes of a file's content before and after a change. `before` is null for a new file; `after` is null for a deleted
/// file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReplacedFile")]
pub struct FileReplacement {
    pub path: String,
    pub before: Option<Fingerprint>,
    pub after: Option<Fingerprint>,
}

/// One file of a change, with the name of its staged file: the file in the staging folder that has the new content.
#[derive(Debug)]
pub struct StagedFile<'a> {
    change: &'a FileReplacement,
    path: WorkspacePath,
    staged: String,
}

/// Applies changes to the files of a workspace.
#[derive(Debug)]
pub struct Applier<'a> {
    pub workspace: &'a Workspace,
    pub staging: &'a FolderHandle,
    /// Copies of the files' contents before and after a change.
    pub copies: &'a ContentStore,
}

impl Applier<'_> {
    /// Parses the paths of the files of change number `change`, and assigns the names of their staged files.
    fn items<'c>(
        &self,
        change: u64,
        files: &'c [FileReplacement],
    ) -> Result<Vec<StagedFile<'c>>, ApplyError> {
        let item = |(index, file): (usize, &'c FileReplacement)| {
            let path = self.workspace.parse_path(&file.path).map_err(|error| ApplyError::File {
                path: file.path.clone(),
                error: FileError::Io(std::io::Error::other(error)),
            })?;
            Ok(StagedFile { change: file, path, staged: format!("{change}-{index}") })
        };
        files.iter().enumerate().map(item).collect()
    }

    /// Stages the new content of the files of change number `change`.
    ///
    /// # Errors
    /// If a file cannot be staged. The files that were already staged are then removed.
    pub fn stage<'c>(
        &self,
        change: u64,
        files: &'c [FileReplacement],
    ) -> Result<Vec<StagedFile<'c>>, ApplyError> {
        let items = self.items(change, files)?;
        self.stage_items(&items)?;
        Ok(items)
    }

    fn stage_items(&self, items: &[StagedFile<'_>]) -> Result<(), ApplyError> {
        let staged = items.iter().try_for_each(|item| {
            let Some(after) = item.change.after else { return Ok(()) };
            let stage = || -> Result<(), FileError> {
                // Remove a staged file that a process left when it died before it recorded the intent.
                self.staging.remove_without_sync(&item.staged)?;
                let mode = if item.change.before.is_none() { NEW_FILE } else { PRIVATE_FILE };
                let mut file = self.staging.create(&item.staged, mode)?;
                file.write_all(&self.copies.get(after)?)?;
                self.copy_metadata(&file, &item.path)?;
                Ok(file.sync_all()?)
            };
            stage().map_err(|source| item.failed(source))
        });
        if staged.is_err() {
            self.clear(items);
        }
        staged
    }

    /// Gives a staged file the owner, permissions and extended attributes of the file that it will replace.
    fn copy_metadata(&self, staged: &File, path: &WorkspacePath) -> Result<(), FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let original = match self.workspace.root().open_beneath(path.parts(), flags) {
            Ok(original) => File::from(original),
            // A new file has no original, and keeps the default permissions reduced by the umask.
            Err(FileError::Missing) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (now, wanted) = (staged.metadata()?, original.metadata()?);
        if (now.uid(), now.gid()) != (wanted.uid(), wanted.gid()) {
            let (owner, group) = (Uid::from_raw(wanted.uid()), Gid::from_raw(wanted.gid()));
            fchown(staged, Some(owner), Some(group))?;
        }
        copy_attributes(&original, staged);
        Ok(fchmod(staged, Mode::from(wanted.mode() & 0o7777))?)
    }

    /// Exchanges the staged files with their originals. The caller must already have recorded the intent to apply the
    /// change.
    ///
    /// # Errors
    /// If a file does not have the expected content or cannot be replaced. All files are then restored, unless the
    /// error is [`ApplyError::PartiallyApplied`].
    pub fn apply(&self, items: &[StagedFile<'_>]) -> Result<(), ApplyError> {
        self.swap_all(items.iter().collect(), Vec::new())
    }

    /// Finishes a change whose process died after it had recorded the intent to apply the change.
    ///
    /// # Errors
    /// If the change cannot be finished. All files are then restored, unless the error is
    /// [`ApplyError::PartiallyApplied`].
    pub fn resume(&self, change: u64, files: &[FileReplacement]) -> Result<(), ApplyError> {
        let items = &self.items(change, files)?;
        let (mut open, mut done) = (Vec::new(), Vec::new());
        let mut wrong = None;
        for item in items {
            match self.swap_state(item) {
                SwapState::Pending => open.push(item),
                SwapState::Done => done.push(item),
                // Another process edited the file at the same time, and the exchange moved the edited file to the
                // staging folder instead of the original. Move the edited file back.
                SwapState::Misplaced => {
                    let back = self.exchange(item);
                    wrong = Some(match back {
                        Ok(()) => ApplyError::Conflict(item.change.path.clone()),
                        Err(source) => item.failed(source),
                    });
                }
            }
        }
        if let Some(error) = wrong {
            return Err(self.roll_back(items, &done, error));
        }
        for item in &open {
            if item.change.after.is_some() && self.staged_hash(item) != item.change.after {
                // The staged file is missing because the staging folder was deleted. Stage the file again.
                if let Err(error) = self.stage_items(std::slice::from_ref(*item)) {
                    return Err(self.roll_back(items, &done, error));
                }
            }
        }
        self.swap_all(open, done)
    }

    /// Exchanges the files in `open` with their staged files. If one exchange fails, restores all files that are
    /// already exchanged, including those in `done`.
    fn swap_all<'i>(
        &self,
        open: Vec<&'i StagedFile<'i>>,
        mut done: Vec<&'i StagedFile<'i>>,
    ) -> Result<(), ApplyError> {
        let all: Vec<&StagedFile<'_>> = done.iter().chain(&open).copied().collect();
        for item in open {
            match self.swap(item) {
                Ok(()) => done.push(item),
                Err(error) => {
                    // The file may have been exchanged although there is an error: its folder could not be synced.
                    if self.swap_state(item) == SwapState::Done {
                        done.push(item);
                    }
                    return Err(self.roll_back(all, &done, error));
                }
            }
        }
        self.clear(all);
        Ok(())
    }

    /// Restores the files in `done` and returns the error that caused the rollback. If a file cannot be restored, the
    /// originals stay in the staging folder, so that the next recovery can finish or revert the change.
    fn roll_back<'i>(
        &self,
        all: impl IntoIterator<Item = &'i StagedFile<'i>>,
        done: &[&StagedFile<'_>],
        error: ApplyError,
    ) -> ApplyError {
        let stay = |item: &&&StagedFile<'_>| self.restore_original(item).is_err();
        let stayed: Vec<&str> =
            done.iter().rev().filter(stay).map(|item| item.change.path.as_str()).collect();
        if stayed.is_empty() {
            self.clear(all);
            return error;
        }
        ApplyError::PartiallyApplied { error: Box::new(error), stayed: stayed.join("`, `") }
    }

    /// Determines whether a file has already been exchanged with its staged file, from the contents of the two files.
    fn swap_state(&self, item: &StagedFile<'_>) -> SwapState {
        let FileReplacement { before, after, .. } = item.change;
        let now = || self.current_hash(&item.path).ok().flatten();
        match (self.staged_hash(item), after) {
            (Some(staged), Some(after)) if staged == *after => SwapState::Pending,
            (Some(staged), Some(_)) if Some(staged) == *before => SwapState::Done,
            (Some(_), Some(_)) => SwapState::Misplaced,
            // The change deletes the file: the file was moved to the staging folder, where its content is checked.
            (Some(staged), None) if Some(staged) == *before => SwapState::Done,
            (Some(_), None) => SwapState::Misplaced,
            // The change deletes the file, and the file still exists: check and delete it again.
            (None, None) if now().is_some() => SwapState::Pending,
            (None, Some(_)) if now() == *before => SwapState::Pending,
            (None, _) => SwapState::Done,
        }
    }

    fn staged_hash(&self, item: &StagedFile<'_>) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.staging.read(&item.staged, u64::MAX - 1).ok()?))
    }

    /// Hash of the current content of a workspace file; `None` if the file does not exist.
    fn current_hash(&self, path: &WorkspacePath) -> Result<Option<Fingerprint>, FileError> {
        Ok(self.workspace.find(path, u64::MAX - 1)?.map(|original| original.sha256))
    }

    /// Opens the folder that contains a file of the change. Creates the folder if the file is new.
    fn folder(&self, item: &StagedFile<'_>) -> Result<FolderHandle, FileError> {
        let (_, folders) = item.path.parts().split_last().ok_or(FileError::Missing)?;
        match item.change.before {
            None => self.workspace.root().open_or_create_nested(folders),
            Some(_) => self.workspace.root().existing_within(folders),
        }
    }

    /// Exchanges one file with its staged file. Fails with a conflict if the file does not have the expected content.
    fn swap(&self, item: &StagedFile<'_>) -> Result<(), ApplyError> {
        match self.try_swap(item) {
            Ok(true) => Ok(()),
            Ok(false) | Err(FileError::Missing) => {
                Err(ApplyError::Conflict(item.change.path.clone()))
            }
            Err(source) => Err(item.failed(source)),
        }
    }

    /// Exchanges one file with its staged file if the file has the expected content, and returns `true`. If the file
    /// has other content, leaves the file unchanged and returns `false`.
    fn try_swap(&self, item: &StagedFile<'_>) -> Result<bool, FileError> {
        let (folder, name, staging) = (self.folder(item)?, item.path.name(), self.staging);
        let right = match (item.change.before, item.change.after) {
            (None, None) => true,
            (None, Some(_)) => match move_to(staging, &item.staged, &folder, name) {
                Ok(()) => true,
                Err(FileError::AlreadyExists) => false,
                Err(error) => return Err(error),
            },
            // `current_hash` refuses symbolic and hard links before any file is moved.
            (Some(before), _) if self.current_hash(&item.path)? != Some(before) => false,
            (before, Some(_)) => match self.exchange_for(item, before) {
                // The file system does not support `RENAME_EXCHANGE`: replace the file without keeping the original.
                Err(FileError::Io(error)) if error.raw_os_error() == EXCHANGE_UNSUPPORTED => {
                    renameat(staging, &item.staged, &folder, name).map_err(rename_error)?;
                    true
                }
                exchanged => exchanged?,
            },
            (before, None) => {
                move_to(&folder, name, staging, &item.staged)?;
                let same = self.staged_hash(item) == before;
                if !same {
                    self.exchange(item)?;
                }
                same
            }
        };
        fsync(&folder)?;
        Ok(right)
    }

    /// Exchanges the staged file and the file in the workspace. For a change that deletes the file, reverts the
    /// deletion: moves the original file from the staging folder back to the workspace.
    fn exchange(&self, item: &StagedFile<'_>) -> Result<(), FileError> {
        let (folder, name, staging) = (self.folder(item)?, item.path.name(), self.staging);
        match item.change.after {
            Some(_) => {
                let how = RenameFlags::EXCHANGE;
                renameat_with(staging, &item.staged, &folder, name, how).map_err(rename_error)
            }
            None => move_to(staging, &item.staged, &folder, name),
        }
    }

    /// Exchanges the staged file and the file in the workspace. If the workspace file did not have the expected
    /// content, reverts the exchange and returns `false`.
    fn exchange_for(
        &self,
        item: &StagedFile<'_>,
        expected: Option<Fingerprint>,
    ) -> Result<bool, FileError> {
        self.exchange(item)?;
        let right = self.staged_hash(item) == expected;
        if !right {
            self.exchange(item)?;
        }
        Ok(right)
    }

    /// Restores one file that was exchanged, if the file still has the applied content. A later edit is not
    /// overwritten. The original is normally still in the staging folder; restoring it then needs no more disk space.
    fn restore_original(&self, item: &StagedFile<'_>) -> Result<(), ApplyError> {
        let FileReplacement { path, before, after } = item.change.clone();
        let back = || -> Result<bool, FileError> {
            let folder = self.folder(item)?;
            let right = match (before, after) {
                (Some(_), _) if self.staged_hash(item) == before => {
                    self.exchange_for(item, after)?
                }
                (None, Some(_)) => {
                    let (name, staging) = (item.path.name(), self.staging);
                    move_to(&folder, name, staging, &item.staged)?;
                    let right = self.staged_hash(item) == after;
                    if !right {
                        move_to(staging, &item.staged, &folder, name)?;
                    }
                    right
                }
                _ => return Ok(false),
            };
            let _ = fsync(&folder);
            Ok(right)
        };
        if back().unwrap_or(false) {
            return Ok(());
        }
        // If the file system does not support `RENAME_EXCHANGE`, the original is not in the staging folder: stage it
        // again from its copy.
        let change = FileReplacement { path, before: after, after: before };
        let staged = format!("{}-back", item.staged);
        let back = [StagedFile { change: &change, path: item.path.clone(), staged }];
        self.stage_items(&back)?;
        let taken = self.swap(&back[0]);
        self.clear(&back);
        taken
    }

    /// Removes the staged files of a change.
    pub fn clear<'i>(&self, items: impl IntoIterator<Item = &'i StagedFile<'i>>) {
        for item in items {
            // Errors are ignored, because the next `stage` removes staged files that are left.
            let _ = self.staging.remove_without_sync(&item.staged);
        }
    }
}

/// Moves a file to another folder. Fails if that folder already contains a file with the new name.
fn move_to(from: &FolderHandle, name: &str, to: &FolderHandle, new: &str) -> Result<(), FileError> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // If the file system does not support `RENAME_NOREPLACE`, create a hard link instead, which also fails if the
        // new name exists.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from, name, to, new, AtFlags::empty()).map_err(rename_error)?;
            Ok(unlinkat(from, name, AtFlags::empty())?)
        }
        done => done.map_err(rename_error),
    }
}

/// Converts the error code of a failed rename to a [`FileError`].
fn rename_error(error: Errno) -> FileError {
    match error {
        Errno::EXIST => FileError::AlreadyExists,
        Errno::XDEV => FileError::OtherFileSystem,
        other => other.into(),
    }
}

/// Error code that `renameat2` returns on a file system that does not support `RENAME_EXCHANGE`.
const EXCHANGE_UNSUPPORTED: Option<i32> = Some(Errno::INVAL.raw_os_error());

/// Whether the exchange of one file with its staged file has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwapState {
    Pending,
    Done,
    /// The staged file has neither the original nor the new content of the file.
    Misplaced,
}

impl StagedFile<'_> {
    fn failed(&self, error: FileError) -> ApplyError {
        ApplyError::File { path: self.change.path.clone(), error }
    }
}

/// Copies the extended attributes of a file, such as access control lists. Skips attributes that cannot be copied.
fn copy_attributes(from: &File, to: &File) {
    let mut names = vec![0; 64 << 10];
    let Ok(length) = flistxattr(from, &mut names) else { return };
    let mut value = vec![0; 64 << 10];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(length) = fgetxattr(from, name, &mut value) {
            let _ = fsetxattr(to, name, &value[..length], rustix::fs::XattrFlags::empty());
        }
    }
}

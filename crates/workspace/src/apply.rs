//! Replaces files of the workspace, all of them or none.
//!
//! First the new content is staged: written next to the drafts, with owner and permissions, and synced to disk. Then
//! the caller records the intent. Only then is each staged file atomically exchanged with its original. So after a
//! crash, a staged file that still holds the new content has not been applied, and every other file has. That is all
//! recovery needs to know.

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

use crate::copies::ContentStore;
use crate::folder::FolderHandle;
use crate::inside::WorkspacePath;
use crate::workspace::{FileError, Workspace};

/// Permissions of a new file, before the umask.
const NEW_FILE: u32 = 0o644;
/// Initial permissions of a staged file that will get those of the file it replaces.
const PRIVATE_FILE: u32 = 0o600;

/// Why a change could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file does not have the expected content.
    #[error("`{0}` has changed in the meantime")]
    Conflict(String),
    #[error("`{path}`: {error}")]
    File { path: String, error: FileError },
    /// The change failed, and some files could not be restored.
    #[error("{error}; `{stayed}` could not be restored")]
    Half { error: Box<ApplyError>, stayed: String },
}

/// Replacement of one file's content; `None` means that the file does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReplacedFile")]
pub struct FileReplacement {
    pub path: String,
    pub before: Option<Fingerprint>,
    pub after: Option<Fingerprint>,
}

/// One file of a change and the name of its staged copy.
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
    /// Contents of files before and after a change.
    pub copies: &'a ContentStore,
}

impl Applier<'_> {
    /// Resolves the files of change number `change`.
    fn items<'c>(
        &self,
        change: u64,
        files: &'c [FileReplacement],
    ) -> Result<Vec<StagedFile<'c>>, ApplyError> {
        let item = |(index, file): (usize, &'c FileReplacement)| {
            let path = self.workspace.inside(&file.path).map_err(|error| ApplyError::File {
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
    /// If a file cannot be staged; then no file is.
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
                // Left over from a process that died before it recorded the intent.
                self.staging.discard(&item.staged)?;
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

    /// Copies owner, permissions and extended attributes of the file to be replaced to its staged file.
    fn copy_metadata(&self, staged: &File, path: &WorkspacePath) -> Result<(), FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let original = match self.workspace.root().beneath(path.parts(), flags) {
            Ok(original) => File::from(original),
            // A new file keeps the permissions that the umask leaves it.
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

    /// Applies staged items. The caller has recorded the intent.
    ///
    /// # Errors
    /// If a file does not have the expected content; then all files are restored.
    pub fn apply(&self, items: &[StagedFile<'_>]) -> Result<(), ApplyError> {
        self.swap_all(items.iter().collect(), Vec::new())
    }

    /// Finishes a change whose process died after it recorded the intent.
    ///
    /// # Errors
    /// If it cannot be finished; then all files are restored, except with [`ApplyError::Half`].
    pub fn resume(&self, change: u64, files: &[FileReplacement]) -> Result<(), ApplyError> {
        let items = &self.items(change, files)?;
        let (mut open, mut done) = (Vec::new(), Vec::new());
        let mut wrong = None;
        for item in items {
            match self.swap_state(item) {
                SwapState::Pending => open.push(item),
                SwapState::Done => done.push(item),
                // A concurrent edit was swapped out in place of the original. Put it back.
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
            if item.change.after.is_some() && self.staged_is(item) != item.change.after {
                // The staged file was lost with its folder.
                if let Err(error) = self.stage_items(std::slice::from_ref(*item)) {
                    return Err(self.roll_back(items, &done, error));
                }
            }
        }
        self.swap_all(open, done)
    }

    /// Swaps the files in `open`. If one fails, swaps back all that are done.
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
                    // Syncing its folder may have failed after the swap.
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

    /// Restores the files in `done` and returns the error. If that fails too, the originals stay staged, so that the
    /// next recovery can finish or revert the change.
    fn roll_back<'i>(
        &self,
        all: impl IntoIterator<Item = &'i StagedFile<'i>>,
        done: &[&StagedFile<'_>],
        error: ApplyError,
    ) -> ApplyError {
        let stay = |item: &&&StagedFile<'_>| self.swap_back(item).is_err();
        let stayed: Vec<&str> =
            done.iter().rev().filter(stay).map(|item| item.change.path.as_str()).collect();
        if stayed.is_empty() {
            self.clear(all);
            return error;
        }
        ApplyError::Half { error: Box::new(error), stayed: stayed.join("`, `") }
    }

    /// Determines from the staged file whether a swap happened before the crash.
    fn swap_state(&self, item: &StagedFile<'_>) -> SwapState {
        let FileReplacement { before, after, .. } = item.change;
        let now = || self.now(&item.path).ok().flatten();
        match (self.staged_is(item), after) {
            (Some(staged), Some(after)) if staged == *after => SwapState::Pending,
            (Some(staged), Some(_)) if Some(staged) == *before => SwapState::Done,
            (Some(_), Some(_)) => SwapState::Misplaced,
            // The file to delete was moved to staging for the check of its content.
            (Some(staged), None) if Some(staged) == *before => SwapState::Done,
            (Some(_), None) => SwapState::Misplaced,
            // The check whether the file may be deleted is repeated.
            (None, None) if now().is_some() => SwapState::Pending,
            (None, Some(_)) if now() == *before => SwapState::Pending,
            (None, _) => SwapState::Done,
        }
    }

    fn staged_is(&self, item: &StagedFile<'_>) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.staging.read(&item.staged, u64::MAX - 1).ok()?))
    }

    /// Hash of a file now; `None` if it does not exist.
    fn now(&self, path: &WorkspacePath) -> Result<Option<Fingerprint>, FileError> {
        Ok(self.workspace.find(path, u64::MAX - 1)?.map(|original| original.sha256))
    }

    /// Opens the folder of a file; creates it if the file is new.
    fn folder(&self, item: &StagedFile<'_>) -> Result<FolderHandle, FileError> {
        let (_, folders) = item.path.parts().split_last().ok_or(FileError::Missing)?;
        match item.change.before {
            None => self.workspace.root().within(folders),
            Some(_) => self.workspace.root().existing_within(folders),
        }
    }

    /// Swaps one file with its staged copy.
    fn swap(&self, item: &StagedFile<'_>) -> Result<(), ApplyError> {
        match self.try_swap(item) {
            Ok(true) => Ok(()),
            Ok(false) | Err(FileError::Missing) => {
                Err(ApplyError::Conflict(item.change.path.clone()))
            }
            Err(source) => Err(item.failed(source)),
        }
    }

    /// Returns whether the file had the expected content. If not, it is left unchanged.
    fn try_swap(&self, item: &StagedFile<'_>) -> Result<bool, FileError> {
        let (folder, name, staging) = (self.folder(item)?, item.path.name(), self.staging);
        let right = match (item.change.before, item.change.after) {
            (None, None) => true,
            (None, Some(_)) => match move_to(staging, &item.staged, &folder, name) {
                Ok(()) => true,
                Err(FileError::InTheWay) => false,
                Err(error) => return Err(error),
            },
            // Reading detects links and hard links before anything moves.
            (Some(before), _) if self.now(&item.path)? != Some(before) => false,
            (before, Some(_)) => match self.exchange_for(item, before) {
                // The file system does not support `RENAME_EXCHANGE`.
                Err(FileError::Io(error)) if error.raw_os_error() == EXCHANGE_UNSUPPORTED => {
                    renameat(staging, &item.staged, &folder, name).map_err(rename_error)?;
                    true
                }
                exchanged => exchanged?,
            },
            (before, None) => {
                move_to(&folder, name, staging, &item.staged)?;
                let same = self.staged_is(item) == before;
                if !same {
                    self.exchange(item)?;
                }
                same
            }
        };
        fsync(&folder)?;
        Ok(right)
    }

    /// Exchanges the staged file and the original; moves a deleted file back.
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

    /// Exchanges staged file and original if the original is as expected; else restores both and returns `false`.
    fn exchange_for(
        &self,
        item: &StagedFile<'_>,
        expected: Option<Fingerprint>,
    ) -> Result<bool, FileError> {
        self.exchange(item)?;
        let right = self.staged_is(item) == expected;
        if !right {
            self.exchange(item)?;
        }
        Ok(right)
    }

    /// Reverts one swap if the file still has the applied content; a later edit is kept. The original is still staged,
    /// so this needs no disk space.
    fn swap_back(&self, item: &StagedFile<'_>) -> Result<(), ApplyError> {
        let FileReplacement { path, before, after } = item.change.clone();
        let back = || -> Result<bool, FileError> {
            let folder = self.folder(item)?;
            let right = match (before, after) {
                (Some(_), _) if self.staged_is(item) == before => self.exchange_for(item, after)?,
                (None, Some(_)) => {
                    let (name, staging) = (item.path.name(), self.staging);
                    move_to(&folder, name, staging, &item.staged)?;
                    let right = self.staged_is(item) == after;
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
        // Without `RENAME_EXCHANGE` the original is not staged: stage it again.
        let change = FileReplacement { path, before: after, after: before };
        let staged = format!("{}-back", item.staged);
        let back = [StagedFile { change: &change, path: item.path.clone(), staged }];
        self.stage_items(&back)?;
        let taken = self.swap(&back[0]);
        self.clear(&back);
        taken
    }

    /// Removes staged files.
    pub fn clear<'i>(&self, items: impl IntoIterator<Item = &'i StagedFile<'i>>) {
        for item in items {
            // The next `stage` removes a leftover.
            let _ = self.staging.discard(&item.staged);
        }
    }
}

/// Moves a file to a name that does not exist yet.
fn move_to(from: &FolderHandle, name: &str, to: &FolderHandle, new: &str) -> Result<(), FileError> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // Without `RENAME_NOREPLACE`: creating a hard link fails as well if the name exists.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from, name, to, new, AtFlags::empty()).map_err(rename_error)?;
            Ok(unlinkat(from, name, AtFlags::empty())?)
        }
        done => done.map_err(rename_error),
    }
}

/// Maps an error of a rename.
fn rename_error(error: Errno) -> FileError {
    match error {
        Errno::EXIST => FileError::InTheWay,
        Errno::XDEV => FileError::OtherDisk,
        other => other.into(),
    }
}

/// Error code of a file system that cannot exchange two files.
const EXCHANGE_UNSUPPORTED: Option<i32> = Some(Errno::INVAL.raw_os_error());

/// How far the swap of one file got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwapState {
    Pending,
    Done,
    /// The staged file is neither the original nor the new content.
    Misplaced,
}

impl StagedFile<'_> {
    fn failed(&self, error: FileError) -> ApplyError {
        ApplyError::File { path: self.change.path.clone(), error }
    }
}

/// Copies extended attributes, such as access lists, as far as permitted.
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

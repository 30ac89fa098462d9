//! Changing files of the workspace, all of them or none.
//!
//! What is to come is staged first: written beside the drafts, with owner and permissions, and on the disk.
//! Then the intent is written down by the caller, and only then each staged file changes places with its
//! original, in one step of the kernel. A staged file that still holds what is to come has therefore not been
//! applied; every other has. Whoever finds an intent after a crash needs to know no more than that.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use assize_types::Fingerprint;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fsync,
    openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::book::Replacing;
use crate::folder::{Folder, folder_in};
use crate::inside::Inside;
use crate::workspace::{FOLDER, FileError, Workspace, beneath};

/// The permissions of a new file, before the umask.
const NEW_FILE: u32 = 0o644;
/// The permissions of one that is yet to get those of another.
const UNSEEN: u32 = 0o600;

/// A change of files that could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// A file is not what it should be.
    #[error("`{0}` has changed meanwhile")]
    Conflict(String),
    #[error("`{path}`: {source}")]
    File { path: String, source: FileError },
}

/// One file that is to change, and where it is staged.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) change: &'a Replacing,
    path: Inside,
    staged: String,
}

/// What changes files of a workspace.
#[derive(Debug)]
pub(crate) struct Applier<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) staging: &'a Folder,
}

impl Applier<'_> {
    /// The files of a change, which is known by a number of its own.
    pub(crate) fn items<'c>(
        &self,
        change: u64,
        files: &'c [Replacing],
    ) -> Result<Vec<Item<'c>>, ApplyError> {
        let item = |(index, file): (usize, &'c Replacing)| {
            let path = self.workspace.inside(&file.path).map_err(|error| ApplyError::File {
                path: file.path.clone(),
                source: FileError::Io(std::io::Error::other(error)),
            })?;
            Ok(Item { change: file, path, staged: format!("{change}-{index}") })
        };
        files.iter().enumerate().map(item).collect()
    }

    /// Stages what is to come.
    pub(crate) fn stage(
        &self,
        items: &[Item<'_>],
        bytes: &dyn Fn(Fingerprint) -> Result<Vec<u8>, FileError>,
    ) -> Result<(), ApplyError> {
        let staged = items.iter().try_for_each(|item| {
            let Some(after) = item.change.after else { return Ok(()) };
            let stage = || -> Result<(), FileError> {
                // Left over from a life in which the intent was never written down.
                self.staging.remove(&item.staged)?;
                let mode = if item.change.before.is_none() { NEW_FILE } else { UNSEEN };
                let mut file = self.staging.create(&item.staged, mode)?;
                file.write_all(&bytes(after)?)?;
                self.dress(&file, &item.path)?;
                Ok(file.sync_all()?)
            };
            stage().map_err(|source| item.failed(source))
        });
        if staged.is_err() {
            self.clear(items);
        }
        staged
    }

    /// Gives a staged file the owner, the permissions and the attributes of the file that it replaces.
    fn dress(&self, staged: &File, path: &Inside) -> Result<(), FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let original = match beneath(self.workspace.root(), path.parts(), flags) {
            Ok(original) => File::from(original),
            // A new file has what the umask leaves it.
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

    /// Applies what was staged, after the intent was written down.
    ///
    /// # Errors
    /// When a file is not what it should be: then nothing is changed.
    pub(crate) fn apply(
        &self,
        items: &[Item<'_>],
        bytes: &dyn Fn(Fingerprint) -> Result<Vec<u8>, FileError>,
    ) -> Result<(), ApplyError> {
        for (index, item) in items.iter().enumerate() {
            if let Err(error) = self.swap(item) {
                for done in items[..index].iter().rev() {
                    self.take_back(done, bytes);
                }
                self.clear(items);
                return Err(error);
            }
        }
        self.clear(items);
        Ok(())
    }

    /// Goes on where a crash was.
    pub(crate) fn resume(
        &self,
        items: &[Item<'_>],
        bytes: &dyn Fn(Fingerprint) -> Result<Vec<u8>, FileError>,
    ) -> Result<(), ApplyError> {
        let is_staged = |item: &Item<'_>| self.staged_is(item) == item.change.after;
        let applied = |item: &Item<'_>| match item.change.after {
            Some(_) if is_staged(item) => false,
            // What is to go has gone, unless it is still what it was; and what was staged may have been lost.
            _ => self.now(&item.path).ok().flatten() != item.change.before,
        };
        let (done, open): (Vec<&Item<'_>>, Vec<&Item<'_>>) = items.iter().partition(|i| applied(i));
        for item in open {
            let staged = match is_staged(item) {
                true => Ok(()),
                false => self.stage(std::slice::from_ref(item), bytes),
            };
            if let Err(error) = staged.and_then(|()| self.swap(item)) {
                done.iter().for_each(|done| self.take_back(done, bytes));
                self.clear(items);
                return Err(error);
            }
        }
        self.clear(items);
        Ok(())
    }

    fn staged_is(&self, item: &Item<'_>) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.staging.read(&item.staged, u64::MAX - 1).ok()?))
    }

    /// What a file is now; `None` if there is none.
    fn now(&self, path: &Inside) -> Result<Option<Fingerprint>, FileError> {
        crate::gate::now(self.workspace.read(path, u64::MAX - 1))
    }

    /// The folder of a file; made, with those above it, where a new file is to be.
    fn folder(&self, item: &Item<'_>) -> Result<OwnedFd, FileError> {
        let (_, folders) = item.path.parts().split_last().ok_or(FileError::Missing)?;
        let mut at = self.workspace.root().try_clone()?;
        for folder in folders {
            at = match item.change.before {
                None => folder_in(at.as_fd(), folder)?,
                Some(_) => {
                    openat(&at, folder, FOLDER, Mode::empty()).map_err(|error| match error {
                        Errno::NOTDIR => FileError::Link,
                        other => other.into(),
                    })?
                }
            };
        }
        Ok(at)
    }

    /// One file changes places with what was staged for it.
    fn swap(&self, item: &Item<'_>) -> Result<(), ApplyError> {
        let swap = || -> Result<bool, FileError> {
            let (folder, name) = (self.folder(item)?, item.path.name());
            let staging = self.staging.handle();
            let right = match (item.change.before, item.change.after) {
                (None, Some(_)) => {
                    let moved =
                        renameat_with(staging, &item.staged, &folder, name, RenameFlags::NOREPLACE);
                    match moved {
                        Ok(()) => true,
                        Err(Errno::EXIST) => false,
                        Err(error) => return Err(error.into()),
                    }
                }
                (Some(before), Some(_)) => {
                    // Links and what has several names are told apart before anything moves.
                    if self.now(&item.path)? != Some(before) {
                        return Ok(false);
                    }
                    match renameat_with(staging, &item.staged, &folder, name, RenameFlags::EXCHANGE)
                    {
                        // What was there is staged now: was it still the same?
                        Ok(()) if self.staged_is(item) != Some(before) => {
                            let back = RenameFlags::EXCHANGE;
                            renameat_with(staging, &item.staged, &folder, name, back)?;
                            false
                        }
                        Ok(()) => true,
                        // File systems that cannot.
                        Err(Errno::INVAL | Errno::NOSYS) => {
                            renameat(staging, &item.staged, &folder, name)?;
                            true
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                (Some(before), None) => {
                    if self.now(&item.path)? != Some(before) {
                        return Ok(false);
                    }
                    unlinkat(&folder, name, AtFlags::empty())?;
                    true
                }
                (None, None) => true,
            };
            fsync(&folder)?;
            Ok(right)
        };
        match swap() {
            Ok(true) => Ok(()),
            Ok(false) => Err(ApplyError::Conflict(item.change.path.clone())),
            Err(FileError::Missing) => Err(ApplyError::Conflict(item.change.path.clone())),
            Err(source) => Err(item.failed(source)),
        }
    }

    /// Takes back what was applied, if it is still that.
    fn take_back(
        &self,
        item: &Item<'_>,
        bytes: &dyn Fn(Fingerprint) -> Result<Vec<u8>, FileError>,
    ) {
        let Replacing { path, before, after } = item.change.clone();
        let change = Replacing { path, before: after, after: before };
        let staged = format!("{}-back", item.staged);
        let back = [Item { change: &change, path: item.path.clone(), staged }];
        if self.stage(&back, bytes).is_ok() {
            // Whoever has changed it meanwhile keeps what they did.
            let _ = self.swap(&back[0]);
            self.clear(&back);
        }
    }

    /// Takes away what is staged.
    pub(crate) fn clear(&self, items: &[Item<'_>]) {
        for item in items {
            // What stays is taken away by the next who stages.
            let _ = self.staging.remove(&item.staged);
        }
    }
}

impl Item<'_> {
    fn failed(&self, source: FileError) -> ApplyError {
        ApplyError::File { path: self.change.path.clone(), source }
    }
}

/// Copies what a file system keeps beside a file, such as access lists, as far as it lets us.
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

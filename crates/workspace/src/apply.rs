//! Changing files of the workspace, all of them or none.
//!
//! What is to come is staged first: written beside the drafts, with owner and permissions, and on the disk.
//! Then the intent is written down by the caller, and only then each staged file changes places with its
//! original, in one step of the kernel. A staged file that still holds what is to come has therefore not been
//! applied; every other has. Whoever finds an intent after a crash needs to know no more than that.

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

use crate::copies::Copies;
use crate::folder::Folder;
use crate::inside::Inside;
use crate::workspace::{FileError, Workspace};

/// The permissions of a new file, before the umask.
const NEW_FILE: u32 = 0o644;
/// The permissions of one that is yet to get those of another.
const UNSEEN: u32 = 0o600;

/// A change of files that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A file is not what it should be.
    #[error("`{0}` has changed meanwhile")]
    Conflict(String),
    #[error("`{path}`: {error}")]
    File { path: String, error: FileError },
    /// And what had been changed before could not be changed back.
    #[error("{error}; and `{stayed}` could not be changed back")]
    Half { error: Box<ApplyError>, stayed: String },
}

/// A file that changes from one content to another; `None` is no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReplacedFile")]
pub struct Replacing {
    pub path: String,
    pub before: Option<Fingerprint>,
    pub after: Option<Fingerprint>,
}

/// One file that is to change, and where it is staged.
#[derive(Debug)]
pub struct Item<'a> {
    change: &'a Replacing,
    path: Inside,
    staged: String,
}

/// What changes files of a workspace.
#[derive(Debug)]
pub struct Applier<'a> {
    pub workspace: &'a Workspace,
    pub staging: &'a Folder,
    /// What files hold before and after a change.
    pub copies: &'a Copies,
}

impl Applier<'_> {
    /// The files of a change, which is known by a number of its own.
    fn items<'c>(&self, change: u64, files: &'c [Replacing]) -> Result<Vec<Item<'c>>, ApplyError> {
        let item = |(index, file): (usize, &'c Replacing)| {
            let path = self.workspace.inside(&file.path).map_err(|error| ApplyError::File {
                path: file.path.clone(),
                error: FileError::Io(std::io::Error::other(error)),
            })?;
            Ok(Item { change: file, path, staged: format!("{change}-{index}") })
        };
        files.iter().enumerate().map(item).collect()
    }

    /// Stages the new content of a change, which is known by a number of its own.
    ///
    /// # Errors
    /// When a file cannot be staged: then none is.
    pub fn stage<'c>(
        &self,
        change: u64,
        files: &'c [Replacing],
    ) -> Result<Vec<Item<'c>>, ApplyError> {
        let items = self.items(change, files)?;
        self.stage_items(&items)?;
        Ok(items)
    }

    fn stage_items(&self, items: &[Item<'_>]) -> Result<(), ApplyError> {
        let staged = items.iter().try_for_each(|item| {
            let Some(after) = item.change.after else { return Ok(()) };
            let stage = || -> Result<(), FileError> {
                // Left over from a life in which the intent was never written down.
                self.staging.discard(&item.staged)?;
                let mode = if item.change.before.is_none() { NEW_FILE } else { UNSEEN };
                let mut file = self.staging.create(&item.staged, mode)?;
                file.write_all(&self.copies.get(after)?)?;
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
        let original = match self.workspace.root().beneath(path.parts(), flags) {
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
    /// When a file is not what it should be: then all is again as it was.
    pub fn apply(&self, items: &[Item<'_>]) -> Result<(), ApplyError> {
        self.go_on(items.iter().collect(), Vec::new())
    }

    /// Finishes a change whose process died after the intent was recorded.
    ///
    /// # Errors
    /// When it cannot be finished: then all is again as it was, but for [`ApplyError::Half`].
    pub fn resume(&self, change: u64, files: &[Replacing]) -> Result<(), ApplyError> {
        let items = &self.items(change, files)?;
        let (mut open, mut done) = (Vec::new(), Vec::new());
        let mut wrong = None;
        for item in items {
            match self.how_far(item) {
                HowFar::NotYet => open.push(item),
                HowFar::Done => done.push(item),
                // What somebody did just then was taken for the original, and is put back.
                HowFar::Astray => {
                    let back = self.exchange(item);
                    wrong = Some(match back {
                        Ok(()) => ApplyError::Conflict(item.change.path.clone()),
                        Err(source) => item.failed(source),
                    });
                }
            }
        }
        if let Some(error) = wrong {
            return Err(self.give_up(items, &done, error));
        }
        for item in &open {
            if item.change.after.is_some() && self.staged_is(item) != item.change.after {
                // What was staged was lost with its folder.
                if let Err(error) = self.stage_items(std::slice::from_ref(*item)) {
                    return Err(self.give_up(items, &done, error));
                }
            }
        }
        self.go_on(open, done)
    }

    /// Changes the open files; where one cannot be, those that were changed are changed back.
    fn go_on<'i>(
        &self,
        open: Vec<&'i Item<'i>>,
        mut done: Vec<&'i Item<'i>>,
    ) -> Result<(), ApplyError> {
        let all: Vec<&Item<'_>> = done.iter().chain(&open).copied().collect();
        for item in open {
            match self.swap(item) {
                Ok(()) => done.push(item),
                Err(error) => {
                    // Its folder may have failed after it was changed.
                    if self.how_far(item) == HowFar::Done {
                        done.push(item);
                    }
                    return Err(self.give_up(all, &done, error));
                }
            }
        }
        self.clear(all);
        Ok(())
    }

    /// Takes back what was done. Where even that fails, what was there stays staged, so that whoever comes next can
    /// finish it, one way or the other.
    fn give_up<'i>(
        &self,
        all: impl IntoIterator<Item = &'i Item<'i>>,
        done: &[&Item<'_>],
        error: ApplyError,
    ) -> ApplyError {
        let stay = |item: &&&Item<'_>| self.take_back(item).is_err();
        let stayed: Vec<&str> =
            done.iter().rev().filter(stay).map(|item| item.change.path.as_str()).collect();
        if stayed.is_empty() {
            self.clear(all);
            return error;
        }
        ApplyError::Half { error: Box::new(error), stayed: stayed.join("`, `") }
    }

    /// Whether a file was changed before the crash.
    fn how_far(&self, item: &Item<'_>) -> HowFar {
        let Replacing { before, after, .. } = item.change;
        let now = || self.now(&item.path).ok().flatten();
        match (self.staged_is(item), after) {
            (Some(staged), Some(after)) if staged == *after => HowFar::NotYet,
            (Some(staged), Some(_)) if Some(staged) == *before => HowFar::Done,
            (Some(_), Some(_)) => HowFar::Astray,
            // What is to go was moved away to be looked at.
            (Some(staged), None) if Some(staged) == *before => HowFar::Done,
            (Some(_), None) => HowFar::Astray,
            // Whether it may go is looked at once more.
            (None, None) if now().is_some() => HowFar::NotYet,
            (None, Some(_)) if now() == *before => HowFar::NotYet,
            (None, _) => HowFar::Done,
        }
    }

    fn staged_is(&self, item: &Item<'_>) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.staging.read(&item.staged, u64::MAX - 1).ok()?))
    }

    /// What a file is now; `None` if there is none.
    fn now(&self, path: &Inside) -> Result<Option<Fingerprint>, FileError> {
        Ok(self.workspace.find(path, u64::MAX - 1)?.map(|original| original.sha256))
    }

    /// The folder of a file; made, with those above it, where a new file is to be.
    fn folder(&self, item: &Item<'_>) -> Result<Folder, FileError> {
        let (_, folders) = item.path.parts().split_last().ok_or(FileError::Missing)?;
        match item.change.before {
            None => self.workspace.root().within(folders),
            Some(_) => self.workspace.root().existing_within(folders),
        }
    }

    /// One file changes places with what was staged for it.
    fn swap(&self, item: &Item<'_>) -> Result<(), ApplyError> {
        match self.try_swap(item) {
            Ok(true) => Ok(()),
            Ok(false) | Err(FileError::Missing) => {
                Err(ApplyError::Conflict(item.change.path.clone()))
            }
            Err(source) => Err(item.failed(source)),
        }
    }

    /// Whether the file was what it should be; where it was not, it still is what it was.
    fn try_swap(&self, item: &Item<'_>) -> Result<bool, FileError> {
        let (folder, name, staging) = (self.folder(item)?, item.path.name(), self.staging);
        let right = match (item.change.before, item.change.after) {
            (None, None) => true,
            (None, Some(_)) => match move_to(staging, &item.staged, &folder, name) {
                Ok(()) => true,
                Err(FileError::InTheWay) => false,
                Err(error) => return Err(error),
            },
            // Links and what has several names are told apart before anything moves.
            (Some(before), _) if self.now(&item.path)? != Some(before) => false,
            (before, Some(_)) => match self.exchange_for(item, before) {
                // File systems that cannot.
                Err(FileError::Io(error)) if error.raw_os_error() == INVALID => {
                    renameat(staging, &item.staged, &folder, name).map_err(moved)?;
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

    /// What is staged and what is there change places; where nothing is there, it goes back.
    fn exchange(&self, item: &Item<'_>) -> Result<(), FileError> {
        let (folder, name, staging) = (self.folder(item)?, item.path.name(), self.staging);
        match item.change.after {
            Some(_) => {
                let how = RenameFlags::EXCHANGE;
                renameat_with(staging, &item.staged, &folder, name, how).map_err(moved)
            }
            None => move_to(staging, &item.staged, &folder, name),
        }
    }

    /// Exchanges them if that stages what is expected: else they go back to their places, and this is `false`.
    fn exchange_for(
        &self,
        item: &Item<'_>,
        expected: Option<Fingerprint>,
    ) -> Result<bool, FileError> {
        self.exchange(item)?;
        let right = self.staged_is(item) == expected;
        if !right {
            self.exchange(item)?;
        }
        Ok(right)
    }

    /// Takes back what was applied, if it is still that: whoever has changed it meanwhile keeps what they did.
    /// What was there is still staged, so that this takes no room.
    fn take_back(&self, item: &Item<'_>) -> Result<(), ApplyError> {
        let Replacing { path, before, after } = item.change.clone();
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
        // What was there is not staged, on a disk that cannot exchange: it is staged once more.
        let change = Replacing { path, before: after, after: before };
        let staged = format!("{}-back", item.staged);
        let back = [Item { change: &change, path: item.path.clone(), staged }];
        self.stage_items(&back)?;
        let taken = self.swap(&back[0]);
        self.clear(&back);
        taken
    }

    /// Takes away what is staged.
    pub fn clear<'i>(&self, items: impl IntoIterator<Item = &'i Item<'i>>) {
        for item in items {
            // What stays is taken away by the next who stages.
            let _ = self.staging.discard(&item.staged);
        }
    }
}

/// Moves a file to where nothing is.
fn move_to(from: &Folder, name: &str, to: &Folder, new: &str) -> Result<(), FileError> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // File systems that cannot: a second name fails where there is one, too.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from, name, to, new, AtFlags::empty()).map_err(moved)?;
            Ok(unlinkat(from, name, AtFlags::empty())?)
        }
        done => done.map_err(moved),
    }
}

/// What it means that a file cannot be moved.
fn moved(error: Errno) -> FileError {
    match error {
        Errno::EXIST => FileError::InTheWay,
        Errno::XDEV => FileError::OtherDisk,
        other => other.into(),
    }
}

/// What a file system says that cannot exchange two files.
const INVALID: Option<i32> = Some(Errno::INVAL.raw_os_error());

/// How far a file was when the process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HowFar {
    NotYet,
    Done,
    /// Something that is neither was staged in the place of the original.
    Astray,
}

impl Item<'_> {
    fn failed(&self, error: FileError) -> ApplyError {
        ApplyError::File { path: self.change.path.clone(), error }
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

//! The one folder that workers write to: `_handoff/drafts`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fsync, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::workspace::{FOLDER, FileError, Workspace, beneath};

/// The folder of everything that is handed over, and the part of it that has the drafts.
pub const HANDOFF: &str = "_handoff";
pub const DRAFTS: &str = "drafts";

/// What an unfinished file begins with; no draft does.
const UNFINISHED: &str = ".new-";

/// The drafts of a workspace. Files in it are named, never paths.
#[derive(Debug)]
pub struct Drafts {
    folder: OwnedFd,
}

/// A name that no draft can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a draft")]
pub struct BadName(pub String);

impl Drafts {
    /// Opens the folder, making it if need be.
    ///
    /// # Errors
    /// When it cannot be made, or a link is in its place.
    pub fn open(workspace: &Workspace) -> Result<Drafts, FileError> {
        let handoff = folder_in(workspace.root(), HANDOFF)?;
        Ok(Drafts { folder: folder_in(&handoff, DRAFTS)? })
    }

    /// Puts a draft there, whole and on the disk, or not at all.
    ///
    /// # Errors
    /// When there is no room, or the name is none.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        check(name)?;
        let unfinished = format!("{UNFINISHED}{:016x}", fastrand::u64(..));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.folder, &unfinished, flags, Mode::from(0o600))?);
        let written = (|| -> io::Result<()> {
            file.write_all(bytes)?;
            file.sync_all()?;
            renameat(&self.folder, &unfinished, &self.folder, name)?;
            Ok(fsync(&self.folder)?)
        })();
        if written.is_err() {
            let _ = unlinkat(&self.folder, &unfinished, AtFlags::empty());
        }
        Ok(written?)
    }

    /// A draft of at most so many bytes.
    ///
    /// # Errors
    /// When there is none, or it is larger.
    pub fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, FileError> {
        check(name)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(beneath(&self.folder, &[name.to_owned()], flags)?);
        if !file.metadata()?.is_file() {
            return Err(FileError::Special);
        }
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(FileError::TooLarge(most)) } else { Ok(bytes) }
    }

    /// Takes a draft away; that there is none is no failure.
    ///
    /// # Errors
    /// When it cannot be taken away.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        check(name)?;
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(fsync(&self.folder)?),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of all files there, in order; unfinished ones are nobody's.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if check(&name).is_ok() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// A folder that is there, or is made.
fn folder_in(parent: &OwnedFd, name: &str) -> Result<OwnedFd, FileError> {
    match mkdirat(parent, name, Mode::from(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    openat(parent, name, FOLDER, Mode::empty()).map_err(|error| match error {
        // A link, or something else that is no folder.
        Errno::NOTDIR | Errno::LOOP => FileError::Link,
        other => other.into(),
    })
}

/// Whether it is one name, of a file that could be a draft.
fn check(name: &str) -> Result<(), FileError> {
    let plain = !name.contains('/') && !name.contains(char::is_control);
    let dots = name == "." || name == "..";
    if plain && !dots && !name.is_empty() && name.len() <= 255 && !name.starts_with(UNFINISHED) {
        return Ok(());
    }
    Err(FileError::Io(io::Error::other(BadName(name.to_owned()))))
}

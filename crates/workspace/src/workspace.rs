//! A folder whose files can be read, and nothing else.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use assize_types::Fingerprint;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, readlinkat, statat};
use rustix::io::Errno;

use crate::folder::{Folder, read_at_most};
use crate::inside::{Inside, Outside};

/// The folder that a worker may read.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    /// The absolute path as it was given, which may lead through links.
    given: PathBuf,
    root: Folder,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    File,
    Folder,
    Link,
}

/// Files that were found.
#[derive(Debug, Default)]
pub struct Walk {
    pub files: Vec<(Inside, Kind)>,
    /// There are more.
    pub cut: bool,
}

/// A file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    pub bytes: Vec<u8>,
    pub sha256: Fingerprint,
    /// Its permissions.
    pub mode: u32,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("there is no such file")]
    Missing,
    #[error(
        "it is a link, or something that is no folder is on the way to it: links are not followed here"
    )]
    Link,
    #[error("something of that name is there")]
    InTheWay,
    #[error("it is on another disk than `_handoff`, and cannot be changed in one step")]
    OtherDisk,
    #[error("it is a folder; name a file in it")]
    Folder,
    #[error("it is no plain file")]
    Special,
    #[error("it has {0} names (hard links), and what has several may be outside as well")]
    ManyNames(u64),
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> FileError {
        match error {
            Errno::NOENT => FileError::Missing,
            // The kernel says either, of a link in the place of a folder.
            Errno::LOOP | Errno::XDEV => FileError::Link,
            Errno::ISDIR => FileError::Folder,
            Errno::NOTDIR => FileError::Missing,
            other => FileError::Io(other.into()),
        }
    }
}

impl Workspace {
    /// Opens the workspace at a path, which is followed once, now.
    pub fn open(path: &Path) -> io::Result<Workspace> {
        let given = std::path::absolute(path)?;
        let path = path.canonicalize()?;
        let root = Folder::open_at(&path)?;
        Ok(Workspace { path, given, root })
    }

    /// Its own folder.
    pub fn root(&self) -> &Folder {
        &self.root
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a path means here.
    pub fn inside(&self, text: &str) -> Result<Inside, Outside> {
        match Inside::read(text, &self.path) {
            Err(Outside::Elsewhere(_)) => Inside::read(text, &self.given),
            read => read,
        }
    }

    /// The two absolute paths that lead here: without links, and as it was given.
    pub fn roots(&self) -> [&Path; 2] {
        [&self.path, &self.given]
    }

    /// A file with at most so many bytes.
    pub fn read(&self, file: &Inside, most: u64) -> Result<Original, FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(self.root.beneath(file.parts(), flags)?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(FileError::Folder);
        }
        if !metadata.is_file() {
            return Err(FileError::Special);
        }
        if metadata.nlink() > 1 {
            return Err(FileError::ManyNames(metadata.nlink()));
        }
        let bytes = read_at_most(file, most)?;
        Ok(Original { sha256: Fingerprint::of(&bytes), bytes, mode: metadata.mode() & 0o7777 })
    }

    /// A file with at most so many bytes; `None` where there is none.
    pub fn find(&self, file: &Inside, most: u64) -> Result<Option<Original>, FileError> {
        match self.read(file, most) {
            Ok(original) => Ok(Some(original)),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is in a folder of the workspace, by name; in its own, where no other is named.
    pub fn list(&self, folder: Option<&Inside>) -> Result<Vec<(String, Kind)>, FileError> {
        let folder = self.root.below(folder.map_or(&[], Inside::parts))?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            // What is no text can be named by nobody here.
            let Ok(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say.
                FileType::Unknown => {
                    let stat = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            let kind = match kind {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => continue,
            };
            found.push((name, kind));
        }
        found.sort();
        Ok(found)
    }

    /// All files below the workspace's folder that are wanted, in order, at most so many; and nothing below folders
    /// that are not.
    pub fn walk(
        &self,
        most: usize,
        wanted: &dyn Fn(&Inside, Kind) -> bool,
    ) -> Result<Walk, FileError> {
        let mut walk = Walk::default();
        let mut open: Vec<Option<Inside>> = vec![None];
        while let Some(folder) = open.pop() {
            let listed = match self.list(folder.as_ref()) {
                // It has gone since.
                Err(FileError::Missing | FileError::Link) if folder.is_some() => continue,
                listed => listed?,
            };
            let mut inner = Vec::new();
            for (name, kind) in listed {
                let Some(path) = Inside::below(folder.as_ref(), &name) else { continue };
                match kind {
                    _ if !wanted(&path, kind) => {}
                    Kind::Folder => inner.push(Some(path)),
                    Kind::File | Kind::Link if walk.files.len() == most => {
                        walk.cut = true;
                        return Ok(walk);
                    }
                    Kind::File | Kind::Link => walk.files.push((path, kind)),
                }
            }
            open.extend(inner.into_iter().rev());
        }
        Ok(walk)
    }

    /// Something on the way to a new file whose name is the same as there but for the case of its letters.
    pub fn twin(&self, file: &Inside) -> Option<String> {
        let mut at = self.root.try_clone().ok()?;
        for name in file.parts() {
            let names = Dir::read_from(&at).ok()?.filter_map(Result::ok);
            let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let same =
                |other: &String| other != name && other.to_lowercase() == name.to_lowercase();
            if let Some(twin) = names.find(same) {
                return Some(twin);
            }
            // What is not there yet has no twin in it.
            at = at.open_folder(name).ok()?;
        }
        None
    }

    /// What a link says.
    pub fn link(&self, path: &Inside) -> Result<PathBuf, FileError> {
        let (name, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        let target = readlinkat(self.root.below(folders)?, name, Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
    }
}

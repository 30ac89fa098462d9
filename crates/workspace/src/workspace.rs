//! Read access to the files of a workspace.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use assize_types::Fingerprint;
use rustix::fs::{AtFlags, Dir, FileType, OFlags, readlinkat, statat};
use rustix::io::Errno;

use crate::folder::{FolderHandle, read_at_most};
use crate::inside::{InvalidPath, WorkspacePath};

/// Folder whose files an agent may read.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    /// The absolute path before symbolic links were resolved.
    given: PathBuf,
    root: FolderHandle,
}

/// Type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    File,
    Folder,
    Link,
}

/// Result of [`Workspace::walk`].
#[derive(Debug, Default)]
pub struct Walk {
    pub files: Vec<(WorkspacePath, PathKind)>,
    /// Whether there are more files than the limit.
    pub cut: bool,
}

/// Content and metadata of a file at the time it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSnapshot {
    pub bytes: Vec<u8>,
    pub sha256: Fingerprint,
    /// Permission bits.
    pub mode: u32,
}

/// Why a file cannot be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no such file")]
    Missing,
    #[error(
        "it is a symbolic link or its path contains one (links are not followed here), or a parent is not a folder"
    )]
    Link,
    #[error("a file or folder of that name already exists")]
    InTheWay,
    #[error("it is on another file system than `_handoff`, so it cannot be replaced atomically")]
    OtherDisk,
    #[error("it is a folder; name a file in it")]
    Folder,
    #[error("it is not a regular file")]
    Special,
    #[error("it has {0} hard links, and some may be outside the workspace")]
    ManyNames(u64),
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> FileError {
        match error {
            Errno::NOENT => FileError::Missing,
            // For a link in place of a folder, the kernel returns either error.
            Errno::LOOP | Errno::XDEV => FileError::Link,
            Errno::ISDIR => FileError::Folder,
            Errno::NOTDIR => FileError::Missing,
            other => FileError::Io(other.into()),
        }
    }
}

impl Workspace {
    /// Opens the workspace at `path`. Symbolic links in `path` are resolved here, once.
    pub fn open(path: &Path) -> io::Result<Workspace> {
        let given = std::path::absolute(path)?;
        let path = path.canonicalize()?;
        let root = FolderHandle::open_at(&path)?;
        Ok(Workspace { path, given, root })
    }

    /// Handle of the workspace's root folder.
    pub fn root(&self) -> &FolderHandle {
        &self.root
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parses a path: relative to the workspace, or absolute and inside it.
    pub fn inside(&self, text: &str) -> Result<WorkspacePath, InvalidPath> {
        match WorkspacePath::read(text, &self.path) {
            Err(InvalidPath::Elsewhere(_)) => WorkspacePath::read(text, &self.given),
            read => read,
        }
    }

    /// Both absolute paths of the workspace: with symbolic links resolved, and as passed to [`Workspace::open`].
    pub fn roots(&self) -> [&Path; 2] {
        [&self.path, &self.given]
    }

    /// Reads a file of at most `limit` bytes.
    pub fn read(&self, file: &WorkspacePath, limit: u64) -> Result<FileSnapshot, FileError> {
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
        let bytes = read_at_most(file, limit)?;
        Ok(FileSnapshot { sha256: Fingerprint::of(&bytes), bytes, mode: metadata.mode() & 0o7777 })
    }

    /// Reads a file of at most `limit` bytes; `None` if it does not exist.
    pub fn find(
        &self,
        file: &WorkspacePath,
        limit: u64,
    ) -> Result<Option<FileSnapshot>, FileError> {
        match self.read(file, limit) {
            Ok(original) => Ok(Some(original)),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists a folder of the workspace, sorted by name; `None` lists the root.
    pub fn list(
        &self,
        folder: Option<&WorkspacePath>,
    ) -> Result<Vec<(String, PathKind)>, FileError> {
        let folder = self.root.below(folder.map_or(&[], WorkspacePath::parts))?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            // A name that is not UTF-8 cannot be expressed as a path here.
            let Ok(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => {
                    let stat = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            let kind = match kind {
                FileType::RegularFile => PathKind::File,
                FileType::Directory => PathKind::Folder,
                FileType::Symlink => PathKind::Link,
                _ => continue,
            };
            found.push((name, kind));
        }
        found.sort();
        Ok(found)
    }

    /// Lists up to `limit` files for which `include` returns true, in order. Folders that are not included are not
    /// entered.
    pub fn walk(
        &self,
        limit: usize,
        include: &dyn Fn(&WorkspacePath, PathKind) -> bool,
    ) -> Result<Walk, FileError> {
        let mut walk = Walk::default();
        let mut open: Vec<Option<WorkspacePath>> = vec![None];
        while let Some(folder) = open.pop() {
            let listed = match self.list(folder.as_ref()) {
                // The folder was removed since it was listed.
                Err(FileError::Missing | FileError::Link) if folder.is_some() => continue,
                listed => listed?,
            };
            let mut inner = Vec::new();
            for (name, kind) in listed {
                let Some(path) = WorkspacePath::below(folder.as_ref(), &name) else { continue };
                match kind {
                    _ if !include(&path, kind) => {}
                    PathKind::Folder => inner.push(Some(path)),
                    PathKind::File | PathKind::Link if walk.files.len() == limit => {
                        walk.cut = true;
                        return Ok(walk);
                    }
                    PathKind::File | PathKind::Link => walk.files.push((path, kind)),
                }
            }
            open.extend(inner.into_iter().rev());
        }
        Ok(walk)
    }

    /// Finds an existing file or folder whose name differs from a component of `file` only in case.
    pub fn twin(&self, file: &WorkspacePath) -> Option<String> {
        let mut at = self.root.try_clone().ok()?;
        for name in file.parts() {
            let names = Dir::read_from(&at).ok()?.filter_map(Result::ok);
            let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let same =
                |other: &String| other != name && other.to_lowercase() == name.to_lowercase();
            if let Some(twin) = names.find(same) {
                return Some(twin);
            }
            // A folder that does not exist yet contains no such name.
            at = at.open_folder(name).ok()?;
        }
        None
    }

    /// Returns the target of a symbolic link.
    pub fn link(&self, path: &WorkspacePath) -> Result<PathBuf, FileError> {
        let (name, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        let target = readlinkat(self.root.below(folders)?, name, Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
    }
}

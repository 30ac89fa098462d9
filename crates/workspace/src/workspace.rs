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
use crate::workspace_path::{InvalidPath, WorkspacePath};

/// Workspace: the folder whose files an agent may read, and may change through drafts.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    /// Absolute path of the workspace. Unlike in `path`, the symbolic links in this path are not resolved.
    unresolved_path: PathBuf,
    root: FolderHandle,
}

/// Type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    File,
    Folder,
    Link,
}

/// Files that [`Workspace::walk`] found.
#[derive(Debug, Default)]
pub struct Walk {
    pub files: Vec<(WorkspacePath, PathKind)>,
    /// Whether the list of files is truncated, because there are more files than the limit.
    pub truncated: bool,
}

/// Content and permissions of a file at the time it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSnapshot {
    pub bytes: Vec<u8>,
    pub sha256: Fingerprint,
    /// Unix permission bits of the file.
    pub mode: u32,
}

/// Reason why a file cannot be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no such file")]
    Missing,
    #[error(
        "the path is a symbolic link or contains one (symbolic links are not followed), or a \
         parent of the file is not a folder"
    )]
    Link,
    #[error("a file or folder with this name already exists")]
    AlreadyExists,
    #[error(
        "the file is on a different file system than `_handoff`, so it cannot be replaced \
         atomically"
    )]
    OtherFileSystem,
    #[error("the path is a folder; write the path of a file in this folder")]
    Folder,
    #[error("the path is not a regular file")]
    NotRegularFile,
    #[error("the file has {0} hard links, and some of them may be outside the workspace")]
    HardLinked(u64),
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> FileError {
        match error {
            Errno::NOENT => FileError::Missing,
            // For a path with a symbolic link instead of a folder, the kernel returns one of these two errors.
            Errno::LOOP | Errno::XDEV => FileError::Link,
            Errno::ISDIR => FileError::Folder,
            Errno::NOTDIR => FileError::Missing,
            other => FileError::Io(other.into()),
        }
    }
}

impl Workspace {
    /// Opens the workspace at `path`. Symbolic links in `path` are resolved only once, by this call.
    pub fn open(path: &Path) -> io::Result<Workspace> {
        let given = std::path::absolute(path)?;
        let path = path.canonicalize()?;
        let root = FolderHandle::open_at(&path)?;
        Ok(Workspace { path, unresolved_path: given, root })
    }

    /// Handle of the workspace's root folder.
    pub fn root(&self) -> &FolderHandle {
        &self.root
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parses a path. The path must be relative to the workspace, or absolute and inside the workspace.
    pub fn parse_path(&self, text: &str) -> Result<WorkspacePath, InvalidPath> {
        match WorkspacePath::parse(text, &self.path) {
            Err(InvalidPath::OutsideWorkspace(_)) => {
                WorkspacePath::parse(text, &self.unresolved_path)
            }
            read => read,
        }
    }

    /// Both absolute paths of the workspace: with symbolic links resolved, and as passed to [`Workspace::open`].
    pub fn roots(&self) -> [&Path; 2] {
        [&self.path, &self.unresolved_path]
    }

    /// Reads a file of the workspace. Fails if the file is larger than `limit` bytes.
    pub fn read(&self, file: &WorkspacePath, limit: u64) -> Result<FileSnapshot, FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(self.root.open_beneath(file.parts(), flags)?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(FileError::Folder);
        }
        if !metadata.is_file() {
            return Err(FileError::NotRegularFile);
        }
        if metadata.nlink() > 1 {
            return Err(FileError::HardLinked(metadata.nlink()));
        }
        let bytes = read_at_most(file, limit)?;
        Ok(FileSnapshot { sha256: Fingerprint::of(&bytes), bytes, mode: metadata.mode() & 0o7777 })
    }

    /// Reads a file of the workspace; `None` if the file does not exist. Fails if the file is larger than
    /// `limit` bytes.
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
        let folder = self.root.open_nested(folder.map_or(&[], WorkspacePath::parts))?;
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            // Skip names that are not UTF-8, because a `WorkspacePath` cannot contain them.
            let Ok(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type of a directory entry.
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

    /// Lists up to `limit` files and symbolic links for which `include` returns true, sorted by name within each
    /// folder. A folder for which `include` returns false is skipped with its content.
    pub fn walk(
        &self,
        limit: usize,
        include: &dyn Fn(&WorkspacePath, PathKind) -> bool,
    ) -> Result<Walk, FileError> {
        let mut walk = Walk::default();
        let mut open: Vec<Option<WorkspacePath>> = vec![None];
        while let Some(folder) = open.pop() {
            let listed = match self.list(folder.as_ref()) {
                // The folder was removed after it was found.
                Err(FileError::Missing | FileError::Link) if folder.is_some() => continue,
                listed => listed?,
            };
            let mut inner = Vec::new();
            for (name, kind) in listed {
                let Some(path) = WorkspacePath::from_entry(folder.as_ref(), &name) else {
                    continue;
                };
                match kind {
                    _ if !include(&path, kind) => {}
                    PathKind::Folder => inner.push(Some(path)),
                    PathKind::File | PathKind::Link if walk.files.len() == limit => {
                        walk.truncated = true;
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
    pub fn find_case_conflict(&self, file: &WorkspacePath) -> Option<String> {
        let mut at = self.root.try_clone().ok()?;
        for name in file.parts() {
            let names = Dir::read_from(&at).ok()?.filter_map(Result::ok);
            let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let same =
                |other: &String| other != name && other.to_lowercase() == name.to_lowercase();
            if let Some(twin) = names.find(same) {
                return Some(twin);
            }
            // A folder that does not exist yet contains no conflicting name.
            at = at.open_folder(name).ok()?;
        }
        None
    }

    /// Returns the target of a symbolic link in the workspace.
    pub fn link(&self, path: &WorkspacePath) -> Result<PathBuf, FileError> {
        let (name, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        let target = readlinkat(self.root.open_nested(folders)?, name, Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
    }
}

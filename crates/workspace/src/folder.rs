//! Handle of a folder: an open file descriptor of the folder. Files are opened relative to the descriptor and written
//! atomically. `_handoff/drafts`, the only folder that agents write to, is accessed through such a handle.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, flock,
    fsync, mkdirat, openat, openat2, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use crate::workspace::FileError;

/// Name of the drafts folder in [`HANDOFF`](crate::HANDOFF).
pub const DRAFTS: &str = "drafts";

/// Name prefix of temporary files that are still being written. The names of finished files never start with it.
pub const TEMP_FILE_PREFIX: &str = ".new-";

/// An open folder. Callers pass the name of a file in this folder, or a path as a list of its components.
#[derive(Debug)]
pub struct FolderHandle {
    handle: OwnedFd,
}

/// Error for a text that is not the name of a single file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid file name `{0}`")]
pub struct InvalidFileName(pub String);

/// Open flags for folders. Symbolic links are not followed.
const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl AsFd for FolderHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl FolderHandle {
    /// Opens an existing subfolder.
    pub fn existing(&self, name: &str) -> Result<FolderHandle, FileError> {
        check_file_name(name)?;
        self.open_folder(name)
    }

    /// Opens the folder at a trusted path. Creates the folder with mode 0700 if it does not exist.
    pub fn open_or_create_at(path: &Path) -> Result<FolderHandle, FileError> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(FolderHandle { handle: openat(CWD, path, flags, Mode::empty())? })
    }

    /// Opens the folder at a path. Fails if the last component of the path is a symbolic link.
    pub(crate) fn open_at(path: &Path) -> io::Result<FolderHandle> {
        Ok(FolderHandle { handle: openat(CWD, path, FOLDER, Mode::empty())? })
    }

    /// Opens a subfolder. Creates the subfolder if it does not exist.
    pub fn open_or_create(&self, name: &str) -> Result<FolderHandle, FileError> {
        check_file_name(name)?;
        self.make_folder(name)
    }

    /// Writes a file of this folder atomically and syncs it to disk.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        check_file_name(name)?;
        let unfinished = format!("{TEMP_FILE_PREFIX}{:016x}", fastrand::u64(..));
        let mut file = self.create(&unfinished, 0o600)?;
        let written = (|| -> io::Result<()> {
            file.write_all(bytes)?;
            file.sync_all()?;
            renameat(&self.handle, &unfinished, &self.handle, name)?;
            Ok(fsync(&self.handle)?)
        })();
        if written.is_err() {
            let _ = unlinkat(&self.handle, &unfinished, AtFlags::empty());
        }
        Ok(written?)
    }

    /// Creates a new file in this folder and opens it for writing. Fails if the file exists.
    pub fn create(&self, name: &str, mode: u32) -> Result<File, FileError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.handle, name, flags, Mode::from(mode))?))
    }

    /// Appends bytes to a file of this folder and syncs the file to disk. Creates the file if it does not exist.
    pub fn append(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        check_file_name(name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK;
        let mut file = File::from(openat(&self.handle, name, flags, Mode::from(0o644))?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(FileError::NotRegularFile);
        }
        if metadata.nlink() > 1 {
            return Err(FileError::HardLinked(metadata.nlink()));
        }
        file.write_all(bytes)?;
        Ok(file.sync_data()?)
    }

    /// Opens a regular file of this folder for reading.
    pub fn open(&self, name: &str) -> Result<File, FileError> {
        check_file_name(name)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.open_beneath(&[name.to_owned()], flags)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(FileError::NotRegularFile) }
    }

    /// Reads the content and the permission bits of a file. Fails if the file is larger than `limit` bytes.
    pub fn read_with_mode(&self, name: &str, limit: u64) -> Result<(Vec<u8>, u32), FileError> {
        let file = self.open(name)?;
        let mode = file.metadata()?.mode() & 0o7777;
        Ok((read_at_most(file, limit)?, mode))
    }

    /// Reads a file of this folder. Fails if the file is larger than `limit` bytes.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        Ok(self.read_with_mode(name, limit)?.0)
    }

    /// Removes a file and syncs the folder to disk. A missing file is not an error.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        if self.remove_without_sync(name)? { Ok(fsync(&self.handle)?) } else { Ok(()) }
    }

    /// Removes a file without syncing the folder, so the file may reappear after a crash. Returns whether the file
    /// existed. Does not remove a folder with this name.
    pub fn remove_without_sync(&self, name: &str) -> Result<bool, FileError> {
        check_file_name(name)?;
        match unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::ISDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Renames a file within this folder. Fails if a file with the new name exists.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        check_file_name(from)?;
        check_file_name(to)?;
        renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE)?;
        Ok(fsync(&self.handle)?)
    }

    /// Returns the size of a file in bytes and its modification time in milliseconds since 1970, rounded down to whole
    /// seconds; `None` if the file does not exist.
    pub fn stat(&self, name: &str) -> Result<Option<(u64, u64)>, FileError> {
        let stat = match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(FileError::Link),
            FileType::Directory => return Err(FileError::Folder),
            _ => return Err(FileError::NotRegularFile),
        }
        let at = u64::try_from(stat.st_mtime).unwrap_or_default() * 1000;
        Ok(Some((u64::try_from(stat.st_size).unwrap_or_default(), at)))
    }

    /// Removes the temporary files of processes that died while they wrote to this folder. The caller must ensure that
    /// no process is writing to the folder.
    pub fn discard_unfinished(&self) -> Result<(), FileError> {
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            if entry.file_name().to_bytes().starts_with(TEMP_FILE_PREFIX.as_bytes()) {
                let _ = unlinkat(&self.handle, entry.file_name(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// Opens the nested subfolder with this path, given as components. Creates missing folders.
    pub fn open_or_create_nested(&self, names: &[String]) -> Result<FolderHandle, FileError> {
        names.iter().try_fold(self.try_clone()?, |at, name| at.make_folder(name))
    }

    /// Opens the nested subfolder with this path, given as components. Fails if a folder is missing.
    pub(crate) fn existing_within(&self, names: &[String]) -> Result<FolderHandle, FileError> {
        names.iter().try_fold(self.try_clone()?, |at, name| at.open_folder(name))
    }

    /// Opens a path below this folder without following symbolic links. The system call `openat2` opens the whole path
    /// in one step. If `openat2` is not available, each component is opened relative to the descriptor of its parent
    /// folder: a process that replaces the parent by a symbolic link then has no effect on the path that is opened.
    pub(crate) fn open_beneath(
        &self,
        parts: &[String],
        flags: OFlags,
    ) -> Result<OwnedFd, FileError> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::NOFOLLOW;
        loop {
            match openat2(&self.handle, parts.join("/"), flags, Mode::empty(), resolve) {
                Ok(found) => return Ok(found),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // `openat2` is missing in Linux before 5.6, and some seccomp filters refuse it.
                Err(Errno::NOSYS | Errno::PERM) => return self.open_stepwise(parts, flags),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn open_stepwise(&self, parts: &[String], flags: OFlags) -> Result<OwnedFd, FileError> {
        let Some((last, folders)) = parts.split_last() else { return Err(FileError::Folder) };
        Ok(openat(self.existing_within(folders)?, last, flags, Mode::empty())?)
    }

    /// Opens the nested subfolder with this path without following symbolic links. An empty path opens this folder.
    pub(crate) fn open_nested(&self, parts: &[String]) -> Result<FolderHandle, FileError> {
        match parts {
            [] => self.try_clone(),
            parts => Ok(FolderHandle { handle: self.open_beneath(parts, FOLDER)? }),
        }
    }

    pub(crate) fn try_clone(&self) -> Result<FolderHandle, FileError> {
        Ok(FolderHandle { handle: self.handle.try_clone()? })
    }

    /// Opens a subfolder without checking the name. Creates the subfolder if it does not exist.
    fn make_folder(&self, name: &str) -> Result<FolderHandle, FileError> {
        match mkdirat(&self.handle, name, Mode::from(0o755)) {
            Ok(()) => fsync(&self.handle)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.open_folder(name)
    }

    pub(crate) fn open_folder(&self, name: &str) -> Result<FolderHandle, FileError> {
        match openat(&self.handle, name, FOLDER, Mode::empty()) {
            Ok(handle) => Ok(FolderHandle { handle }),
            // The entry is a symbolic link or another file that is not a folder.
            Err(Errno::NOTDIR | Errno::LOOP) => Err(FileError::Link),
            Err(error) => Err(error.into()),
        }
    }

    /// Sorted names of the entries of this folder. Leaves out temporary files, and names with control characters.
    pub fn names(&self) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if check_file_name(&name).is_ok() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Acquires the exclusive lock of a lock file in this folder. The lock is released when the [`FolderLock`] is
    /// dropped or the process ends. Returns `None` if another process has the lock and `wait` is [`LockWait::No`].
    pub fn lock(&self, name: &str, wait: LockWait) -> Result<Option<FolderLock>, FileError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::from(0o600))?;
        let how = match wait {
            LockWait::Yes => FlockOperation::LockExclusive,
            LockWait::No => FlockOperation::NonBlockingLockExclusive,
        };
        loop {
            match flock(&file, how) {
                Ok(()) => return Ok(Some(FolderLock(file))),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether to wait until another process releases the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    Yes,
    No,
}

/// Exclusive lock of a lock file. Dropping the value releases the lock.
#[derive(Debug)]
pub struct FolderLock(
    #[expect(dead_code, reason = "the lock is held while the descriptor is open")] OwnedFd,
);

/// Reads an open file to its end. Fails if the file is larger than `limit` bytes.
pub(crate) fn read_at_most(file: File, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(FileError::TooLarge(limit)) } else { Ok(bytes) }
}

/// Checks that a text is the name of a single file and does not have the prefix of temporary files.
fn check_file_name(name: &str) -> Result<(), FileError> {
    let plain = !name.contains('/') && !name.contains(char::is_control);
    let dots = name == "." || name == "..";
    if plain
        && !dots
        && !name.is_empty()
        && name.len() <= 255
        && !name.starts_with(TEMP_FILE_PREFIX)
    {
        return Ok(());
    }
    Err(FileError::Io(io::Error::other(InvalidFileName(name.to_owned()))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Opens the same paths with `openat2` and with the fallback that opens a path component by component: the results
    /// must be equal.
    #[test]
    fn stepwise_open_rejects_the_same_paths_as_openat2() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "x").unwrap();
        symlink("/etc", root.join("out")).unwrap();
        symlink("b", root.join("a/link")).unwrap();
        symlink("file", root.join("a/b/leaf")).unwrap();
        let handle = FolderHandle::open_or_create_at(root).unwrap();
        for path in
            ["a/b/file", "a/b", "a/none", "out/passwd", "a/link/file", "a/b/leaf", "a/b/file/x"]
        {
            let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
            let outcome = |opened: Result<OwnedFd, FileError>| match opened {
                Ok(_) => "opened".to_owned(),
                Err(error) => error.to_string(),
            };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let fast = outcome(handle.open_beneath(&parts, flags));
            let slow = outcome(handle.open_stepwise(&parts, flags | OFlags::NOFOLLOW));
            // `a/b/file/x` is left out: the two ways report different errors for a file that is used as a folder.
            if path != "a/b/file/x" {
                assert_eq!(fast, slow, "{path}");
            }
            assert_eq!(fast == "opened", ["a/b/file", "a/b"].contains(&path), "{path}: {fast}");
        }
    }
}

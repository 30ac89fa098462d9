//! A folder by its handle, whose files are written whole or not at all: `_handoff/drafts` is one, the one
//! place that workers write to.

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

/// The folder of the drafts, in [`HANDOFF`](crate::HANDOFF).
pub const DRAFTS: &str = "drafts";

/// What an unfinished file begins with; no other does.
pub const UNFINISHED: &str = ".new-";

/// A folder. Files in it are named, never paths.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
}

/// A name that no file here can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a file here")]
pub struct BadName(pub String);

/// How folders are opened.
const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Folder {
    /// A folder in it, only if it is there.
    pub fn existing(&self, name: &str) -> Result<Folder, FileError> {
        check(name)?;
        self.open_folder(name)
    }

    /// A folder at a path of our own, made if need be, for its owner's eyes only.
    pub fn at(path: &Path) -> Result<Folder, FileError> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Folder { handle: openat(CWD, path, flags, Mode::empty())? })
    }

    /// The folder at a path, which is no link.
    pub(crate) fn open_at(path: &Path) -> io::Result<Folder> {
        Ok(Folder { handle: openat(CWD, path, FOLDER, Mode::empty())? })
    }

    /// A folder in it, made if need be.
    pub fn folder(&self, name: &str) -> Result<Folder, FileError> {
        check(name)?;
        self.make_folder(name)
    }

    /// Puts a file there, whole and on the disk, or not at all.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        check(name)?;
        let unfinished = format!("{UNFINISHED}{:016x}", fastrand::u64(..));
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

    /// A new file there, open to be written.
    pub fn create(&self, name: &str, mode: u32) -> Result<File, FileError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.handle, name, flags, Mode::from(mode))?))
    }

    /// Adds to the end of a file, which is made if need be, and waits for the disk.
    pub fn append(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        check(name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK;
        let mut file = File::from(openat(&self.handle, name, flags, Mode::from(0o644))?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(FileError::Special);
        }
        if metadata.nlink() > 1 {
            return Err(FileError::ManyNames(metadata.nlink()));
        }
        file.write_all(bytes)?;
        Ok(file.sync_data()?)
    }

    /// A file, to be read bit by bit.
    pub fn open(&self, name: &str) -> Result<File, FileError> {
        check(name)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(self.beneath(&[name.to_owned()], flags)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(FileError::Special) }
    }

    /// A file of at most so many bytes, and its permissions.
    pub fn read_with_mode(&self, name: &str, most: u64) -> Result<(Vec<u8>, u32), FileError> {
        let file = self.open(name)?;
        let mode = file.metadata()?.mode() & 0o7777;
        Ok((read_at_most(file, most)?, mode))
    }

    /// A file of at most so many bytes.
    pub fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, FileError> {
        Ok(self.read_with_mode(name, most)?.0)
    }

    /// Takes a file away, for good; that there is none is no failure.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        if self.discard(name)? { Ok(fsync(&self.handle)?) } else { Ok(()) }
    }

    /// Takes a file away that would do no harm if it were there again; whether there was one. A folder in its place is
    /// left alone.
    pub fn discard(&self, name: &str) -> Result<bool, FileError> {
        check(name)?;
        match unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::ISDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a file another name, unless that is taken.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        check(from)?;
        check(to)?;
        renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE)?;
        Ok(fsync(&self.handle)?)
    }

    /// How long a file is, and when it was last changed, in milliseconds since 1970; `None` where there is none.
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
            _ => return Err(FileError::Special),
        }
        let at = u64::try_from(stat.st_mtime).unwrap_or_default() * 1000;
        Ok(Some((u64::try_from(stat.st_size).unwrap_or_default(), at)))
    }

    /// Takes away what a process left that died while it wrote. Only for whoever knows that nobody writes.
    pub fn discard_unfinished(&self) -> Result<(), FileError> {
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            if entry.file_name().to_bytes().starts_with(UNFINISHED.as_bytes()) {
                let _ = unlinkat(&self.handle, entry.file_name(), AtFlags::empty());
            }
        }
        Ok(())
    }

    /// A folder in it and in what is in it, made as far as need be.
    pub fn within(&self, names: &[String]) -> Result<Folder, FileError> {
        names.iter().try_fold(self.try_clone()?, |at, name| at.make_folder(name))
    }

    /// The same, only if all of them are there.
    pub(crate) fn existing_within(&self, names: &[String]) -> Result<Folder, FileError> {
        names.iter().try_fold(self.try_clone()?, |at, name| at.open_folder(name))
    }

    /// Opens what is below it, through no link. The kernel does so in one step where it can; else part by part, each from
    /// the handle of the one before, which nobody can swap.
    pub(crate) fn beneath(&self, parts: &[String], flags: OFlags) -> Result<OwnedFd, FileError> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::NOFOLLOW;
        loop {
            match openat2(&self.handle, parts.join("/"), flags, Mode::empty(), resolve) {
                Ok(found) => return Ok(found),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Before Linux 5.6, or where a filter does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => return self.step_by_step(parts, flags),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn step_by_step(&self, parts: &[String], flags: OFlags) -> Result<OwnedFd, FileError> {
        let Some((last, folders)) = parts.split_last() else { return Err(FileError::Folder) };
        Ok(openat(self.existing_within(folders)?, last, flags, Mode::empty())?)
    }

    /// A folder below it, or the same one.
    pub(crate) fn below(&self, parts: &[String]) -> Result<Folder, FileError> {
        match parts {
            [] => self.try_clone(),
            parts => Ok(Folder { handle: self.beneath(parts, FOLDER)? }),
        }
    }

    pub(crate) fn try_clone(&self) -> Result<Folder, FileError> {
        Ok(Folder { handle: self.handle.try_clone()? })
    }

    /// A folder that is there, or is made.
    fn make_folder(&self, name: &str) -> Result<Folder, FileError> {
        match mkdirat(&self.handle, name, Mode::from(0o755)) {
            Ok(()) => fsync(&self.handle)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.open_folder(name)
    }

    pub(crate) fn open_folder(&self, name: &str) -> Result<Folder, FileError> {
        match openat(&self.handle, name, FOLDER, Mode::empty()) {
            Ok(handle) => Ok(Folder { handle }),
            // A link, or something else that is no folder.
            Err(Errno::NOTDIR | Errno::LOOP) => Err(FileError::Link),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of all files there, in order; unfinished ones are nobody's.
    pub fn names(&self) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if check(&name).is_ok() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// A lock that ends with what it gives, or with its process; `None` where somebody has it and it is not
    /// to be waited for.
    pub fn lock(&self, name: &str, wait: Wait) -> Result<Option<Lock>, FileError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::from(0o600))?;
        let how = match wait {
            Wait::Yes => FlockOperation::LockExclusive,
            Wait::No => FlockOperation::NonBlockingLockExclusive,
        };
        loop {
            match flock(&file, how) {
                Ok(()) => return Ok(Some(Lock(file))),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether a lock is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Yes,
    No,
}

/// A lock that is held.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held for as long as it is open")] OwnedFd);

/// The content of a file of at most so many bytes.
pub(crate) fn read_at_most(file: File, most: u64) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(FileError::TooLarge(most)) } else { Ok(bytes) }
}

/// Whether it is one name, of a file that could be here.
fn check(name: &str) -> Result<(), FileError> {
    let plain = !name.contains('/') && !name.contains(char::is_control);
    let dots = name == "." || name == "..";
    if plain && !dots && !name.is_empty() && name.len() <= 255 && !name.starts_with(UNFINISHED) {
        return Ok(());
    }
    Err(FileError::Io(io::Error::other(BadName(name.to_owned()))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Both ways of opening come to the same.
    #[test]
    fn the_slow_way_refuses_what_the_kernel_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "x").unwrap();
        symlink("/etc", root.join("out")).unwrap();
        symlink("b", root.join("a/link")).unwrap();
        symlink("file", root.join("a/b/leaf")).unwrap();
        let handle = Folder::at(root).unwrap();
        for path in
            ["a/b/file", "a/b", "a/none", "out/passwd", "a/link/file", "a/b/leaf", "a/b/file/x"]
        {
            let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
            let told = |opened: Result<OwnedFd, FileError>| match opened {
                Ok(_) => "opened".to_owned(),
                Err(error) => error.to_string(),
            };
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let fast = told(handle.beneath(&parts, flags));
            let slow = told(handle.step_by_step(&parts, flags | OFlags::NOFOLLOW));
            // Where a file is taken for a folder, one says so and the other that there is no such file.
            if path != "a/b/file/x" {
                assert_eq!(fast, slow, "{path}");
            }
            assert_eq!(fast == "opened", ["a/b/file", "a/b"].contains(&path), "{path}: {fast}");
        }
    }
}

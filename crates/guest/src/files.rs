//! Files in the sandbox, for the host to write, read, list and remove.
//!
//! Programs may have put anything anywhere: links, pipes that block whoever opens them, devices,
//! doors into `/proc`. So nothing is opened through the kernel's magic links, nothing is waited for,
//! only plain files are read or written, and all of it as the user that programs run under.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use assize_protocol::{
    CODE, Cause, Entry, EntryKind, Failure, Frame, Reply, StreamId, WINDOW, port,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::link::Link;

/// The most entries that are listed of one folder.
const MOST_ENTRIES: usize = 4000;

fn explain(path: &str, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind as Kind;
    let cause = match error.kind() {
        Kind::NotFound => Cause::NotFound,
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Cause::Denied,
        Kind::StorageFull | Kind::QuotaExceeded => Cause::Full,
        Kind::FileTooLarge => Cause::TooLarge,
        Kind::NotADirectory | Kind::IsADirectory => Cause::WrongKind,
        Kind::InvalidInput => Cause::Invalid,
        _ => Cause::Other,
    };
    Failure::new(cause, format!("`{path}`: {error}"))
}

fn whole_path(path: &str) -> Result<&Path, Failure> {
    let inside = Path::new(path);
    let plain = inside.is_absolute()
        && !path.contains('\0')
        && !inside.components().any(|part| part == std::path::Component::ParentDir);
    if plain {
        Ok(inside)
    } else {
        Err(Failure::new(Cause::Invalid, format!("`{path}` is not a whole path without `..`")))
    }
}

/// Opens a plain file, and nothing else.
fn open(path: &str, flags: OFlags, mode: u32) -> Result<File, Failure> {
    let inside = whole_path(path)?;
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::openat2(
        CWD,
        inside,
        flags,
        Mode::from_raw_mode(if flags.contains(OFlags::CREATE) { mode } else { 0 }),
        ResolveFlags::NO_MAGICLINKS,
    )
    .map_err(|error| match error {
        // A pipe that nobody reads.
        rustix::io::Errno::NXIO => {
            Failure::new(Cause::WrongKind, format!("`{path}` is not a plain file"))
        }
        error => explain(path, &error.into()),
    })?;
    let file = File::from(fd);
    let metadata = file.metadata().map_err(|error| explain(path, &error))?;
    let in_proc =
        rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC);
    if !metadata.is_file() || in_proc {
        return Err(Failure::new(Cause::WrongKind, format!("`{path}` is not a plain file")));
    }
    Ok(file)
}

/// Whether this is where code is put that is to be run. Programs cannot change, replace or delete it.
pub(crate) fn is_code(path: &str) -> bool {
    CODE.contains(&path)
}

/// A file that is being written.
pub(crate) struct Writing {
    path: String,
    file: File,
    failed: Option<Failure>,
}

impl Writing {
    /// Begins to write code, as the guest's own user: the folder is its own and sticky, so that programs,
    /// which are another user, cannot touch the file. What a program put there before is removed.
    pub(crate) fn begin_code(path: &str) -> Result<Writing, Failure> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(explain(path, &error));
            }
            _ => {}
        }
        // Nothing is followed, and nothing that came meanwhile is used.
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = open(path, new, 0o444)?;
        Ok(Writing { path: path.to_owned(), file, failed: None })
    }

    /// The same where programs are the guest's own user: the file is mounted read-only, and this is the
    /// only descriptor that writes to it.
    pub(crate) fn begin_mounted_code(path: &str, file: &OwnedFd) -> Result<Writing, Failure> {
        let file = file.try_clone().map(File::from).and_then(|mut file| {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        });
        let file = file.map_err(|error| explain(path, &error))?;
        Ok(Writing { path: path.to_owned(), file, failed: None })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn begin(path: &str, mode: u32) -> Result<Writing, Failure> {
        if let Some(folder) = whole_path(path)?.parent() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(folder)
                .map_err(|error| explain(path, &error))?;
        }
        let file = open(path, OFlags::WRONLY | OFlags::CREATE, mode & 0o777)?;
        let ready = file
            .set_len(0)
            .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode & 0o777)));
        ready.map_err(|error| explain(path, &error))?;
        Ok(Writing { path: path.to_owned(), file, failed: None })
    }

    pub(crate) fn take(&mut self, stream: StreamId, bytes: &[u8], link: &mut Link) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err().map(|error| explain(&self.path, &error));
        }
        Frame::put_credit(link.out(), stream, port::IN, u32::try_from(bytes.len()).unwrap_or(0));
    }

    pub(crate) fn end(self) -> Reply {
        match self.failed {
            None => Reply::Done,
            Some(failure) => {
                // Half of it is worse than nothing.
                let _ = std::fs::remove_file(&self.path).or_else(|_| self.file.set_len(0));
                Reply::Failed(failure)
            }
        }
    }
}

/// A file that is being read.
pub(crate) struct Reading {
    path: String,
    file: File,
    left: u64,
    credit: u32,
}

impl Reading {
    pub(crate) fn begin(path: &str, limit: u64) -> Result<Reading, Failure> {
        let file = open(path, OFlags::RDONLY, 0)?;
        let size = file.metadata().map_err(|error| explain(path, &error))?.len();
        if size > limit {
            let message = format!("`{path}` has {size} bytes, and {limit} are allowed");
            return Err(Failure::new(Cause::TooLarge, message));
        }
        Ok(Reading { path: path.to_owned(), file, left: size, credit: WINDOW })
    }

    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    pub(crate) fn can_send(&self) -> bool {
        self.credit > 0
    }

    /// Sends the next piece, and the reply after the last.
    pub(crate) fn send(
        &mut self,
        stream: StreamId,
        buffer: &mut [u8],
        link: &mut Link,
    ) -> Option<Reply> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = buffer.len().min(self.credit as usize).min(left);
        match self.file.read(&mut buffer[..most]) {
            // It may have become shorter since.
            Ok(0) => Some(Reply::Done),
            Ok(count) => {
                self.left -= count as u64;
                self.credit -= u32::try_from(count).unwrap_or(0);
                Frame::put_data(link.out(), stream, port::OUT, &buffer[..count]);
                (self.left == 0).then_some(Reply::Done)
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
            Err(error) => Some(Reply::Failed(explain(&self.path, &error))),
        }
    }
}

pub(crate) fn list(path: &str) -> Result<Reply, Failure> {
    let folder = std::fs::read_dir(whole_path(path)?).map_err(|error| explain(path, &error))?;
    let mut entries = Vec::new();
    for entry in folder {
        let entry = entry.map_err(|error| explain(path, &error))?;
        // It may be gone by now.
        let Ok(metadata) = entry.metadata() else { continue };
        if entries.len() == MOST_ENTRIES {
            let message = format!("`{path}` has more than {MOST_ENTRIES} entries");
            return Err(Failure::new(Cause::TooLarge, message));
        }
        let kind = match metadata.file_type() {
            kind if kind.is_symlink() => EntryKind::Link,
            kind if kind.is_dir() => EntryKind::Folder,
            kind if kind.is_file() && !kind.is_fifo() => EntryKind::File,
            _ => EntryKind::Other,
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push(Entry { name, kind, size: metadata.len(), mode: metadata.mode() & 0o7777 });
    }
    entries.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(Reply::Entries(entries))
}

pub(crate) fn remove(path: &str) -> Result<Reply, Failure> {
    let inside = whole_path(path)?;
    let metadata = std::fs::symlink_metadata(inside).map_err(|error| explain(path, &error))?;
    let removed = if metadata.is_dir() {
        std::fs::remove_dir_all(inside)
    } else {
        std::fs::remove_file(inside)
    };
    removed.map(|()| Reply::Done).map_err(|error| explain(path, &error))
}

/// Whether nothing more can be written in a folder.
pub(crate) fn is_full(path: &str) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| {
        fs.f_blocks > 0 && (fs.f_bavail == 0 || (fs.f_files > 0 && fs.f_ffree == 0))
    })
}

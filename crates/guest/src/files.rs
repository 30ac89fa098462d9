//! File operations in the sandbox on behalf of the host: write, read, list and remove.
//!
//! Programs may have created hostile entries: links, blocking pipes, devices, magic links into `/proc`. Therefore the
//! guest agent acts as the programs' user, follows no magic links, never blocks on open, and uses only regular files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use assize_protocol::{
    CODE, FolderEntry, FolderEntryKind, Frame, GuestFailure, GuestFailureCause, GuestReply,
    StreamId, WINDOW, port,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::channel::HostChannel;

/// Maximum number of entries in a folder listing.
const MAX_ENTRIES: usize = 4000;

fn explain(path: &str, error: &std::io::Error) -> GuestFailure {
    use std::io::ErrorKind as Kind;
    let cause = match error.kind() {
        Kind::NotFound => GuestFailureCause::NotFound,
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => GuestFailureCause::Denied,
        Kind::StorageFull | Kind::QuotaExceeded => GuestFailureCause::Full,
        Kind::FileTooLarge => GuestFailureCause::TooLarge,
        Kind::NotADirectory | Kind::IsADirectory => GuestFailureCause::WrongKind,
        Kind::InvalidInput => GuestFailureCause::Invalid,
        _ => GuestFailureCause::Other,
    };
    GuestFailure::new(cause, format!("file operation on `{path}` failed: {error}"))
}

fn check_absolute(path: &str) -> Result<&Path, GuestFailure> {
    let inside = Path::new(path);
    let plain = inside.is_absolute()
        && !path.contains('\0')
        && !inside.components().any(|part| part == std::path::Component::ParentDir);
    if plain {
        Ok(inside)
    } else {
        Err(GuestFailure::new(
            GuestFailureCause::Invalid,
            format!("invalid path `{path}`: it must be absolute and must not contain `..`"),
        ))
    }
}

/// Opens a regular file; fails if the path is not a regular file.
fn open(path: &str, flags: OFlags, mode: u32) -> Result<File, GuestFailure> {
    let inside = check_absolute(path)?;
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::openat2(
        CWD,
        inside,
        flags,
        Mode::from_raw_mode(if flags.contains(OFlags::CREATE) { mode } else { 0 }),
        ResolveFlags::NO_MAGICLINKS,
    )
    .map_err(|error| match error {
        // The path is a named pipe without a reader.
        rustix::io::Errno::NXIO => GuestFailure::new(
            GuestFailureCause::WrongKind,
            format!("`{path}` is not a regular file"),
        ),
        error => explain(path, &error.into()),
    })?;
    let file = File::from(fd);
    let metadata = file.metadata().map_err(|error| explain(path, &error))?;
    let in_proc =
        rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC);
    if !metadata.is_file() || in_proc {
        return Err(GuestFailure::new(
            GuestFailureCause::WrongKind,
            format!("`{path}` is not a regular file"),
        ));
    }
    Ok(file)
}

/// Whether the path is one of the [`CODE`] files, which programs cannot change, replace or delete.
pub(crate) fn is_code(path: &str) -> bool {
    CODE.contains(&path)
}

/// Open file in the sandbox to which the guest agent writes the bytes that the host sends.
pub(crate) struct FileWriter {
    path: String,
    file: File,
    failed: Option<GuestFailure>,
}

impl FileWriter {
    /// Opens a code file for writing as the guest agent's user. Programs run as a different user and cannot change or
    /// replace the file, because its folder has the sticky bit. First removes any existing file at this path, which may
    /// be a link that a program has created.
    pub(crate) fn begin_code(path: &str) -> Result<FileWriter, GuestFailure> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(explain(path, &error));
            }
            _ => {}
        }
        // Opening follows no link, and fails if a program has created the file in the meantime.
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = open(path, new, 0o444)?;
        Ok(FileWriter { path: path.to_owned(), file, failed: None })
    }

    /// Empties a code file, so that the guest agent can write it again. Programs see the file through a read-only
    /// mount; `file` is its only writable descriptor.
    pub(crate) fn begin_mounted_code(
        path: &str,
        file: &OwnedFd,
    ) -> Result<FileWriter, GuestFailure> {
        let file = file.try_clone().map(File::from).and_then(|mut file| {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        });
        let file = file.map_err(|error| explain(path, &error))?;
        Ok(FileWriter { path: path.to_owned(), file, failed: None })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn begin(path: &str, mode: u32) -> Result<FileWriter, GuestFailure> {
        if let Some(folder) = check_absolute(path)?.parent() {
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
        Ok(FileWriter { path: path.to_owned(), file, failed: None })
    }

    pub(crate) fn take(&mut self, stream: StreamId, bytes: &[u8], link: &mut HostChannel) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err().map(|error| explain(&self.path, &error));
        }
        Frame::put_credit(link.out(), stream, port::IN, u32::try_from(bytes.len()).unwrap_or(0));
    }

    pub(crate) fn end(self) -> GuestReply {
        match self.failed {
            None => GuestReply::Done,
            Some(failure) => {
                // A failed write must not leave a truncated file.
                let _ = std::fs::remove_file(&self.path).or_else(|_| self.file.set_len(0));
                GuestReply::Failed(failure)
            }
        }
    }
}

/// Open file in the sandbox whose bytes the guest agent sends to the host.
pub(crate) struct FileReader {
    path: String,
    file: File,
    left: u64,
    credit: u32,
}

impl FileReader {
    pub(crate) fn begin(path: &str, limit: u64) -> Result<FileReader, GuestFailure> {
        let file = open(path, OFlags::RDONLY, 0)?;
        let size = file.metadata().map_err(|error| explain(path, &error))?.len();
        if size > limit {
            let message = format!("`{path}` is too large: {size} bytes (limit {limit})");
            return Err(GuestFailure::new(GuestFailureCause::TooLarge, message));
        }
        Ok(FileReader { path: path.to_owned(), file, left: size, credit: WINDOW })
    }

    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes);
    }

    pub(crate) fn can_send(&self) -> bool {
        self.credit > 0
    }

    /// Sends the next chunk of the file. Returns the final reply after the last chunk or on failure.
    pub(crate) fn send(
        &mut self,
        stream: StreamId,
        buffer: &mut [u8],
        link: &mut HostChannel,
    ) -> Option<GuestReply> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let size = buffer.len().min(self.credit as usize).min(left);
        match self.file.read(&mut buffer[..size]) {
            // A program may have truncated the file since it was opened.
            Ok(0) => Some(GuestReply::Done),
            Ok(count) => {
                self.left -= count as u64;
                self.credit -= u32::try_from(count).unwrap_or(0);
                Frame::put_data(link.out(), stream, port::OUT, &buffer[..count]);
                (self.left == 0).then_some(GuestReply::Done)
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
            Err(error) => Some(GuestReply::Failed(explain(&self.path, &error))),
        }
    }
}

pub(crate) fn list(path: &str) -> Result<GuestReply, GuestFailure> {
    let folder = std::fs::read_dir(check_absolute(path)?).map_err(|error| explain(path, &error))?;
    let mut entries = Vec::new();
    for entry in folder {
        let entry = entry.map_err(|error| explain(path, &error))?;
        // A program may have removed the entry after it was listed.
        let Ok(metadata) = entry.metadata() else { continue };
        if entries.len() == MAX_ENTRIES {
            let message = format!("`{path}` has more than {MAX_ENTRIES} entries");
            return Err(GuestFailure::new(GuestFailureCause::TooLarge, message));
        }
        let kind = match metadata.file_type() {
            kind if kind.is_symlink() => FolderEntryKind::Link,
            kind if kind.is_dir() => FolderEntryKind::Folder,
            kind if kind.is_file() && !kind.is_fifo() => FolderEntryKind::File,
            _ => FolderEntryKind::Other,
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push(FolderEntry {
            name,
            kind,
            size: metadata.len(),
            mode: metadata.mode() & 0o7777,
        });
    }
    entries.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(GuestReply::Entries(entries))
}

pub(crate) fn remove(path: &str) -> Result<GuestReply, GuestFailure> {
    let inside = check_absolute(path)?;
    let metadata = std::fs::symlink_metadata(inside).map_err(|error| explain(path, &error))?;
    let removed = if metadata.is_dir() {
        std::fs::remove_dir_all(inside)
    } else {
        std::fs::remove_file(inside)
    };
    removed.map(|()| GuestReply::Done).map_err(|error| explain(path, &error))
}

/// Whether the file system of a path has no free blocks or no free inodes.
pub(crate) fn is_full(path: &str) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| {
        fs.f_blocks > 0 && (fs.f_bavail == 0 || (fs.f_files > 0 && fs.f_ffree == 0))
    })
}

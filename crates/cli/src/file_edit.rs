//! Edits configuration files, one edit at a time. Each edit is atomic: after a crash, the file has its old or new text.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind};
use rustix::fs::{FlockOperation, flock};

/// Maximum size of an edited file, in bytes. The maximum is large, because some MCP clients also store their history in
/// their configuration file.
const MAX_SIZE: u64 = 64 << 20;

/// A configuration file that is edited.
pub(crate) struct EditedFile<'a> {
    pub(crate) path: &'a Path,
    /// Permissions of the file if it does not exist yet.
    pub(crate) new_mode: u32,
    /// Whether the old text is copied to a file whose name ends in `.assize-backup`.
    pub(crate) backup: bool,
}

/// Result of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileEdit {
    Unchanged,
    /// The file was replaced. `backup` is the copy of its old text, if there is one.
    Replaced {
        backup: Option<PathBuf>,
    },
}

impl EditedFile<'_> {
    /// Replaces the text of the file. `change` receives the current text (empty if the file does not exist) and returns
    /// the new text, or `None` to leave the file unchanged.
    ///
    /// If the file is a symlink, for example to a file in a dotfiles repository, the target of the symlink is replaced.
    /// An existing file keeps its owner and its permissions.
    pub(crate) fn replace(
        &self,
        change: impl FnOnce(&str) -> Result<Option<String>, Failure>,
    ) -> Result<FileEdit, Failure> {
        let path = resolved(self.path);
        let folder = path.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
        let failed = |error: io::Error| {
            let message = format!("cannot write `{}`: {error}", path.display());
            Failure::new(FailureKind::Environment, message)
                .hint("make the file and its folder writable for you")
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        // The lock serializes concurrent edits, so that each edit reads the result of the previous one.
        let lock = File::open(&folder).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let old = read(&path).map_err(|why| {
            let message = format!("cannot read `{}`: {why}", path.display());
            Failure::new(FailureKind::Settings, message)
        })?;
        let Some(new) = change(old.as_deref().unwrap_or_default())? else {
            return Ok(FileEdit::Unchanged);
        };
        let meta = fs::metadata(&path).ok();
        let write = |path: &Path, text: &str| -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&folder)?;
            file.write_all(text.as_bytes())?;
            if let Some(meta) = &meta {
                fchown(file.as_file(), Some(meta.uid()), Some(meta.gid()))?;
            }
            let mode = meta.as_ref().map_or(self.new_mode, |meta| meta.permissions().mode());
            file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        let backup = match old.filter(|_| self.backup) {
            Some(old) => {
                let mut name = path.as_os_str().to_owned();
                name.push(".assize-backup");
                write(Path::new(&name), &old).map_err(failed)?;
                Some(name.into())
            }
            None => None,
        };
        write(&path, &new).map_err(failed)?;
        Ok(FileEdit::Replaced { backup })
    }
}

/// Resolves the symlinks in a path, even if the last symlink points to a file that does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    match (path.canonicalize(), fs::read_link(path)) {
        (Ok(path), _) => path,
        (Err(_), Ok(target)) => path.parent().unwrap_or(path).join(target),
        (Err(_), Err(_)) => path.to_owned(),
    }
}

/// Reads a regular file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, String> {
    // Only regular files are opened: opening a named pipe could block forever.
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err("not a regular file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(format!("larger than {} MiB", MAX_SIZE >> 20));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "not UTF-8 text".to_owned())
}

//! Edits of configuration files: one at a time, and atomic, so that a crash leaves either the old or the new text.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use assize_config::file::read_text;
use assize_types::{Failure, FailureKind};
use rustix::fs::{FlockOperation, flock};

/// A configuration file that is edited.
pub(crate) struct EditedFile<'a> {
    pub(crate) path: &'a Path,
    /// Permissions of the file if it does not exist yet.
    pub(crate) new_mode: u32,
    /// Whether the old text is copied to the file of [`backup_path`].
    pub(crate) backup: bool,
}

/// Path of the copy of a file's old text.
pub(crate) fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".assize-backup");
    name.into()
}

impl EditedFile<'_> {
    /// Replaces the text of the file. `change` receives the current text (empty if the file does not exist) and returns
    /// the new text, or `None` to leave the file as it is. Returns whether the file was replaced.
    ///
    /// If the file is a symlink, for example into a repository of settings, the target of the symlink is replaced.
    pub(crate) fn replace(
        &self,
        change: impl FnOnce(&str) -> Result<Option<String>, Failure>,
    ) -> Result<bool, Failure> {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.to_owned());
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
        let old = read_text(&path)?;
        let Some(new) = change(old.as_deref().unwrap_or_default())? else { return Ok(false) };
        let permissions = match fs::metadata(&path) {
            Ok(meta) => meta.permissions(),
            Err(_) => fs::Permissions::from_mode(self.new_mode),
        };
        let write = |path: &Path, text: &str| -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().set_permissions(permissions.clone())?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        if let Some(old) = old.filter(|_| self.backup) {
            write(&backup_path(&path), &old).map_err(failed)?;
        }
        write(&path, &new).map_err(failed)?;
        Ok(true)
    }
}

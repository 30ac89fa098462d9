//! Working files that outlive a run: a folder, changed as a whole after each execution.
//!
//! Sandboxes never see the folder itself. Its files are given to each fresh one, and what is there at
//! its end takes their place in one step, so that whoever is killed leaves the old ones or the new ones.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

const FILES: &str = "files";
const LOCK: &str = "lock";
const UNFINISHED: &str = ".new-";

/// The deepest folder, and the most files.
const DEEPEST: usize = 16;
const MOST_FILES: usize = 1000;

/// A session that this process has for itself.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    /// Held as long as it is used.
    _lock: File,
}

/// A session that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("`{0}` is no name for a session: use letters, digits, `-` and `_`, 60 at most")]
    Name(String),
    #[error("another run is using the session `{0}`")]
    InUse(String),
    #[error("the files of the session cannot be used: {0}")]
    Files(#[from] io::Error),
    #[error("the files of the session have more than {0} bytes, which a sandbox has room for")]
    TooLarge(u64),
    #[error("the session has more than {MOST_FILES} files, or they are in too many folders")]
    TooMany,
}

impl Session {
    /// Opens a session, or begins it.
    ///
    /// # Errors
    /// When somebody else has it, or its folder cannot be used.
    pub fn open(root: &Path, name: &str) -> Result<Session, SessionError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !(1..=60).contains(&name.len()) || !name.chars().all(plain) {
            return Err(SessionError::Name(assize_types::text::shorten(name, 60)));
        }
        let folder = root.join(name);
        fs::create_dir_all(folder.join(FILES))?;
        let options = File::options().create(true).truncate(false).write(true).clone();
        let lock = options.open(folder.join(LOCK))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(SessionError::InUse(name.to_owned()));
        }
        // Whoever began them was killed.
        for entry in fs::read_dir(&folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Session { folder, _lock: lock })
    }

    /// The folder with its files.
    pub fn folder(&self) -> PathBuf {
        self.folder.join(FILES)
    }

    /// Its files, by name, at most so many bytes. Links and what is no plain file are left.
    pub(crate) fn files(&self, most: u64) -> Result<Vec<(String, Vec<u8>)>, SessionError> {
        let root = self.folder();
        let mut files = Vec::new();
        let mut room = most;
        let mut folders = vec![(root.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            if depth > DEEPEST {
                return Err(SessionError::TooMany);
            }
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push((entry.path(), depth + 1));
                    continue;
                }
                let path = entry.path();
                let name = path.strip_prefix(&root).ok().and_then(Path::to_str);
                let Some(name) = name.filter(|_| kind.is_file()) else { continue };
                let size = entry.metadata()?.len();
                room = room.checked_sub(size).ok_or(SessionError::TooLarge(most))?;
                files.push((name.to_owned(), fs::read(&path)?));
                if files.len() > MOST_FILES {
                    return Err(SessionError::TooMany);
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Puts these files in the place of all that were there.
    pub(crate) fn commit(&self, files: &[(String, Vec<u8>)]) -> Result<(), SessionError> {
        let next = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder)?;
        for (name, bytes) in files {
            let path = next.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(next.path()))?;
            fs::write(path, bytes)?;
        }
        let exchanged = renameat_with(CWD, next.path(), CWD, self.folder(), RenameFlags::EXCHANGE);
        // What was there before goes with the temporary folder.
        exchanged.map_err(|error| SessionError::Files(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_change_as_a_whole_and_one_has_them_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let session = Session::open(root.path(), "notes").unwrap();
        assert!(session.files(100).unwrap().is_empty());
        let files = |names: &[&str]| -> Vec<(String, Vec<u8>)> {
            names.iter().map(|name| ((*name).to_owned(), name.as_bytes().to_vec())).collect()
        };
        session.commit(&files(&["a", "b/c"])).unwrap();
        assert_eq!(session.files(100).unwrap(), files(&["a", "b/c"]));
        session.commit(&files(&["d"])).unwrap();
        assert_eq!(session.files(100).unwrap(), files(&["d"]));
        assert!(matches!(session.files(0), Err(SessionError::TooLarge(0))));
        let other = Session::open(root.path(), "notes");
        assert!(matches!(other, Err(SessionError::InUse(_))));
        // What a killed process had begun is gone, and what it had not begun is there.
        let begun = session.folder.join(".new-x");
        fs::create_dir(&begun).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", session.folder().join("link")).unwrap();
        drop(session);
        let again = Session::open(root.path(), "notes").unwrap();
        assert!(!begun.exists());
        assert_eq!(again.files(100).unwrap(), files(&["d"]));
        for wrong in ["", "..", "a/b", "é", &"x".repeat(61)] {
            assert!(matches!(Session::open(root.path(), wrong), Err(SessionError::Name(_))));
        }
    }
}

//! Sessions: files that are shared by the programs of several runs. A session is a folder on the host that is replaced
//! as a whole after each execution.
//!
//! Sandboxes never access the folder itself. The session's files are copied into each new sandbox. After the execution,
//! the files in the sandbox replace the session's files atomically, so that a killed process leaves either the old or
//! the new files.

use assize_types::{Failure, FailureKind, Fingerprint};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

/// Name of the folder with the files of a session.
const FILES: &str = "files";

/// Name of the lock file of a session.
const LOCK: &str = "lock";

/// Name prefix of the temporary folders in which new files are prepared.
const UNFINISHED: &str = ".new-";

/// Maximum depth of folders in a session.
const MAX_DEPTH: usize = 16;

/// Maximum number of files in a session.
const MAX_FILES: usize = 5000;

/// Session that this process has opened and locked.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    /// Lock file, locked while the session is open.
    _lock: File,
}

/// Error of opening, reading or changing a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("invalid session name `{0}`: use at most 60 letters, digits, `-` and `_`")]
    Name(String),
    #[error("another run is using the session `{0}`")]
    InUse(String),
    #[error("cannot access the files of the session")]
    Files(#[from] io::Error),
    #[error(
        "the files of the session `{name}` exceed the sandbox's disk limit of {} MB",
        most >> 20
    )]
    TooLarge { name: String, most: u64 },
    #[error("the session has more than {MAX_FILES} files, or more than {MAX_DEPTH} folder levels")]
    TooMany,
    #[error("another run has changed the files of the session since the program ran")]
    Changed,
}

/// Computes the fingerprint of a set of files from their names and contents. The files must be sorted by name.
pub(crate) fn fingerprint<'a>(
    files: impl Iterator<Item = (&'a String, Fingerprint)>,
) -> Fingerprint {
    let lines: Vec<String> = files.map(|(name, sha256)| format!("{sha256} {name}\n")).collect();
    Fingerprint::of(lines.concat())
}

pub(crate) fn fingerprint_of(files: &[(String, Vec<u8>)]) -> Fingerprint {
    fingerprint(files.iter().map(|(name, bytes)| (name, Fingerprint::of(bytes))))
}

impl Session {
    /// Opens and locks a session; creates the session if it does not exist.
    pub fn open(root: &Path, name: &str) -> Result<Session, SessionError> {
        let folder = root.join(checked(name)?);
        fs::create_dir_all(folder.join(FILES))?;
        let options = File::options().create(true).truncate(false).write(true).clone();
        let lock = options.open(folder.join(LOCK))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(SessionError::InUse(name.to_owned()));
        }
        // Remove the temporary folders of killed processes.
        for entry in fs::read_dir(&folder)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Session { folder, _lock: lock })
    }

    /// Returns the names of all sessions, sorted.
    pub fn names(root: &Path) -> Result<Vec<String>, SessionError> {
        let entries = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| checked(name).is_ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the names and sizes of a session's files, without locking the session; `None` if the session does not
    /// exist.
    pub fn list_files(root: &Path, name: &str) -> Result<Option<Vec<(String, u64)>>, SessionError> {
        let folder = root.join(checked(name)?).join(FILES);
        if !folder.is_dir() {
            return Ok(None);
        }
        let mut files = Vec::new();
        each_file(&folder, |name, _, bytes| {
            files.push((name, bytes));
            Ok(())
        })?;
        files.sort();
        Ok(Some(files))
    }

    /// Reads a file of a session, without locking the session; `None` if the file does not exist.
    pub fn read(root: &Path, name: &str, file: &str) -> Result<Option<Vec<u8>>, SessionError> {
        let folder = root.join(checked(name)?).join(FILES);
        let mut found = None;
        if folder.is_dir() {
            // Compare the name with existing files instead of opening it as a path, which could be outside the folder.
            each_file(&folder, |name, path, _| {
                if name == file {
                    found = Some(fs::read(path)?);
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Removes the session with all its files.
    pub fn remove(self) -> Result<(), SessionError> {
        // Remove the lock file last, so that no other process can open the session during the removal.
        fs::remove_dir_all(self.folder())?;
        Ok(fs::remove_dir_all(&self.folder)?)
    }

    /// Returns the path of the folder with the session's files.
    pub fn folder(&self) -> PathBuf {
        self.folder.join(FILES)
    }

    /// Reads all regular files of the session, sorted by name. Skips links and special files. Fails if the files have
    /// more than `most` bytes in total.
    pub(crate) fn files(&self, most: u64) -> Result<Vec<(String, Vec<u8>)>, SessionError> {
        let mut files = Vec::new();
        let mut room = most;
        each_file(&self.folder(), |name, path, size| {
            room = room.checked_sub(size).ok_or_else(|| {
                let name = self.folder.file_name().unwrap_or_default();
                SessionError::TooLarge { name: name.to_string_lossy().into_owned(), most }
            })?;
            files.push((name, fs::read(path)?));
            if files.len() > MAX_FILES {
                return Err(SessionError::TooMany);
            }
            Ok(())
        })?;
        files.sort();
        Ok(files)
    }

    /// Replaces all files of the session with the given files, atomically.
    pub(crate) fn commit(&self, files: &[(String, Vec<u8>)]) -> Result<(), SessionError> {
        let next = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.folder)?;
        for (name, bytes) in files {
            let path = next.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(next.path()))?;
            fs::write(path, bytes)?;
        }
        let exchanged = renameat_with(CWD, next.path(), CWD, self.folder(), RenameFlags::EXCHANGE);
        // After the exchange, the temporary folder contains the old files and is deleted with them.
        exchanged.map_err(|error| SessionError::Files(error.into()))
    }
}

/// Checks that a session name is a valid folder name.
fn checked(name: &str) -> Result<&str, SessionError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !(1..=60).contains(&name.len()) || !name.chars().all(plain) {
        return Err(SessionError::Name(assize_types::text::shorten(name, 60)));
    }
    Ok(name)
}

/// Calls `visit` for each regular file in a folder tree, with its relative name, path and size.
fn each_file(
    root: &Path,
    mut visit: impl FnMut(String, &Path, u64) -> Result<(), SessionError>,
) -> Result<(), SessionError> {
    let mut folders = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if depth > MAX_DEPTH {
            return Err(SessionError::TooMany);
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                folders.push((path, depth + 1));
                continue;
            }
            let name = path.strip_prefix(root).ok().and_then(Path::to_str);
            if let Some(name) = name.filter(|_| kind.is_file()) {
                visit(name.to_owned(), &path, entry.metadata()?.len())?;
            }
        }
    }
    Ok(())
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        let kind = match &error {
            SessionError::Files(_) | SessionError::Changed => FailureKind::Environment,
            _ => FailureKind::Usage,
        };
        let failure = Failure::from_error(kind, &error);
        match error {
            SessionError::InUse(_) => {
                failure.hint("wait until the other run that uses the session has ended, or use another session")
            }
            SessionError::TooLarge { .. } => failure.hint(
                "raise `--disk`, or delete session files; `assize sessions show NAME` prints the session's folder",
            ),
            SessionError::TooMany => {
                failure.hint("delete session files; `assize sessions show NAME` prints the session's folder")
            }
            SessionError::Changed => {
                failure.hint("start a new run; another run has changed the session's files since this run used them")
            }
            SessionError::Name(_) | SessionError::Files(_) => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_files_are_replaced_atomically_under_an_exclusive_lock() {
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
        assert!(matches!(session.files(0), Err(SessionError::TooLarge { most: 0, .. })));
        let seen = Some(vec![("d".to_owned(), 1)]);
        assert_eq!(Session::list_files(root.path(), "notes").unwrap(), seen);
        assert_eq!(Session::list_files(root.path(), "none").unwrap(), None);
        let read = |file: &str| Session::read(root.path(), "notes", file).unwrap();
        assert_eq!(read("d"), Some(b"d".to_vec()));
        for other in ["a", "../lock", "", "/", "."] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Session::read(root.path(), "none", "d").unwrap(), None);
        let other = Session::open(root.path(), "notes");
        assert!(matches!(other, Err(SessionError::InUse(_))));
        // Opening removes the unfinished folder of a killed process, and keeps the committed files.
        let unfinished = session.folder.join(".new-x");
        fs::create_dir(&unfinished).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", session.folder().join("link")).unwrap();
        drop(session);
        let again = Session::open(root.path(), "notes").unwrap();
        assert!(!unfinished.exists());
        assert_eq!(again.files(100).unwrap(), files(&["d"]));
        again.remove().unwrap();
        assert_eq!(Session::names(root.path()).unwrap(), [] as [String; 0]);
        for wrong in ["", "..", "a/b", "é", &"x".repeat(61)] {
            assert!(matches!(Session::open(root.path(), wrong), Err(SessionError::Name(_))));
        }
    }
}

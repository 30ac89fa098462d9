//! Working files that outlive a run: a folder, changed as a whole after each execution.
//!
//! Sandboxes never see the folder itself. Its files are given to each fresh one, and what is there at
//! its end takes their place in one step, so that whoever is killed leaves the old ones or the new ones.

use assize_types::{Failure, FailureKind, Fingerprint};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

const FILES: &str = "files";
const LOCK: &str = "lock";
const UNFINISHED: &str = ".new-";

/// The deepest folder, and the most files.
const DEEPEST: usize = 16;
const MOST_FILES: usize = 5000;

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
    #[error("the files of the session cannot be used")]
    Files(#[from] io::Error),
    #[error(
        "the files of the session `{name}` take more room than the {} MB of the sandbox",
        most >> 20
    )]
    TooLarge { name: String, most: u64 },
    #[error("the session has more than {MOST_FILES} files, or they are in too many folders")]
    TooMany,
    #[error("another run has changed the files of the session since the program ran")]
    Changed,
}

/// What tells files apart from others: their names and contents, in order of names.
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
    /// Opens a session, or begins it.
    pub fn open(root: &Path, name: &str) -> Result<Session, SessionError> {
        let folder = root.join(checked(name)?);
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

    /// The names of all sessions, in order.
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

    /// The files of a session and their sizes, whoever has it; `None` if there is no such session.
    pub fn look(root: &Path, name: &str) -> Result<Option<Vec<(String, u64)>>, SessionError> {
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

    /// One file of a session, whoever has that; `None` if there is none of that name.
    pub fn read(root: &Path, name: &str, file: &str) -> Result<Option<Vec<u8>>, SessionError> {
        let folder = root.join(checked(name)?).join(FILES);
        let mut found = None;
        if folder.is_dir() {
            // Only what was gone through: a name that was sent is never a path.
            each_file(&folder, |name, path, _| {
                if name == file {
                    found = Some(fs::read(path)?);
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Removes it with all its files.
    pub fn remove(self) -> Result<(), SessionError> {
        // The lock goes last: until then nobody else begins it anew.
        fs::remove_dir_all(self.folder())?;
        Ok(fs::remove_dir_all(&self.folder)?)
    }

    /// The folder with its files.
    pub fn folder(&self) -> PathBuf {
        self.folder.join(FILES)
    }

    /// Its files, by name, at most so many bytes. Links and what is no plain file are left.
    pub(crate) fn files(&self, most: u64) -> Result<Vec<(String, Vec<u8>)>, SessionError> {
        let mut files = Vec::new();
        let mut room = most;
        each_file(&self.folder(), |name, path, size| {
            room = room.checked_sub(size).ok_or_else(|| {
                let name = self.folder.file_name().unwrap_or_default();
                SessionError::TooLarge { name: name.to_string_lossy().into_owned(), most }
            })?;
            files.push((name, fs::read(path)?));
            if files.len() > MOST_FILES {
                return Err(SessionError::TooMany);
            }
            Ok(())
        })?;
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

/// A name that can be a folder's.
fn checked(name: &str) -> Result<&str, SessionError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !(1..=60).contains(&name.len()) || !name.chars().all(plain) {
        return Err(SessionError::Name(assize_types::text::shorten(name, 60)));
    }
    Ok(name)
}

/// Goes through the plain files of a folder: name, path, size.
fn each_file(
    root: &Path,
    mut see: impl FnMut(String, &Path, u64) -> Result<(), SessionError>,
) -> Result<(), SessionError> {
    let mut folders = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        if depth > DEEPEST {
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
                see(name.to_owned(), &path, entry.metadata()?.len())?;
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
            SessionError::InUse(_) => failure.hint("wait for it, or name another"),
            SessionError::TooLarge { .. } => failure.hint(
                "allow more with `--disk`, or remove some: `assize sessions show NAME` says where they are",
            ),
            SessionError::TooMany => {
                failure.hint("remove some: `assize sessions show NAME` says where they are")
            }
            SessionError::Changed => {
                failure.hint("start a new run: this one knows nothing of what has changed")
            }
            SessionError::Name(_) | SessionError::Files(_) => failure,
        }
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
        assert!(matches!(session.files(0), Err(SessionError::TooLarge { most: 0, .. })));
        let seen = Some(vec![("d".to_owned(), 1)]);
        assert_eq!(Session::look(root.path(), "notes").unwrap(), seen);
        assert_eq!(Session::look(root.path(), "none").unwrap(), None);
        let read = |file: &str| Session::read(root.path(), "notes", file).unwrap();
        assert_eq!(read("d"), Some(b"d".to_vec()));
        for other in ["a", "../lock", "", "/", "."] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Session::read(root.path(), "none", "d").unwrap(), None);
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
        again.remove().unwrap();
        assert_eq!(Session::names(root.path()).unwrap(), [] as [String; 0]);
        for wrong in ["", "..", "a/b", "é", &"x".repeat(61)] {
            assert!(matches!(Session::open(root.path(), wrong), Err(SessionError::Name(_))));
        }
    }
}

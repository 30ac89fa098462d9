//! Registry of the sandboxes of this user on this machine, and of the processes that created them.
//!
//! Every process that creates sandboxes (their *owner*) has one folder in the registry. The folder contains a lock
//! file, which the owner keeps locked as long as it lives, a socket through which other processes use its sandboxes,
//! and a record of each named sandbox. If a process finds a folder whose lock file is not locked, the owner is dead,
//! and the process that found the folder removes the owner's sandboxes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assize_config::Isolation;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::SandboxError;
use crate::spec::SandboxSpec;

const LOCK: &str = "lock";
const SOCKET: &str = "socket";
/// Name prefix of a registry folder that is being created.
const UNFINISHED: &str = ".new-";
/// Name prefix of the registry folder of a dead process, while it is being cleaned up or if the cleanup failed.
const GONE: &str = ".gone-";
/// Age after which an unfinished registry folder counts as abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// Key of a named sandbox: its run and its name. Two runs never share a sandbox, even if they use the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SandboxKey {
    /// The run that the sandbox belongs to; `None` for sandboxes that users create directly.
    pub run: Option<String>,
    pub name: String,
}

impl SandboxKey {
    /// Creates a key if the name is valid: 1 to 63 lower-case letters, digits and inner `-`.
    pub fn new(run: Option<&str>, name: &str) -> Result<SandboxKey, SandboxError> {
        let fits = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !fits {
            return Err(SandboxError::InvalidName(name.to_owned()));
        }
        Ok(SandboxKey { run: run.map(str::to_owned), name: name.to_owned() })
    }
}

/// Registry entry of a named sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    #[serde(flatten)]
    pub key: SandboxKey,
    pub id: String,
    pub isolation: Isolation,
    pub spec: SandboxSpec,
    /// Process id of the process that created the sandbox.
    pub pid: u32,
    pub created: u64,
    pub expires: u64,
}

impl SandboxRecord {
    /// Whether the sandbox has the requested isolation, image, layers and limits. Labels, region and lifetime are not
    /// compared.
    pub fn matches_request(&self, spec: &SandboxSpec, isolation: Isolation) -> bool {
        let SandboxSpec { image, layers, limits, .. } = spec;
        let same =
            (&self.spec.image, &self.spec.layers, &self.spec.limits) == (image, layers, limits);
        same && self.isolation == isolation
    }

    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(name, value)| self.spec.labels.get(name) == Some(value))
    }
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> SandboxError {
    let what = format!("{what} `{}`", path.display());
    move |error| SandboxError::failed(what, error)
}

/// The sandbox registry of this user, with the folder of this process in it.
#[derive(Debug)]
pub(crate) struct SandboxRegistry {
    root: PathBuf,
    own: Own,
}

/// Registry folder of this process. It is removed when this value is dropped.
#[derive(Debug)]
struct Own {
    creator: String,
    folder: PathBuf,
    /// Lock file of the folder. The lock is held as long as this process lives.
    lock: Option<File>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // It takes the kernel longer to delete a file that is open. If another process sees the folder without its lock,
        // that process deletes it.
        self.lock = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Registry folder of a dead process. This process has locked the folder for cleanup and renamed it, so that other
/// processes ignore it.
#[derive(Debug)]
pub(crate) struct DeadOwner {
    pub(crate) creator: String,
    folder: PathBuf,
    _lock: File,
}

impl DeadOwner {
    /// Whether the dead process created sandboxes with this backend.
    pub(crate) fn used(&self, isolation: Isolation) -> bool {
        self.folder.join(isolation.name()).exists()
    }

    /// Removes the folder after a complete cleanup.
    pub(crate) fn forget(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }

    /// Unlocks the folder, so that the next process retries the cleanup.
    pub(crate) fn unlock(self) {}
}

impl SandboxRegistry {
    /// Creates and locks the folder of this process in the registry `root`.
    pub(crate) fn join(root: &Path) -> Result<SandboxRegistry, SandboxError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(root).map_err(failed("creating", root))?;
        // The owner is checked, because records in this folder are trusted and its sockets receive files and programs.
        let owner = fs::metadata(root).map_err(failed("inspecting", root))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            let foreign = io::Error::other("the folder belongs to another user");
            return Err(failed("using", root)(foreign));
        }
        let maker: String = std::iter::repeat_with(fastrand::alphanumeric).take(10).collect();
        let maker = maker.to_lowercase();
        // The folder gets its final name only after it is locked, so that it never looks like the folder of a dead
        // process.
        let unfinished = root.join(format!("{UNFINISHED}{maker}"));
        builder.recursive(false).create(&unfinished).map_err(failed("creating", &unfinished))?;
        let path = unfinished.join(LOCK);
        let lock = File::create_new(&path).map_err(failed("creating", &path))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| failed("locking", &path)(error.into()))?;
        let folder = root.join(&maker);
        fs::rename(&unfinished, &folder).map_err(failed("creating", &folder))?;
        Ok(SandboxRegistry {
            root: root.to_owned(),
            own: Own { creator: maker, folder, lock: Some(lock) },
        })
    }

    pub(crate) fn creator(&self) -> &str {
        &self.own.creator
    }

    /// Path of the socket through which other processes use the sandboxes of this process.
    pub(crate) fn socket_path(&self) -> PathBuf {
        self.own.folder.join(SOCKET)
    }

    /// Locks the registry. No other process can reserve a sandbox name until the returned file is dropped.
    pub(crate) fn lock(&self) -> Result<File, SandboxError> {
        let path = self.root.join(LOCK);
        let file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed("opening", &path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| failed("locking", &path)(error.into()))?;
        Ok(file)
    }

    /// Records that this process uses a backend, so that its sandboxes of this backend are cleaned up if the process
    /// dies.
    pub(crate) fn note_use(&self, isolation: Isolation) -> Result<(), SandboxError> {
        let path = self.own.folder.join(isolation.name());
        File::create(&path).map(drop).map_err(failed("writing", &path))
    }

    pub(crate) fn record(&self, record: &SandboxRecord) -> Result<(), SandboxError> {
        let path = self.own.folder.join(format!("{}.json", record.id));
        let unfinished = self.own.folder.join(format!("{}.new", record.id));
        let text = serde_json::to_vec(record)
            .map_err(|error| SandboxError::failed("encoding a sandbox record", error))?;
        File::create(&unfinished)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(failed("writing", &path))
    }

    pub(crate) fn forget(&self, id: &str) {
        let _ = fs::remove_file(self.own.folder.join(format!("{id}.json")));
    }

    fn folders(&self) -> Result<Vec<(String, PathBuf)>, SandboxError> {
        let entries = fs::read_dir(&self.root).map_err(failed("reading", &self.root))?;
        let named = entries
            .flatten()
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
        Ok(named.filter(|(_, path)| path.is_dir()).collect())
    }

    /// Finds the registry folders of all dead processes and locks them for cleanup.
    pub(crate) fn claim_dead(&self) -> Result<Vec<DeadOwner>, SandboxError> {
        let mut gone = Vec::new();
        for (name, folder) in self.folders()? {
            if name == self.own.creator || (name.starts_with(UNFINISHED) && !is_old(&folder)) {
                continue;
            }
            let Ok(lock) = File::open(folder.join(LOCK)) else {
                // There is no lock file: the folder was never finished, or another process is removing it.
                if is_old(&folder) {
                    let _ = fs::remove_dir_all(&folder);
                }
                continue;
            };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let maker = name.strip_prefix(GONE).unwrap_or(&name).to_owned();
            let hidden = self.root.join(format!("{GONE}{maker}"));
            if hidden == folder || fs::rename(&folder, &hidden).is_ok() {
                gone.push(DeadOwner { creator: maker, folder: hidden, _lock: lock });
            }
        }
        Ok(gone)
    }

    /// Registry folders of the processes that are alive.
    fn alive(&self) -> Result<Vec<PathBuf>, SandboxError> {
        let mut folders = self.folders()?;
        folders.retain(|(name, folder)| {
            let is_alive = || {
                let lock = File::open(folder.join(LOCK));
                // The owner holds an exclusive lock. The check requests a shared lock, so that concurrent checks of
                // several processes do not disturb each other.
                lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
            };
            *name == self.own.creator || (!name.starts_with('.') && is_alive())
        });
        Ok(folders.into_iter().map(|(_, folder)| folder).collect())
    }

    /// All named sandboxes of live processes, each with the socket of its process.
    pub(crate) fn records(&self) -> Result<Vec<(SandboxRecord, PathBuf)>, SandboxError> {
        let mut records = Vec::new();
        for folder in self.alive()? {
            let files =
                fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
            for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "json"))
            {
                // The record may have been removed after the folder was listed.
                let Ok(text) = fs::read(&file) else { continue };
                match serde_json::from_slice::<SandboxRecord>(&text) {
                    Ok(record) => records.push((record, folder.join(SOCKET))),
                    Err(error) => {
                        tracing::warn!(file = %file.display(), %error, "cannot read a sandbox record")
                    }
                }
            }
        }
        records.sort_by(|(one, _), (two, _)| (&one.key, &one.id).cmp(&(&two.key, &two.id)));
        Ok(records)
    }
}

fn is_old(path: &Path) -> bool {
    let changed = path.metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > ABANDONED_AFTER))
}

/// Short path `/proc/self/fd/N/NAME` to a Unix socket, where `N` is an open file descriptor of the socket's folder. The
/// path is needed because the kernel accepts at most 107 bytes in the path of a socket.
pub(crate) struct ShortSocketPath {
    path: PathBuf,
    _folder: File,
}

impl ShortSocketPath {
    pub(crate) fn of(socket: &Path) -> io::Result<ShortSocketPath> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let folder = File::open(socket.parent().ok_or_else(missing)?)?;
        let name = socket.file_name().ok_or_else(missing)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(ShortSocketPath { path, _folder: folder })
    }

    pub(crate) fn get(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_finds_dead_processes_and_ignores_live_processes() {
        let folder = tempfile::tempdir().unwrap();
        let ours = SandboxRegistry::join(folder.path()).unwrap();
        let other = SandboxRegistry::join(folder.path()).unwrap();
        other.note_use(Isolation::Docker).unwrap();
        assert_eq!(ours.claim_dead().unwrap().len(), 0);
        // Simulate a killed process: its lock is released, but its folder remains.
        let SandboxRegistry { own, .. } = other;
        let maker = own.creator.clone();
        rustix::fs::flock(own.lock.as_ref().unwrap(), FlockOperation::Unlock).unwrap();
        std::mem::forget(own);
        let gone = ours.claim_dead().unwrap().pop().unwrap();
        assert_eq!(gone.creator, maker);
        assert!(gone.used(Isolation::Docker) && !gone.used(Isolation::Jail));
        // While the folder is being cleaned up, it is not found again. After a failed cleanup, it is found again.
        assert_eq!(ours.claim_dead().unwrap().len(), 0);
        gone.unlock();
        let gone = ours.claim_dead().unwrap().pop().unwrap();
        assert_eq!(gone.creator, maker);
        gone.forget().unwrap();
        assert_eq!(ours.claim_dead().unwrap().len(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(ours);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn invalid_sandbox_names_are_rejected() {
        assert!(SandboxKey::new(None, "negotiate-nvda-m1").is_ok());
        for wrong in ["", "-a", "a-", "A", "a/b", "..", "a b", "ä", &"a".repeat(64)] {
            assert!(SandboxKey::new(None, wrong).is_err(), "{wrong}");
        }
    }
}

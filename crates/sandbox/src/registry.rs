//! Which sandboxes there are on this machine, and who made them.
//!
//! Every process that makes sandboxes has a folder of its own here, with a lock that it holds as long
//! as it lives, a socket through which others reach its sandboxes, and a record of each that has a
//! name. Whoever finds a folder that nobody holds cleans up after its maker.

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
use crate::spec::Spec;

const LOCK: &str = "lock";
const SOCKET: &str = "door";
/// A folder that is being made; one that stays so for long was given up.
const UNFINISHED: &str = ".new-";
/// A folder of a maker that is gone, which somebody cleans up after or could not yet.
const GONE: &str = ".gone-";
const GIVEN_UP: Duration = Duration::from_secs(60);

/// Who a sandbox is: no two runs share one, whatever its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The run it belongs to; none for those that users make by hand.
    pub run: Option<String>,
    pub name: String,
}

impl Key {
    /// A key with a valid name: lower-case letters, digits and `-`.
    pub fn new(run: Option<&str>, name: &str) -> Result<Key, SandboxError> {
        let fits = (1..=63).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !fits {
            return Err(SandboxError::Name(name.to_owned()));
        }
        Ok(Key { run: run.map(str::to_owned), name: name.to_owned() })
    }
}

/// A sandbox, as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    #[serde(flatten)]
    pub key: Key,
    pub id: String,
    pub isolation: Isolation,
    pub spec: Spec,
    /// The process that made it and holds it.
    pub pid: u32,
    pub made: u64,
    pub expires: u64,
}

impl Record {
    /// Whether it is what is asked for; labels and the like are only said about it.
    pub fn is(&self, spec: &Spec, isolation: Isolation) -> bool {
        let Spec { image, layers, limits, .. } = spec;
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

/// Reads and writes the records of one machine.
#[derive(Debug)]
pub(crate) struct Registry {
    root: PathBuf,
    own: Own,
}

/// The folder of this process.
#[derive(Debug)]
struct Own {
    maker: String,
    folder: PathBuf,
    /// Held as long as we live.
    _lock: File,
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A maker that is gone, and whose folder we hold now, out of the others' sight.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) maker: String,
    folder: PathBuf,
    _lock: File,
}

impl Gone {
    /// Whether it made sandboxes with a backend.
    pub(crate) fn used(&self, isolation: Isolation) -> bool {
        self.folder.join(isolation.name()).exists()
    }

    /// Forgets it, once nothing of it is left.
    pub(crate) fn forget(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }

    /// Leaves it to whoever comes next.
    pub(crate) fn leave(self) {}
}

impl Registry {
    /// Joins the makers of this machine, whose folders are in `root`.
    pub(crate) fn join(root: &Path) -> Result<Registry, SandboxError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(root).map_err(failed("making", root))?;
        // What is recorded there is believed, and who listens there is told everything.
        let owner = fs::metadata(root).map_err(failed("looking at", root))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            let foreign = io::Error::other("it belongs to another user");
            return Err(failed("using", root)(foreign));
        }
        let maker: String = std::iter::repeat_with(fastrand::alphanumeric).take(10).collect();
        let maker = maker.to_lowercase();
        // It has its name only once it is locked: nobody takes it for one that is given up.
        let unfinished = root.join(format!("{UNFINISHED}{maker}"));
        builder.recursive(false).create(&unfinished).map_err(failed("making", &unfinished))?;
        let path = unfinished.join(LOCK);
        let lock = File::create_new(&path).map_err(failed("making", &path))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| failed("locking", &path)(error.into()))?;
        let folder = root.join(&maker);
        fs::rename(&unfinished, &folder).map_err(failed("making", &folder))?;
        Ok(Registry { root: root.to_owned(), own: Own { maker, folder, _lock: lock } })
    }

    pub(crate) fn maker(&self) -> &str {
        &self.own.maker
    }

    /// Where others knock.
    pub(crate) fn door(&self) -> PathBuf {
        self.own.folder.join(SOCKET)
    }

    /// Keeps others from making anything while it is held.
    pub(crate) fn hold(&self) -> Result<File, SandboxError> {
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

    /// Notes that something made by this backend may have to be cleaned up after us.
    pub(crate) fn note_use(&self, isolation: Isolation) -> Result<(), SandboxError> {
        let path = self.own.folder.join(isolation.name());
        File::create(&path).map(drop).map_err(failed("writing", &path))
    }

    pub(crate) fn record(&self, record: &Record) -> Result<(), SandboxError> {
        let path = self.own.folder.join(format!("{}.json", record.id));
        let unfinished = self.own.folder.join(format!("{}.new", record.id));
        let text = serde_json::to_vec(record)
            .map_err(|error| SandboxError::failed("keeping a record", error))?;
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

    /// Takes hold of what makers that are gone have left.
    pub(crate) fn gone(&self) -> Result<Vec<Gone>, SandboxError> {
        let mut gone = Vec::new();
        for (name, folder) in self.folders()? {
            if name == self.own.maker || (name.starts_with(UNFINISHED) && !is_old(&folder)) {
                continue;
            }
            let Ok(lock) = File::open(folder.join(LOCK)) else {
                // It was never finished, or is being removed right now.
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
                gone.push(Gone { maker, folder: hidden, _lock: lock });
            }
        }
        Ok(gone)
    }

    /// The folders of makers that are alive.
    fn alive(&self) -> Result<Vec<PathBuf>, SandboxError> {
        let mut folders = self.folders()?;
        folders.retain(|(name, folder)| {
            let is_alive = || {
                let lock = File::open(folder.join(LOCK));
                // Its maker has it for itself; whoever only looks shares it.
                lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
            };
            *name == self.own.maker || (!name.starts_with('.') && is_alive())
        });
        Ok(folders.into_iter().map(|(_, folder)| folder).collect())
    }

    /// All named sandboxes of living makers, with the door of each.
    pub(crate) fn records(&self) -> Result<Vec<(Record, PathBuf)>, SandboxError> {
        let mut records = Vec::new();
        for folder in self.alive()? {
            let files =
                fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
            for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "json"))
            {
                // It may be gone since.
                let Ok(text) = fs::read(&file) else { continue };
                match serde_json::from_slice::<Record>(&text) {
                    Ok(record) => records.push((record, folder.join(SOCKET))),
                    Err(error) => {
                        tracing::warn!(file = %file.display(), %error, "a record cannot be read")
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
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > GIVEN_UP))
}

/// A socket's path, however long the way to its folder: the kernel takes no more than 107 bytes of
/// it, so it is gone by way of the open folder.
pub(crate) struct ShortPath {
    path: PathBuf,
    _folder: File,
}

impl ShortPath {
    pub(crate) fn of(socket: &Path) -> io::Result<ShortPath> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let folder = File::open(socket.parent().ok_or_else(missing)?)?;
        let name = socket.file_name().ok_or_else(missing)?;
        let path = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(ShortPath { path, _folder: folder })
    }

    pub(crate) fn get(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_that_is_gone_is_found_and_a_living_one_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let ours = Registry::join(folder.path()).unwrap();
        let other = Registry::join(folder.path()).unwrap();
        other.note_use(Isolation::Docker).unwrap();
        assert_eq!(ours.gone().unwrap().len(), 0);
        // As if it were killed: its lock is given up, its folder stays.
        let Registry { own, .. } = other;
        let maker = own.maker.clone();
        rustix::fs::flock(&own._lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(own);
        let gone = ours.gone().unwrap().pop().unwrap();
        assert_eq!(gone.maker, maker);
        assert!(gone.used(Isolation::Docker) && !gone.used(Isolation::Jail));
        // Two who find it do not both clean up, and what could not be is found again.
        assert_eq!(ours.gone().unwrap().len(), 0);
        gone.leave();
        let gone = ours.gone().unwrap().pop().unwrap();
        assert_eq!(gone.maker, maker);
        gone.forget().unwrap();
        assert_eq!(ours.gone().unwrap().len(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(ours);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_are_plain() {
        assert!(Key::new(None, "negotiate-nvda-m1").is_ok());
        for wrong in ["", "-a", "a-", "A", "a/b", "..", "a b", "ä", &"a".repeat(64)] {
            assert!(Key::new(None, wrong).is_err(), "{wrong}");
        }
    }
}

//! The store in one SQLite file, in write-ahead mode: readers and the one writer do not wait for
//! each other, and several processes may share the file.

mod rows;
mod schema;
mod store;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use assize_run::StoreError;
use rusqlite::ffi::{ErrorCode, SQLITE_IOERR_SHMSIZE};
use rusqlite::{Connection, OpenFlags};
use tokio::sync::watch;

use worker::{Mode, Worker};

/// How long a process waits for another that makes or changes the tables.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it waits before it tries to open a busy file again.
const PAUSE: Duration = Duration::from_millis(2);

/// What a store survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash or kill of the process, at any moment, loses nothing that was acknowledged. A power
    /// cut or a crash of the system may lose the last moments before it; the file stays sound.
    #[default]
    ProcessCrash,
    /// A power cut, too, loses nothing that was acknowledged, as far as the disk tells the truth.
    /// Every record waits for the disk.
    PowerLoss,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The file must be there. It is brought up to date if it is of an older version, and else not
    /// changed.
    Read,
    /// The file is made if it is not there, and brought up to date if it is of an older version.
    Write(Durability),
}

/// The store in one file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    reader: Worker,
    writer: Option<Worker>,
    /// Told of whenever this process has written something.
    written: Arc<watch::Sender<()>>,
}

impl SqliteStore {
    pub fn open(path: &Path, access: Access) -> Result<SqliteStore, StoreError> {
        let written = Arc::new(watch::Sender::new(()));
        let writer = match access {
            Access::Read => None,
            Access::Write(durability) => {
                create(path).map_err(|error| unopened(path, &error))?;
                let db = open_to_write(path, durability)?;
                let mode = match durability {
                    Durability::ProcessCrash => Mode::Write,
                    Durability::PowerLoss => Mode::WriteToDisk,
                };
                // From here on the worker is patient by itself.
                db.busy_timeout(Duration::ZERO).map_err(|error| explain(path, &error))?;
                Some(Worker::start(path, db, mode, written.clone())?)
            }
        };
        let reader = open_to_read(path)?;
        match identify(path, &reader)? {
            0 => return Err(StoreError::Empty { path: path.to_owned() }),
            // Read as what it has become; where it cannot become anything, that is said.
            older if (older as usize) < schema::STEPS.len() => {
                open_to_write(path, Durability::default())?;
            }
            _ => {}
        }
        let reader = Worker::start(path, reader, Mode::Read, written.clone())?;
        Ok(SqliteStore { path: path.to_owned(), reader, writer, written })
    }

    fn writer(&self) -> Result<&Worker, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly { path: self.path.clone() })
    }
}

fn unopened(path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull => StoreError::Full { path: path.to_owned() },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { path: path.to_owned() }
        }
        _ => StoreError::Unopened { path: path.to_owned(), reason: error.to_string() },
    }
}

/// Makes the file where there is none, for its owner's eyes only: it holds prompts and answers.
fn create(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        options.mode(0o600);
        folder.mode(0o700);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        folder.create(parent)?;
    }
    match options.open(path) {
        // SQLite would open what it cannot write to, and fail later in other words. What is no file
        // at all it leaves to whoever looks next.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match path.is_file() {
            true => fs::OpenOptions::new().write(true).open(path).map(drop),
            false => Ok(()),
        },
        result => result.map(drop),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let reason = "it is not a regular file".to_owned();
        return Err(StoreError::NotAStore { path: path.to_owned(), reason });
    }
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let db = db.map_err(|error| explain(path, &error))?;
    db.busy_timeout(PATIENCE).map_err(|error| explain(path, &error))?;
    identify(path, &db)?;
    Ok(db)
}

/// The version of a store of ours that is not of the future; 0 for an empty file.
fn identify(path: &Path, db: &Connection) -> Result<u32, StoreError> {
    let look = || -> rusqlite::Result<(i32, u32, i64)> {
        // All at one moment: another process may be making the tables right now.
        let _moment = db.unchecked_transaction()?;
        let application = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let tables = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((application, schema::version(db)?, tables))
    };
    let known = schema::STEPS.len() as u32;
    let path = path.to_owned();
    match look().map_err(|error| explain(&path, &error))? {
        (schema::APPLICATION, found, _) if found > known => {
            Err(StoreError::Newer { path, found, known })
        }
        (schema::APPLICATION, found @ 1.., _) => Ok(found),
        (0, 0, 0) => Ok(0),
        _ => {
            let reason = "it is a database of another program".to_owned();
            Err(StoreError::NotAStore { path, reason })
        }
    }
}

fn open_to_write(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match try_open_to_write(path, durability) {
            // SQLite does not wait when two connections switch a new file to WAL at once.
            Err(StoreError::Busy { .. }) if Instant::now() < until => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn try_open_to_write(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut prepare = || -> rusqlite::Result<()> {
        // Room that a removed run leaves is given back; this can only be said of an empty file.
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::ProcessCrash => "NORMAL",
            Durability::PowerLoss => "FULL",
        };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.pragma_update(None, "foreign_keys", true)?;
        // What is removed is gone, and not left lying in the file.
        db.pragma_update(None, "secure_delete", true)?;
        schema::migrate(&mut db, &schema::STEPS)
    };
    prepare().map_err(|error| explain(path, &error))?;
    Ok(db)
}

fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    // Whoever may write also tidies up behind itself when it closes the file.
    if let Ok(db) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        && db.pragma_update(None, "query_only", true).is_ok()
    {
        return Ok(db);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    match connect(path, flags) {
        // Where nothing can be written, not even the index of the write-ahead log can be. Without
        // such a log the file is all there is, and nobody can change it under us.
        Err(
            StoreError::ReadOnly { .. } | StoreError::Unopened { .. } | StoreError::Full { .. },
        ) if path.exists() && !with_suffix(path, "-wal").exists() => {
            connect(&immutable(path)?, flags | OpenFlags::SQLITE_OPEN_URI).map_err(|error| {
                match error {
                    StoreError::Unopened { reason, .. } => {
                        StoreError::Unopened { path: path.to_owned(), reason }
                    }
                    error => error,
                }
            })
        }
        result => result,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The file as an address that says that it does not change.
fn immutable(path: &Path) -> Result<PathBuf, StoreError> {
    let whole = fs::canonicalize(path).map_err(|error| unopened(path, &error))?;
    let mut address = String::from("file://");
    for byte in whole.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => address.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address.push_str("?immutable=1");
    Ok(address.into())
}

/// What a failure of SQLite means to whoever uses the store.
fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            StoreError::NotAStore { path, reason: "it is not a database".to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, reason },
        // There is not even room for the index of the log.
        _ if error.sqlite_error().is_some_and(|e| e.extended_code == SQLITE_IOERR_SHMSIZE) => {
            StoreError::Full { path }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::Unopened { path, reason }
        }
        // What is in a row is not what was written.
        None if matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::Utf8Error(..)
        ) =>
        {
            StoreError::Damaged { path, reason }
        }
        _ => StoreError::Failed { path, reason },
    }
}

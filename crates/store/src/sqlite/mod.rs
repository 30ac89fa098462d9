//! Store in one SQLite file in WAL mode: readers and the single writer do not block each other, and
//! several processes can use the file at the same time.

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

use worker::{ConnectionMode, ConnectionWorker};

/// Maximum time to wait while another process creates or migrates the tables.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two attempts to open a store file that another connection has locked.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Kinds of failures that acknowledged writes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Acknowledged writes survive a crash or kill of the process. A power failure or system crash
    /// may lose the latest writes, but does not corrupt the file.
    #[default]
    ProcessCrash,
    /// Acknowledged writes also survive a power failure, if the disk honours flushes. Every write
    /// waits for the disk.
    PowerLoss,
}

/// Access with which a store is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read-only access. The file must exist. It is not changed, except that an older format is migrated.
    Read,
    /// Read and write access. The file is created if it does not exist. An older format is migrated.
    Write(Durability),
}

/// Store of runs in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    reader: ConnectionWorker,
    writer: Option<ConnectionWorker>,
    /// Channel that notifies its receivers after every write of this process.
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
                    Durability::ProcessCrash => ConnectionMode::Write,
                    Durability::PowerLoss => ConnectionMode::WriteToDisk,
                };
                // The worker itself retries while the database is busy.
                db.busy_timeout(Duration::ZERO).map_err(|error| to_store_error(path, &error))?;
                Some(ConnectionWorker::start(path, db, mode, written.clone())?)
            }
        };
        let reader = open_to_read(path)?;
        match identify(path, &reader)? {
            0 => return Err(StoreError::Empty { path: path.to_owned() }),
            // Opening the file for writing migrates it, and fails if that is not possible.
            older if (older as usize) < schema::STEPS.len() => {
                open_to_write(path, Durability::default())?;
            }
            _ => {}
        }
        let reader = ConnectionWorker::start(path, reader, ConnectionMode::Read, written.clone())?;
        Ok(SqliteStore { path: path.to_owned(), reader, writer, written })
    }

    fn writer(&self) -> Result<&ConnectionWorker, StoreError> {
        self.writer.as_ref().ok_or_else(|| StoreError::ReadOnly { path: self.path.clone() })
    }
}

fn unopened(path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull => StoreError::Full { path: path.to_owned() },
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            StoreError::ReadOnly { path: path.to_owned() }
        }
        _ => StoreError::CannotOpen { path: path.to_owned(), reason: error.to_string() },
    }
}

/// Creates the store file if it does not exist. Only its owner can read the file, because it contains prompts and
/// answers.
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
        // SQLite opens a file without write permission and fails later with a vague error, so check
        // the permission here. `connect` reports a path that is not a file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match path.is_file() {
            true => fs::OpenOptions::new().write(true).open(path).map(drop),
            false => Ok(()),
        },
        result => result.map(drop),
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let reason = "the path is not a regular file".to_owned();
        return Err(StoreError::NotAStore { path: path.to_owned(), reason });
    }
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let db = db.map_err(|error| to_store_error(path, &error))?;
    db.busy_timeout(BUSY_TIMEOUT).map_err(|error| to_store_error(path, &error))?;
    identify(path, &db)?;
    Ok(db)
}

/// Returns the format version of the store; 0 for an empty file. Fails for databases of other programs and for newer
/// formats.
fn identify(path: &Path, db: &Connection) -> Result<u32, StoreError> {
    let read = || -> rusqlite::Result<(i32, u32, i64)> {
        // One transaction for all reads, because another process may be creating the tables.
        let _transaction = db.unchecked_transaction()?;
        let application = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let tables = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((application, schema::version(db)?, tables))
    };
    let known = schema::STEPS.len() as u32;
    let path = path.to_owned();
    match read().map_err(|error| to_store_error(&path, &error))? {
        (schema::APPLICATION, found, _) if found > known => {
            Err(StoreError::Newer { path, found, known })
        }
        (schema::APPLICATION, found @ 1.., _) => Ok(found),
        (0, 0, 0) => Ok(0),
        _ => {
            let reason = "the file is a database of another program".to_owned();
            Err(StoreError::NotAStore { path, reason })
        }
    }
}

fn open_to_write(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match try_open_to_write(path, durability) {
            // SQLite returns an error at once if two connections switch a new file to WAL mode
            // concurrently.
            Err(StoreError::Busy { .. }) if Instant::now() < deadline => {
                thread::sleep(RETRY_INTERVAL);
            }
            result => return result,
        }
    }
}

fn try_open_to_write(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let mut db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut prepare = || -> rusqlite::Result<()> {
        // This lets `remove_run` return free space to the disk. SQLite applies the setting only to an
        // empty file.
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            Durability::ProcessCrash => "NORMAL",
            Durability::PowerLoss => "FULL",
        };
        db.pragma_update(None, "synchronous", synchronous)?;
        db.pragma_update(None, "foreign_keys", true)?;
        // Overwrite removed data with zeros instead of leaving it in the file.
        db.pragma_update(None, "secure_delete", true)?;
        schema::migrate(&mut db, &schema::STEPS)
    };
    prepare().map_err(|error| to_store_error(path, &error))?;
    Ok(db)
}

fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    // With write permission, SQLite removes the write-ahead log when it closes the file.
    if let Ok(db) = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        && db.pragma_update(None, "query_only", true).is_ok()
    {
        return Ok(db);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    match connect(path, flags) {
        // On a read-only file system SQLite cannot create the index of the write-ahead log. If there
        // is no such log, the file is complete and cannot change, so open it as immutable.
        Err(
            StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. } | StoreError::Full { .. },
        ) if path.exists() && !with_suffix(path, "-wal").exists() => {
            connect(&immutable(path)?, flags | OpenFlags::SQLITE_OPEN_URI).map_err(|error| {
                match error {
                    StoreError::CannotOpen { reason, .. } => {
                        StoreError::CannotOpen { path: path.to_owned(), reason }
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

/// SQLite URI that opens the file as immutable: SQLite then needs no lock and no other file.
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

/// Converts an SQLite error to a store error.
fn to_store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            StoreError::NotAStore { path, reason: "the file is not an SQLite database".to_owned() }
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, reason },
        // There is no space for the index of the write-ahead log.
        _ if error.sqlite_error().is_some_and(|e| e.extended_code == SQLITE_IOERR_SHMSIZE) => {
            StoreError::Full { path }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::CannotOpen { path, reason }
        }
        // A column contains a value that this program does not write.
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

//! Who works with a connection.
//!
//! A thread of its own does, where work may have to wait for the disk. What is queued while it
//! works is written in one go: many tasks that each want their record safe share the price of
//! making it so. Where nothing waits for the disk, whoever asks does the work at once if nobody else
//! is at it: waking another thread would take longer than the work.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::ffi::ErrorCode;
use tokio::sync::oneshot;

use super::explain;
use crate::error::StoreError;

/// The most that is written in one go.
const BATCH: usize = 128;

/// Why a piece of work was not done.
pub(super) enum Trouble {
    /// The database failed. Everything of this transaction is undone.
    Sql(rusqlite::Error),
    /// It may not be done, and nothing was changed.
    Refused(StoreError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Refused(error)
    }
}

/// What the work is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    /// It changes something, and does not wait for the disk.
    Write,
    /// It changes something, and waits until that is on the disk.
    WriteToDisk,
}

#[derive(Debug)]
pub(super) struct Worker {
    path: PathBuf,
    mode: Mode,
    db: Arc<Mutex<Connection>>,
    queue: Option<Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
}

/// How long a process waits for another that writes.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it waits before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

impl Worker {
    pub(super) fn start(path: &Path, db: Connection, mode: Mode) -> Result<Worker, StoreError> {
        let (queue, jobs) = mpsc::channel();
        let (own_path, db) = (path.to_owned(), Arc::new(Mutex::new(db)));
        let own_db = db.clone();
        let thread = thread::Builder::new()
            .name(if mode == Mode::Read { "store-read" } else { "store-write" }.to_owned())
            .spawn(move || match mode {
                Mode::Read => read(&own_path, &own_db, &jobs),
                Mode::Write | Mode::WriteToDisk => write(&own_path, &own_db, &jobs),
            })
            .map_err(|error| StoreError::Failed {
                path: path.to_owned(),
                reason: format!("no thread for it: {error}"),
            })?;
        let (path, queue, thread) = (path.to_owned(), Some(queue), Some(thread));
        Ok(Worker { path, mode, db, queue, thread })
    }

    /// Does something with the connection. `body` may be run more than once: what it did before
    /// has then been undone.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        mut body: impl FnMut(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.mode == Mode::Write
            && let Some(result) = self.at_once(&mut body)
        {
            return result;
        }
        let gone = || StoreError::Failed {
            path: self.path.clone(),
            reason: "its thread is gone".to_owned(),
        };
        let (reply, answer) = oneshot::channel();
        let job = Job { body, value: None, reply };
        self.queue.as_ref().ok_or_else(gone)?.send(Box::new(job)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Worker {
    /// Does the work here and now, unless someone is at it, in this process or another.
    fn at_once<T>(
        &self,
        body: &mut impl FnMut(&Connection) -> Result<T, Trouble>,
    ) -> Option<Result<T, StoreError>> {
        let db = self.db.try_lock().ok()?;
        let mut value = None;
        let result = transaction(&db, || {
            value = Some(body(&db)?);
            Ok(())
        });
        match result {
            Err(Trouble::Sql(error)) if is_busy(&error) => None,
            Err(trouble) => Some(Err(told(&self.path, trouble))),
            Ok(()) => value.map(Ok),
        }
    }
}

impl Drop for Worker {
    /// Waits until what was queued is written and the connection closed.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

trait Work: Send {
    fn attempt(&mut self, db: &Connection) -> Result<(), Trouble>;
    fn settle(self: Box<Self>, result: Result<(), StoreError>);
}

struct Job<T, F> {
    body: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Trouble> + Send> Work for Job<T, F> {
    fn attempt(&mut self, db: &Connection) -> Result<(), Trouble> {
        self.value = Some((self.body)(db)?);
        Ok(())
    }

    fn settle(self: Box<Self>, result: Result<(), StoreError>) {
        // Whoever asked may have stopped waiting.
        let _ = match (result, self.value) {
            (Ok(()), Some(value)) => self.reply.send(Ok(value)),
            (Err(error), _) => self.reply.send(Err(error)),
            (Ok(()), None) => return,
        };
    }
}

fn read(path: &Path, db: &Mutex<Connection>, jobs: &Receiver<Box<dyn Work>>) {
    while let Ok(mut job) = jobs.recv() {
        let db = db.lock().unwrap_or_else(PoisonError::into_inner);
        let result = job.attempt(&db).map_err(|trouble| told(path, trouble));
        job.settle(result);
    }
}

fn write(path: &Path, db: &Mutex<Connection>, jobs: &Receiver<Box<dyn Work>>) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(BATCH - 1));
        let db = db.lock().unwrap_or_else(PoisonError::into_inner);
        match patiently(|| together(&db, &mut batch)) {
            Ok(results) => {
                for (job, result) in batch.into_iter().zip(results) {
                    job.settle(result);
                }
            }
            // One of them, or the commit, failed: each on its own, so that each gets its own answer.
            Err(_) => {
                for mut job in batch {
                    let result = patiently(|| transaction(&db, || job.attempt(&db)));
                    job.settle(result.map_err(|trouble| told(path, trouble)));
                }
            }
        }
    }
}

/// Does several jobs in one transaction; each may be refused without harm to the others.
fn together(
    db: &Connection,
    jobs: &mut [Box<dyn Work>],
) -> Result<Vec<Result<(), StoreError>>, Trouble> {
    let mut results = Vec::with_capacity(jobs.len());
    transaction(db, || {
        for job in jobs {
            results.push(match job.attempt(db) {
                Err(Trouble::Sql(error)) => return Err(error.into()),
                Err(Trouble::Refused(error)) => Err(error),
                Ok(()) => Ok(()),
            });
        }
        Ok(())
    })?;
    Ok(results)
}

/// Does something, all or nothing.
fn transaction(db: &Connection, work: impl FnOnce() -> Result<(), Trouble>) -> Result<(), Trouble> {
    let run = |statement: &str| db.prepare_cached(statement)?.execute([]);
    run("BEGIN IMMEDIATE")?;
    let result = work().and_then(|()| run("COMMIT").map(drop).map_err(Trouble::from));
    if result.is_err() {
        // Where SQLite has rolled back by itself, there is nothing left to undo.
        let _ = run("ROLLBACK");
    }
    result
}

/// Tries again as long as another process is writing.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Err(Trouble::Sql(error)) if is_busy(&error) && Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn told(path: &Path, trouble: Trouble) -> StoreError {
    match trouble {
        Trouble::Sql(error) => explain(path, &error),
        Trouble::Refused(error) => error,
    }
}

//! Who works with a connection.
//!
//! Work waits in a list until someone takes all of it at once: many tasks that each want their
//! record safe share the price of making it so. A thread takes it, where that may have to wait for
//! the disk. Where hardly anything does, whoever asked takes it, after all others that are ready
//! have had their turn to ask: waking a thread would take longer than the work.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use assize_run::StoreError;
use rusqlite::Connection;
use rusqlite::ffi::ErrorCode;
use tokio::sync::{oneshot, watch};

use super::explain;

/// How long a process waits for another that writes.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it waits before it looks again.
const PAUSE: Duration = Duration::from_millis(1);

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
    /// It changes something, and does not wait for the disk, but for now and then when the log is
    /// folded into the file.
    Write,
    /// It changes something, and waits until that is on the disk.
    WriteToDisk,
}

/// A connection and those who work with it.
pub(super) struct Worker {
    mode: Mode,
    desk: Arc<Desk>,
    /// Tells the thread that there is work; gone when the worker is.
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn start(
        path: &Path,
        db: Connection,
        mode: Mode,
        written: Arc<watch::Sender<()>>,
    ) -> Result<Worker, StoreError> {
        let (bell, rings) = mpsc::channel();
        let desk = Arc::new(Desk {
            path: path.to_owned(),
            mode,
            db: Mutex::new(db),
            waiting: Mutex::default(),
            closing: AtomicBool::new(false),
            written,
        });
        let own = desk.clone();
        let thread = thread::Builder::new()
            .name(if mode == Mode::Read { "store-read" } else { "store-write" }.to_owned())
            .spawn(move || own.sit(&rings))
            .map_err(|error| StoreError::Failed {
                path: path.to_owned(),
                reason: format!("no thread for it: {error}"),
            })?;
        Ok(Worker { mode, desk, bell: Some(bell), thread: Some(thread) })
    }

    /// Does something with the connection. `body` may be run more than once: what it did before
    /// has then been undone.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        body: impl FnMut(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, mut answer) = oneshot::channel();
        self.desk.waiting().push(Box::new(Job { body, value: None, reply }));
        if self.mode == Mode::Write {
            others_first().await;
            // Perhaps one of them did it.
            if let Ok(answer) = answer.try_recv() {
                return answer;
            }
            if self.desk.serve_at_once() {
                self.ring();
            }
        } else {
            self.ring();
        }
        answer.await.unwrap_or_else(|_| {
            let reason = "its thread is gone".to_owned();
            Err(StoreError::Failed { path: self.desk.path.clone(), reason })
        })
    }

    fn ring(&self) {
        let rung = self.bell.as_ref().is_some_and(|bell| bell.send(()).is_ok());
        if !rung {
            // The thread is gone, which whoever waits hears of by what they wait for being dropped.
            self.desk.waiting().clear();
        }
    }
}

impl Drop for Worker {
    /// Waits until what was asked for is done, unless another process is in the way, and the
    /// connection closed.
    fn drop(&mut self) {
        self.desk.closing.store(true, Ordering::Relaxed);
        self.ring();
        self.bell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Lets everyone else who is ready have a turn.
async fn others_first() {
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Where work waits and is done.
struct Desk {
    path: PathBuf,
    mode: Mode,
    db: Mutex<Connection>,
    waiting: Mutex<Vec<Box<dyn Work>>>,
    /// Nobody waits any more: what cannot be done at once is not done.
    closing: AtomicBool,
    written: Arc<watch::Sender<()>>,
}

impl Desk {
    fn waiting(&self) -> MutexGuard<'_, Vec<Box<dyn Work>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's life: to serve whenever it is rung for.
    fn sit(&self, rings: &Receiver<()>) {
        while rings.recv().is_ok() {
            let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let batch = std::mem::take(&mut *self.waiting());
                if batch.is_empty() {
                    break;
                }
                // A thread of its own can wait for other processes.
                self.serve(&db, batch, Instant::now() + PATIENCE);
            }
        }
    }

    /// Serves all who wait, unless somebody is at it, here or in another process. Whether some are
    /// left to the thread.
    fn serve_at_once(&self) -> bool {
        let Ok(db) = self.db.try_lock() else { return true };
        let batch = std::mem::take(&mut *self.waiting());
        let left = self.serve(&db, batch, Instant::now());
        let some_left = !left.is_empty();
        // Those who came in the meantime can wait a little longer than these.
        self.waiting().splice(0..0, left);
        some_left
    }

    /// Does work, all of it in one transaction if it changes anything. If there is no time to see
    /// to failures, such as another process that is writing, what was to be done comes back.
    fn serve(
        &self,
        db: &Connection,
        mut batch: Vec<Box<dyn Work>>,
        until: Instant,
    ) -> Vec<Box<dyn Work>> {
        if self.mode == Mode::Read {
            batch.into_iter().for_each(|job| self.read(db, job));
            return Vec::new();
        }
        let patient = until > Instant::now();
        match self.patiently(until, || together(db, &mut batch)) {
            Ok(results) => {
                batch.into_iter().zip(results).for_each(|(job, result)| job.settle(result));
                self.written.send_replace(());
                return Vec::new();
            }
            // Whatever it was, it is for someone with time.
            Err(_) if !patient => return batch,
            Err(_) => {}
        }
        // One of them, or the commit, failed: each on its own, so that each gets its own answer.
        for mut job in batch {
            let result = self.patiently(until, || transaction(db, || job.attempt(db)));
            job.settle(result.map_err(|trouble| self.told(trouble)));
        }
        self.written.send_replace(());
        Vec::new()
    }

    /// Tries again as long as another process is writing and there is time.
    fn patiently<T>(
        &self,
        until: Instant,
        mut attempt: impl FnMut() -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        loop {
            let time = Instant::now() < until && !self.closing.load(Ordering::Relaxed);
            match attempt() {
                Err(Trouble::Sql(error)) if is_busy(&error) && time => thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    fn read(&self, db: &Connection, mut job: Box<dyn Work>) {
        let result = job.attempt(db).map_err(|trouble| self.told(trouble));
        job.settle(result);
    }

    fn told(&self, trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Sql(error) => explain(&self.path, &error),
            Trouble::Refused(error) => error,
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

/// Does several jobs in one transaction; each may be refused without harm to the others.
fn together(
    db: &Connection,
    jobs: &mut [Box<dyn Work>],
) -> Result<Vec<Result<(), StoreError>>, Trouble> {
    let mut results = Vec::with_capacity(jobs.len());
    if jobs.is_empty() {
        return Ok(results);
    }
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

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

//! The thread that owns a connection. What is queued while it works is written in one go: many
//! tasks that each want their record safe share the price of making it so.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
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

/// Whether work changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    Write,
}

#[derive(Debug)]
pub(super) struct Worker {
    path: PathBuf,
    queue: Option<Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(path: &Path, db: Connection, mode: Mode) -> Result<Worker, StoreError> {
        let (queue, jobs) = mpsc::channel();
        let own_path = path.to_owned();
        let thread = thread::Builder::new()
            .name(format!("store-{mode:?}").to_lowercase())
            .spawn(move || match mode {
                Mode::Read => read(&own_path, &db, &jobs),
                Mode::Write => write(&own_path, &db, &jobs),
            })
            .map_err(|error| StoreError::Failed {
                path: path.to_owned(),
                reason: format!("no thread for it: {error}"),
            })?;
        Ok(Worker { path: path.to_owned(), queue: Some(queue), thread: Some(thread) })
    }

    /// Does something with the connection. `body` may be run more than once: what it did before
    /// has then been undone.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        body: impl FnMut(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
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

fn read(path: &Path, db: &Connection, jobs: &Receiver<Box<dyn Work>>) {
    while let Ok(mut job) = jobs.recv() {
        let result = job.attempt(db).map_err(|trouble| told(path, trouble));
        job.settle(result);
    }
}

fn write(path: &Path, db: &Connection, jobs: &Receiver<Box<dyn Work>>) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(BATCH - 1));
        match together(db, &mut batch) {
            Ok(results) => {
                for (job, result) in batch.into_iter().zip(results) {
                    job.settle(result.map_err(|trouble| told(path, trouble)));
                }
            }
            // One of them, or the commit, failed: each on its own, so that each gets its own answer.
            Err(_) => {
                for mut job in batch {
                    let result = match together(db, std::slice::from_mut(&mut job)) {
                        Ok(results) => results.into_iter().collect::<Result<(), Trouble>>(),
                        Err(error) => Err(Trouble::Sql(error)),
                    };
                    job.settle(result.map_err(|trouble| told(path, trouble)));
                }
            }
        }
    }
}

/// Does several jobs in one transaction.
fn together(
    db: &Connection,
    jobs: &mut [Box<dyn Work>],
) -> rusqlite::Result<Vec<Result<(), Trouble>>> {
    let begin = || db.prepare_cached("BEGIN IMMEDIATE")?.execute([]);
    let commit = || db.prepare_cached("COMMIT")?.execute([]);
    let undo = |error| {
        // Where SQLite has rolled back by itself, there is nothing left to undo.
        let _ = db.execute_batch("ROLLBACK");
        error
    };
    begin()?;
    let mut results = Vec::with_capacity(jobs.len());
    for job in jobs {
        match job.attempt(db) {
            Err(Trouble::Sql(error)) => return Err(undo(error)),
            other => results.push(other),
        }
    }
    commit().map_err(undo)?;
    Ok(results)
}

fn told(path: &Path, trouble: Trouble) -> StoreError {
    match trouble {
        Trouble::Sql(error) => explain(path, &error),
        Trouble::Refused(error) => error,
    }
}

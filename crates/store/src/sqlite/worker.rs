//! Executes operations on one SQLite connection.
//!
//! Operations collect in a queue, and all queued writes are executed in one transaction, so that
//! concurrent tasks share the cost of a commit. A thread executes operations that may block on the
//! disk. The calling task executes writes that rarely block, because waking a thread would take
//! longer than the write. Before the write, the task yields once, so that other ready tasks can queue
//! their writes, too.

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

use super::to_store_error;

/// Maximum time to wait while another process writes to the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two attempts to write while the database is busy.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Error of an operation on the connection.
pub(super) enum TransactionError {
    /// The database reported an error. The transaction is rolled back.
    Sql(rusqlite::Error),
    /// The operation is not allowed. It changed nothing.
    Refused(StoreError),
}

impl From<rusqlite::Error> for TransactionError {
    fn from(error: rusqlite::Error) -> TransactionError {
        TransactionError::Sql(error)
    }
}

impl From<StoreError> for TransactionError {
    fn from(error: StoreError) -> TransactionError {
        TransactionError::Refused(error)
    }
}

/// Kind of operations that a connection executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionMode {
    Read,
    /// Operations that write without waiting for the disk, except when SQLite checkpoints the
    /// write-ahead log.
    Write,
    /// Operations that write, and wait until the data is on the disk.
    WriteToDisk,
}

/// A database connection with its queue of operations and its thread.
pub(super) struct ConnectionWorker {
    mode: ConnectionMode,
    queue: Arc<WorkQueue>,
    /// Channel that wakes the thread. Closing the channel ends the thread.
    waker: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for ConnectionWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionWorker").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl ConnectionWorker {
    pub(super) fn start(
        path: &Path,
        db: Connection,
        mode: ConnectionMode,
        written: Arc<watch::Sender<()>>,
    ) -> Result<ConnectionWorker, StoreError> {
        let (waker, wakeups) = mpsc::channel();
        let queue = Arc::new(WorkQueue {
            path: path.to_owned(),
            mode,
            db: Mutex::new(db),
            queued: Mutex::default(),
            closing: AtomicBool::new(false),
            written,
        });
        let thread_queue = queue.clone();
        let thread = thread::Builder::new()
            .name(
                if mode == ConnectionMode::Read { "store-read" } else { "store-write" }.to_owned(),
            )
            .spawn(move || thread_queue.run(&wakeups))
            .map_err(|error| StoreError::Failed {
                path: path.to_owned(),
                reason: format!("cannot start a thread for the database connection: {error}"),
            })?;
        Ok(ConnectionWorker { mode, queue, waker: Some(waker), thread: Some(thread) })
    }

    /// Executes an operation on the connection. `body` can run more than once; the changes of each
    /// attempt are rolled back before the next attempt.
    pub(super) async fn run_operation<T: Send + 'static>(
        &self,
        body: impl FnMut(&Connection) -> Result<T, TransactionError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, mut answer) = oneshot::channel();
        self.queue.queued_operations().push(Box::new(Job { body, value: None, reply }));
        if self.mode == ConnectionMode::Write {
            yield_once().await;
            // Another task may have executed this operation together with its own operation.
            if let Ok(answer) = answer.try_recv() {
                return answer;
            }
            if self.queue.execute_now() {
                self.wake();
            }
        } else {
            self.wake();
        }
        answer.await.unwrap_or_else(|_| {
            let reason = "the thread of the database connection has exited".to_owned();
            Err(StoreError::Failed { path: self.queue.path.clone(), reason })
        })
    }

    fn wake(&self) {
        let sent = self.waker.as_ref().is_some_and(|waker| waker.send(()).is_ok());
        if !sent {
            // The thread has exited. Dropping the queued operations makes their callers fail.
            self.queue.queued_operations().clear();
        }
    }
}

impl Drop for ConnectionWorker {
    /// Waits until the queued operations are done and the connection is closed. If another process
    /// blocks an operation, the operation fails instead of waiting.
    fn drop(&mut self) {
        self.queue.closing.store(true, Ordering::Relaxed);
        self.wake();
        self.waker = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Yields once to the async runtime, so that other ready tasks run first.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Queue of operations for one connection.
struct WorkQueue {
    path: PathBuf,
    mode: ConnectionMode,
    db: Mutex<Connection>,
    /// Operations that are not executed yet, in order.
    queued: Mutex<Vec<Box<dyn Work>>>,
    /// Whether the store is being closed. Operations then no longer wait for other processes.
    closing: AtomicBool,
    /// Channel that notifies its receivers after every executed batch of writes.
    written: Arc<watch::Sender<()>>,
}

impl WorkQueue {
    fn queued_operations(&self) -> MutexGuard<'_, Vec<Box<dyn Work>>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Main loop of the thread: executes queued operations at every wakeup.
    fn run(&self, wakeups: &Receiver<()>) {
        while wakeups.recv().is_ok() {
            let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let batch = std::mem::take(&mut *self.queued_operations());
                if batch.is_empty() {
                    break;
                }
                // Only this thread may block while another process writes.
                self.execute(&db, batch, Instant::now() + BUSY_TIMEOUT);
            }
        }
    }

    /// Executes all queued operations without waiting for locks. Returns `true` if operations are left for the thread,
    /// because the connection or the database is busy.
    fn execute_now(&self) -> bool {
        let Ok(db) = self.db.try_lock() else { return true };
        let batch = std::mem::take(&mut *self.queued_operations());
        let left = self.execute(&db, batch, Instant::now());
        let some_left = !left.is_empty();
        // Keep the order: operations queued in the meantime come after the operations that are left.
        self.queued_operations().splice(0..0, left);
        some_left
    }

    /// Executes a batch of operations, with all writes in one transaction, and retries until `deadline` while another
    /// process writes. If the batch fails, executes each operation alone. However, if the deadline was already over at
    /// the start of this function, returns the failed batch, so that the thread executes the batch.
    fn execute(
        &self,
        db: &Connection,
        mut batch: Vec<Box<dyn Work>>,
        deadline: Instant,
    ) -> Vec<Box<dyn Work>> {
        if self.mode == ConnectionMode::Read {
            batch.into_iter().for_each(|job| self.read(db, job));
            return Vec::new();
        }
        let may_block = deadline > Instant::now();
        match self.retry_while_busy(deadline, || execute_batch(db, &mut batch)) {
            Ok(results) => {
                batch.into_iter().zip(results).for_each(|(job, result)| job.send_result(result));
                self.written.send_replace(());
                return Vec::new();
            }
            // After any error, the thread executes the batch again, because the thread may block.
            Err(_) if !may_block => return batch,
            Err(_) => {}
        }
        // One operation or the commit failed: execute each operation alone, so that each gets its own
        // result.
        for mut job in batch {
            let result = self.retry_while_busy(deadline, || transaction(db, || job.attempt(db)));
            job.send_result(result.map_err(|trouble| self.store_error(trouble)));
        }
        self.written.send_replace(());
        Vec::new()
    }

    /// Repeats `attempt` until the deadline while another process is writing to the database.
    fn retry_while_busy<T>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> Result<T, TransactionError>,
    ) -> Result<T, TransactionError> {
        loop {
            let retry = Instant::now() < deadline && !self.closing.load(Ordering::Relaxed);
            match attempt() {
                Err(TransactionError::Sql(error)) if is_busy(&error) && retry => {
                    thread::sleep(RETRY_INTERVAL);
                }
                result => return result,
            }
        }
    }

    fn read(&self, db: &Connection, mut job: Box<dyn Work>) {
        let result = job.attempt(db).map_err(|trouble| self.store_error(trouble));
        job.send_result(result);
    }

    fn store_error(&self, trouble: TransactionError) -> StoreError {
        match trouble {
            TransactionError::Sql(error) => to_store_error(&self.path, &error),
            TransactionError::Refused(error) => error,
        }
    }
}

/// A queued operation. The trait hides the result type, so that one queue can hold operations of all result types.
trait Work: Send {
    /// Executes the operation and keeps its value. May be called again after a rollback.
    fn attempt(&mut self, db: &Connection) -> Result<(), TransactionError>;
    /// Sends the value or the error to the task that requested the operation.
    fn send_result(self: Box<Self>, result: Result<(), StoreError>);
}

/// A queued operation: its function, its value after it was executed, and the channel to the task that requested it.
struct Job<T, F> {
    body: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, TransactionError> + Send> Work for Job<T, F> {
    fn attempt(&mut self, db: &Connection) -> Result<(), TransactionError> {
        self.value = Some((self.body)(db)?);
        Ok(())
    }

    fn send_result(self: Box<Self>, result: Result<(), StoreError>) {
        // Sending fails if the caller has stopped waiting, which is not an error.
        let _ = match (result, self.value) {
            (Ok(()), Some(value)) => self.reply.send(Ok(value)),
            (Err(error), _) => self.reply.send(Err(error)),
            (Ok(()), None) => return,
        };
    }
}

/// Executes several operations in one transaction. A refused operation does not affect the others.
fn execute_batch(
    db: &Connection,
    jobs: &mut [Box<dyn Work>],
) -> Result<Vec<Result<(), StoreError>>, TransactionError> {
    let mut results = Vec::with_capacity(jobs.len());
    if jobs.is_empty() {
        return Ok(results);
    }
    transaction(db, || {
        for job in jobs {
            results.push(match job.attempt(db) {
                Err(TransactionError::Sql(error)) => return Err(error.into()),
                Err(TransactionError::Refused(error)) => Err(error),
                Ok(()) => Ok(()),
            });
        }
        Ok(())
    })?;
    Ok(results)
}

/// Runs `work` in a transaction. If `work` or the commit fails, rolls the transaction back.
fn transaction(
    db: &Connection,
    work: impl FnOnce() -> Result<(), TransactionError>,
) -> Result<(), TransactionError> {
    let run = |statement: &str| db.prepare_cached(statement)?.execute([]);
    run("BEGIN IMMEDIATE")?;
    let result = work().and_then(|()| run("COMMIT").map(drop).map_err(TransactionError::from));
    if result.is_err() {
        // The statement fails if SQLite has already rolled back the transaction by itself.
        let _ = run("ROLLBACK");
    }
    result
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

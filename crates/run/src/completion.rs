//! How runs end: what is stored, and what the caller gets.

use std::error::Error;
use std::time::Duration;

use assize_graph::{Event, InvalidGraph, JournalError, RunError};
use assize_llm::{AnswerError, ModelError};
use assize_types::{CancelReason, Failure, FailureKind};
use serde_json::Value;

use crate::error::StoreError;
use crate::event::RunEvent;
use crate::journal::RunJournal;
use crate::kind::RunKind;
use crate::run::{Ending, Lease, Run, RunId, RunStatus};
use crate::state::how_to_resume;
use crate::store::Store;

/// How long the end of a cancelled run may take to be stored: the user waits.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// A run that came to its end.
#[derive(Debug)]
pub struct Finished<R> {
    pub report: R,
    /// Whether the report could be stored. It is paid for, and shown all the same.
    pub stored: Result<(), StoreError>,
}

/// A run that ended before it was done.
#[derive(Debug)]
pub struct RunFailure {
    pub failure: Failure,
    /// How to resume it, if that is possible.
    pub resume: Option<String>,
    /// Whether it has not ended, but is resumed later by the server or another worker.
    pub is_paused: bool,
}

impl From<Failure> for RunFailure {
    fn from(failure: Failure) -> RunFailure {
        RunFailure { failure, resume: None, is_paused: false }
    }
}

/// Why the execution of a job ended early.
#[derive(Debug)]
pub enum ExecuteError {
    Run(RunError),
    Failed(Failure),
}

impl From<RunError> for ExecuteError {
    fn from(error: RunError) -> ExecuteError {
        ExecuteError::Run(error)
    }
}

impl From<Failure> for ExecuteError {
    fn from(failure: Failure) -> ExecuteError {
        ExecuteError::Failed(failure)
    }
}

impl From<InvalidGraph> for ExecuteError {
    fn from(error: InvalidGraph) -> ExecuteError {
        ExecuteError::Failed(Failure::from_error(FailureKind::Internal, &error))
    }
}

/// What the failure of a node means to the user.
#[derive(Debug)]
pub struct NodeFailure {
    pub failure: Failure,
    /// Whether the run cannot be resumed after it.
    pub is_final: bool,
}

impl From<Failure> for NodeFailure {
    fn from(failure: Failure) -> NodeFailure {
        NodeFailure { failure, is_final: false }
    }
}

/// The error that a node failed with.
pub type NodeSource = Box<dyn Error + Send + Sync>;

/// Explains errors of a job's own nodes; gives back what it does not know.
pub(crate) type Explain = fn(NodeSource) -> Result<NodeFailure, NodeSource>;

fn ended(status: RunStatus, error: String) -> Event {
    RunEvent::RunEnded { status, error: Some(error), failure: None, resumable: None }.into()
}

/// The last event of a run that failed, with what that means to the user, wherever they are.
fn failed(error: String, failure: &Failure, resumable: bool) -> Event {
    let (error, failure) = (Some(error), Some(failure.clone()));
    let status = RunStatus::Failed;
    RunEvent::RunEnded { status, error, failure, resumable: Some(resumable) }.into()
}

/// Stores that a run is done.
pub(crate) async fn done(journal: &RunJournal, result: Value) -> Result<(), StoreError> {
    let status = RunStatus::Done;
    let ended = RunEvent::RunEnded { status, error: None, failure: None, resumable: None };
    journal.finish(Ending::Done { result }, vec![ended.into()]).await.map(drop)
}

/// Stores that a run ended before it was done, and says what that means.
pub(crate) async fn ended_early(
    journal: &RunJournal,
    error: ExecuteError,
    run: &Run,
    explain: Explain,
) -> RunFailure {
    let (failure, resume, ending, event) = match error {
        ExecuteError::Failed(failure) => {
            let error = failure.message().to_owned();
            let event = failed(error.clone(), &failure, false);
            (failure, None, Ending::Failed { error }, event)
        }
        ExecuteError::Run(error) => {
            let error = as_others_see_it(error, journal).await;
            let why = error.to_string();
            let cancelled = match &error {
                RunError::Cancelled { reason } => Some(reason.clone()),
                _ => None,
            };
            let (failure, resume) = explained(error, run, explain);
            match cancelled {
                Some(CancelReason::Paused) => {
                    return RunFailure { failure, resume, is_paused: true };
                }
                Some(reason) => {
                    let event = ended(RunStatus::Cancelled, why);
                    (failure, resume, Ending::Cancelled { reason: reason.into() }, event)
                }
                None => {
                    let event = failed(why.clone(), &failure, resume.is_some());
                    (failure, resume, Ending::Failed { error: why }, event)
                }
            }
        }
    };
    let mut events: Vec<Event> = pipeline_ended(run.kind, &ending).into_iter().collect();
    events.push(event);
    // The journal holds all that matters; without this last write the run counts as stopped.
    let _ = tokio::time::timeout(LAST_WRITE, journal.finish(ending, events)).await;
    RunFailure { failure, resume, is_paused: false }
}

/// A run that another process cancelled is cancelled, whatever this one failed at after that.
async fn as_others_see_it(error: RunError, journal: &RunJournal) -> RunError {
    match (error, journal.run().await) {
        (error @ RunError::Cancelled { .. }, _) => error,
        (_, Ok(run)) if run.status == RunStatus::Cancelled => {
            let reason = run.error.map_or(CancelReason::Stopped, CancelReason::from);
            RunError::Cancelled { reason }
        }
        (_, Ok(run)) if run.epoch != journal.life() => RunError::Journal(JournalError::Fenced),
        (error, _) => error,
    }
}

/// The event with which a consultation that ended early closes its own.
fn pipeline_ended(kind: RunKind, ending: &Ending) -> Option<Event> {
    let event = match ending {
        _ if kind != RunKind::Consult => return None,
        Ending::Done { .. } => return None,
        Ending::Failed { error } => RunEvent::PipelineFailed { error: error.clone() },
        Ending::Cancelled { reason } => RunEvent::PipelineCancelled { reason: reason.clone() },
    };
    Some(event.into())
}

/// Cancels a run, whichever process holds its lease: that finds out with its next write. No server resumes it by
/// itself then.
pub async fn cancel(store: &dyn Store, run: &Run) -> Result<(), StoreError> {
    let reason = CancelReason::Stopped.to_string();
    let ending = Ending::Cancelled { reason: reason.clone() };
    let mut events: Vec<Event> = pipeline_ended(run.kind, &ending).into_iter().collect();
    events.push(ended(RunStatus::Cancelled, reason.clone()));
    let mut epoch = run.epoch;
    loop {
        let lease = Lease { run: run.id.clone(), epoch };
        match store.stop(&lease, &reason, events.clone()).await {
            Err(StoreError::Fenced(id)) => {
                // Another process claimed it at this very moment; it is cancelled, too.
                let now = store.run(&run.id).await?;
                if now.status != RunStatus::Running || now.epoch == epoch {
                    return Err(StoreError::Fenced(id));
                }
                epoch = now.epoch;
            }
            done => return done,
        }
    }
}

/// Stores that a run ended by a panic: nothing else does.
pub async fn record_panic(store: &dyn Store, id: &RunId) {
    tracing::error!(run = %id, "a trial panicked");
    let message = "a fault in assize ended it; it can be taken up again";
    fail(store, id, None, &Failure::new(FailureKind::Internal, message)).await;
}

/// Stores that a run failed whose lease is free, if its epoch is still the one that was `seen`.
pub async fn fail(store: &dyn Store, id: &RunId, seen: Option<u64>, failure: &Failure) {
    let error = failure.message().to_owned();
    let events = vec![failed(error.clone(), failure, true)];
    let stored = async {
        let lease = store.claim(id, "", seen).await?;
        store.finish(&lease, Ending::Failed { error }, events).await
    };
    if let Err(error) = stored.await {
        tracing::error!(run = %id, %error, "cannot store that the run failed");
    }
}

/// What the end of a run means to the user, and how to resume it, if that is possible.
fn explained(error: RunError, run: &Run, explain: Explain) -> (Failure, Option<String>) {
    let (kind, id) = (run.kind, &run.id);
    let resume = Some(how_to_resume(kind, id, ""));
    match error {
        RunError::Cancelled { reason } => (Failure::new(FailureKind::Interrupted, reason), resume),
        RunError::Node { node, source, .. } => {
            let NodeFailure { failure, is_final } = of_node(node, source, explain);
            (failure, resume.filter(|_| !is_final))
        }
        RunError::Changed { .. } | RunError::GraphChanged { .. } => {
            let message = format!("{error}; this version of assize asks otherwise");
            let hint = match kind {
                RunKind::Debate => format!("start a new run from it: `assize debate --fork {id}`"),
                _ => "start a new run".to_owned(),
            };
            (Failure::new(FailureKind::Usage, message).hint(hint), None)
        }
        RunError::Unreadable { .. } => {
            (Failure::from_error(FailureKind::Environment, &error), None)
        }
        RunError::Journal(JournalError::Fenced) => {
            let message = format!("another process has taken `{id}` over");
            (Failure::new(FailureKind::Environment, message).hint("it goes on there"), None)
        }
        RunError::Journal(JournalError::Failed(source)) => match source.downcast::<StoreError>() {
            Ok(gone) if matches!(*gone, StoreError::NoSuchRun(_)) => ((*gone).into(), None),
            Ok(error) => ((*error).into(), resume),
            Err(source) => (Failure::new(FailureKind::Environment, source.to_string()), resume),
        },
        error => (Failure::from_error(FailureKind::Internal, &error), resume),
    }
}

/// What the failure of a node means to the user.
fn of_node(node: &str, source: NodeSource, explain: Explain) -> NodeFailure {
    let of_graph = |error: RunError| match error {
        // A graph within the node.
        RunError::Node { node, source, .. } => of_node(node, source, explain),
        error => Failure::from_error(FailureKind::Internal, &error).into(),
    };
    (source.downcast::<ModelError>().map(|error| Failure::from(*error).into()))
        .or_else(|source| {
            source.downcast::<AnswerError>().map(|error| Failure::from(*error).into())
        })
        .or_else(|source| source.downcast::<RunError>().map(|error| of_graph(*error)))
        .or_else(explain)
        .unwrap_or_else(|source| {
            Failure::new(FailureKind::Internal, format!("`{node}` failed: {source}")).into()
        })
}

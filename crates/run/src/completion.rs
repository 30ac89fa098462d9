//! End of a run: stores the outcome of the run, and converts errors to failures that users understand.

use std::error::Error;
use std::time::Duration;

use assize_graph::{GraphEvent, InvalidGraph, JournalError, RunError};
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

/// Timeout for storing the end of a run that failed or was cancelled. The timeout is short because the user waits until
/// the end of the run is stored.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// A run that completed, with its report.
#[derive(Debug)]
pub struct CompletedRun<R> {
    pub report: R,
    /// Whether the report could be stored. If not, the report is still shown, because the user has paid for it.
    pub stored: Result<(), StoreError>,
}

/// Failure of a run that ended before it completed.
#[derive(Debug)]
pub struct RunFailure {
    pub failure: Failure,
    /// Message with the command that resumes the run; `None` if the run cannot be resumed.
    pub resume: Option<String>,
    /// Whether the run is only paused: the server or another worker resumes the run later.
    pub is_paused: bool,
}

impl From<Failure> for RunFailure {
    fn from(failure: Failure) -> RunFailure {
        RunFailure { failure, resume: None, is_paused: false }
    }
}

/// Reason why the execution of a job ended before the job completed.
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

/// Failure of a graph node, in the form that users see.
#[derive(Debug)]
pub struct NodeFailure {
    pub failure: Failure,
    /// Whether the run cannot be resumed after this failure.
    pub is_final: bool,
}

impl From<Failure> for NodeFailure {
    fn from(failure: Failure) -> NodeFailure {
        NodeFailure { failure, is_final: false }
    }
}

/// The error that a node failed with.
pub type NodeSource = Box<dyn Error + Send + Sync>;

/// Function of a job that converts an error of the job's nodes to a failure. It returns unknown errors as `Err`.
pub(crate) type Explain = fn(NodeSource) -> Result<NodeFailure, NodeSource>;

/// Creates the last event of a cancelled run.
fn cancelled_event(status: RunStatus, error: String) -> GraphEvent {
    RunEvent::RunEnded { status, error: Some(error), failure: None, resumable: None }.into()
}

/// Creates the last event of a failed run. The event contains the failure, so that remote clients can show it.
fn failed_event(error: String, failure: &Failure, resumable: bool) -> GraphEvent {
    let (error, failure) = (Some(error), Some(failure.clone()));
    let status = RunStatus::Failed;
    RunEvent::RunEnded { status, error, failure, resumable: Some(resumable) }.into()
}

/// Stores the result and the last event of a completed run.
pub(crate) async fn store_result(journal: &RunJournal, result: Value) -> Result<(), StoreError> {
    let status = RunStatus::Done;
    let ended = RunEvent::RunEnded { status, error: None, failure: None, resumable: None };
    journal.finish(Ending::Done { result }, vec![ended.into()]).await.map(drop)
}

/// Stores that a run failed or was cancelled, and returns the failure for the caller. A paused run is not stored as
/// ended, because it is resumed later.
pub(crate) async fn store_early_end(
    journal: &RunJournal,
    error: ExecuteError,
    run: &Run,
    explain: Explain,
) -> RunFailure {
    let (failure, resume, ending, event) = match error {
        ExecuteError::Failed(failure) => {
            let error = failure.message().to_owned();
            let event = failed_event(error.clone(), &failure, false);
            (failure, None, Ending::Failed { error }, event)
        }
        ExecuteError::Run(error) => {
            let error = reconcile_with_store(error, journal).await;
            let why = error.to_string();
            let cancelled = match &error {
                RunError::Cancelled { reason } => Some(reason.clone()),
                _ => None,
            };
            let (failure, resume) = user_failure(error, run, explain);
            match cancelled {
                Some(CancelReason::ShuttingDown) => {
                    return RunFailure { failure, resume, is_paused: true };
                }
                Some(reason) => {
                    let event = cancelled_event(RunStatus::Cancelled, why);
                    (failure, resume, Ending::Cancelled { reason: reason.into() }, event)
                }
                None => {
                    let event = failed_event(why.clone(), &failure, resume.is_some());
                    (failure, resume, Ending::Failed { error: why }, event)
                }
            }
        }
    };
    let mut events: Vec<GraphEvent> =
        consultation_end_event(run.kind, &ending).into_iter().collect();
    events.push(event);
    // If this write fails, nothing is lost: the journal has all records, and the run counts as stopped.
    let _ = tokio::time::timeout(FINISH_TIMEOUT, journal.finish(ending, events)).await;
    RunFailure { failure, resume, is_paused: false }
}

/// Replaces an error by its cause if the store shows the cause: another process cancelled the run or took over its
/// lease. If the store shows no such cause, returns the error unchanged.
async fn reconcile_with_store(error: RunError, journal: &RunJournal) -> RunError {
    match (error, journal.run().await) {
        (error @ RunError::Cancelled { .. }, _) => error,
        (_, Ok(run)) if run.status == RunStatus::Cancelled => {
            let reason = run.error.map_or(CancelReason::CancelledByUser, CancelReason::from);
            RunError::Cancelled { reason }
        }
        (_, Ok(run)) if run.epoch != journal.epoch() => RunError::Journal(JournalError::Fenced),
        (error, _) => error,
    }
}

/// Creates the additional event that a consultation emits when it fails or is cancelled; `None` for other runs.
fn consultation_end_event(kind: RunKind, ending: &Ending) -> Option<GraphEvent> {
    let event = match ending {
        _ if kind != RunKind::Consult => return None,
        Ending::Done { .. } => return None,
        Ending::Failed { error } => RunEvent::PipelineFailed { error: error.clone() },
        Ending::Cancelled { reason } => RunEvent::PipelineCancelled { reason: reason.clone() },
    };
    Some(event.into())
}

/// Cancels a run, even if another process holds its lease. Later writes of that process are refused. Servers do not
/// resume a cancelled run automatically.
pub async fn cancel(store: &dyn Store, run: &Run) -> Result<(), StoreError> {
    let reason = CancelReason::CancelledByUser.to_string();
    let ending = Ending::Cancelled { reason: reason.clone() };
    let mut events: Vec<GraphEvent> =
        consultation_end_event(run.kind, &ending).into_iter().collect();
    events.push(cancelled_event(RunStatus::Cancelled, reason.clone()));
    let mut epoch = run.epoch;
    loop {
        let lease = Lease { run: run.id.clone(), epoch };
        match store.cancel_run(&lease, &reason, events.clone()).await {
            Err(StoreError::Fenced(id)) => {
                // Another process claimed the run in the meantime: cancel the run again, with its new epoch.
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

/// Stores that a run failed because the code that executed it panicked. That code cannot store the failure itself.
pub async fn record_panic(store: &dyn Store, id: &RunId) {
    tracing::error!(run = %id, "run panicked");
    let message = "internal error: assize panicked; the run can be resumed";
    record_failure(store, id, None, &Failure::new(FailureKind::Internal, message)).await;
}

/// Claims the lease of a run and stores that the run failed. If `seen` is given and the epoch of the run is not `seen`,
/// stores nothing.
pub async fn record_failure(store: &dyn Store, id: &RunId, seen: Option<u64>, failure: &Failure) {
    let error = failure.message().to_owned();
    let events = vec![failed_event(error.clone(), failure, true)];
    let stored = async {
        let lease = store.claim(id, "", seen).await?;
        store.finish(&lease, Ending::Failed { error }, events).await
    };
    if let Err(error) = stored.await {
        tracing::error!(run = %id, %error, "cannot store the failure of the run");
    }
}

/// Converts an error of a run to the failure that users see, and to the message with the command that resumes the run.
/// The message is `None` if the run cannot be resumed.
fn user_failure(error: RunError, run: &Run, explain: Explain) -> (Failure, Option<String>) {
    let (kind, id) = (run.kind, &run.id);
    let resume = Some(how_to_resume(id, ""));
    match error {
        RunError::Cancelled { reason } => (Failure::new(FailureKind::Interrupted, reason), resume),
        RunError::Node { node, source, .. } => {
            let NodeFailure { failure, is_final } = of_node(node, source, explain);
            (failure, resume.filter(|_| !is_final))
        }
        RunError::RequestChanged { .. } | RunError::GraphChanged { .. } => {
            let message = format!("{error}, so this version of assize cannot resume the run");
            let hint = if kind.can_be_forked() {
                format!("start a fork of the run: `assize runs fork {id}`")
            } else {
                "start a new run".to_owned()
            };
            (Failure::new(FailureKind::Usage, message).hint(hint), None)
        }
        RunError::Unreadable { .. } => {
            (Failure::from_error(FailureKind::Environment, &error), None)
        }
        RunError::Journal(JournalError::Fenced) => {
            let message = format!("another process has taken over `{id}`");
            let hint = format!("show the state of the run with `assize runs show {id}`");
            (Failure::new(FailureKind::Environment, message).hint(hint), None)
        }
        RunError::Journal(JournalError::Failed(source)) => match source.downcast::<StoreError>() {
            Ok(gone) if matches!(*gone, StoreError::NoSuchRun(_)) => ((*gone).into(), None),
            Ok(error) => ((*error).into(), resume),
            Err(source) => (Failure::new(FailureKind::Environment, source.to_string()), resume),
        },
        error => (Failure::from_error(FailureKind::Internal, &error), resume),
    }
}

/// Converts an error of a graph node to the failure that users see.
fn of_node(node: &str, source: NodeSource, explain: Explain) -> NodeFailure {
    let of_graph = |error: RunError| match error {
        // The node executed a nested graph, and a node of the nested graph failed.
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
            Failure::new(FailureKind::Internal, format!("step `{node}` failed: {source}")).into()
        })
}

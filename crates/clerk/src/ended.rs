//! How trials end: what is written down, and what whoever asked is told.

use std::error::Error;
use std::time::Duration;

use assize_code::Trouble;
use assize_graph::{Event, InvalidGraph, JournalError, RunError};
use assize_llm::{AnswerError, ModelError};
use assize_negotiation::{DebateError, MostMovesAffected};
use assize_run::{
    Ending, Lease, Run, RunEvent, RunId, RunJournal, RunKind, RunStatus, Store, StoreError,
};
use assize_types::{CancelReason, Failure, FailureKind};
use serde_json::Value;

use crate::cluster::debates::NotHeld;
use crate::kept;

/// How long the last word of a run that was stopped may take: whoever stopped it waits.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What is told at the end of every run.
fn ended(status: RunStatus, error: Option<String>) -> Event {
    RunEvent::RunEnded { status, error, failure: None, resumable: None }.into()
}

/// The same of one that failed, with what it means to the user, wherever they are.
fn failed(error: String, failure: &Failure, resumable: bool) -> Event {
    let (error, failure) = (Some(error), Some(failure.clone()));
    let status = RunStatus::Failed;
    RunEvent::RunEnded { status, error, failure, resumable: Some(resumable) }.into()
}

/// Writes down that a run is done.
pub(crate) async fn done(journal: &RunJournal, result: Value) -> Result<(), StoreError> {
    let told = vec![ended(RunStatus::Done, None)];
    journal.finish(Ending::Done { result }, told).await.map(drop)
}

/// A trial that came to its end.
#[derive(Debug)]
pub struct Held<T> {
    pub came_to: T,
    /// Whether that could be written down. It is paid for, and shown all the same.
    pub kept: Result<(), StoreError>,
}

/// A trial that ended before it was done.
#[derive(Debug)]
pub struct Broke {
    pub failure: Failure,
    /// How to go on with it, where one can.
    pub go_on: Option<String>,
    /// Whether it has not ended, but is resumed later by the server or another worker.
    pub is_paused: bool,
}

impl From<Failure> for Broke {
    fn from(failure: Failure) -> Broke {
        Broke { failure, go_on: None, is_paused: false }
    }
}

impl From<InvalidGraph> for Broke {
    fn from(error: InvalidGraph) -> Broke {
        Failure::from_error(FailureKind::Internal, &error).into()
    }
}

/// Writes down that a run ended before it was done, and says what that means.
pub async fn broke(
    journal: &RunJournal,
    error: RunError,
    (kind, id): (RunKind, &RunId),
    mut told: Vec<Event>,
) -> Broke {
    // A run that another process cancelled is cancelled, whatever this one failed at after that.
    let error = match (error, journal.run().await) {
        (error @ RunError::Cancelled { .. }, _) => error,
        (_, Ok(run)) if run.status == RunStatus::Cancelled => {
            let reason = run.error.map_or(CancelReason::Stopped, CancelReason::from);
            RunError::Cancelled { reason }
        }
        (_, Ok(run)) if run.epoch != journal.life() => RunError::Journal(JournalError::Fenced),
        (error, _) => error,
    };
    let (cancelled, why) = match &error {
        RunError::Cancelled { reason } => (Some(reason.clone()), reason.to_string()),
        error => (None, error.to_string()),
    };
    let (failure, go_on) = explain(error, kind, id);
    let ending = match cancelled {
        // It has not ended.
        Some(CancelReason::Paused) => return Broke { failure, go_on, is_paused: true },
        Some(reason) => {
            told.push(ended(RunStatus::Cancelled, Some(why)));
            Ending::Cancelled { reason: reason.into() }
        }
        None => {
            told.push(failed(why.clone(), &failure, go_on.is_some()));
            Ending::Failed { error: why }
        }
    };
    // The journal holds all that matters; without its last word the run counts as stopped.
    let _ = tokio::time::timeout(LAST_WORD, journal.finish(ending, told)).await;
    Broke { failure, go_on, is_paused: false }
}

/// Stops a run, whoever works on it: they find out when they next write something down. No server goes on with it by
/// itself then.
pub async fn cancel(store: &dyn Store, run: &Run) -> Result<(), StoreError> {
    let reason = CancelReason::Stopped.to_string();
    let mut told = Vec::new();
    if run.kind == RunKind::Consult {
        told.push(RunEvent::PipelineCancelled { reason: reason.clone() }.into());
    }
    told.push(ended(RunStatus::Cancelled, Some(reason.clone())));
    let mut epoch = run.epoch;
    loop {
        let claim = Lease { run: run.id.clone(), epoch };
        match store.stop(&claim, &reason, told.clone()).await {
            Err(StoreError::Fenced(id)) => {
                // Somebody took it at this very moment; they are stopped, too.
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

/// Writes down that a run ended by a fault of ours: nobody else will.
pub async fn note_panic(store: &dyn Store, id: &RunId) {
    tracing::error!(run = %id, "a trial panicked");
    let message = "a fault in assize ended it; it can be taken up again";
    fail(store, id, None, &Failure::new(FailureKind::Internal, message)).await;
}

/// Writes down that a run failed that nobody holds, if it is still as it was `seen`.
pub(crate) async fn fail(store: &dyn Store, id: &RunId, seen: Option<u64>, failure: &Failure) {
    let error = failure.message().to_owned();
    let told = vec![failed(error.clone(), failure, true)];
    let noted = async {
        let claim = store.claim(id, "", seen).await?;
        store.finish(&claim, Ending::Failed { error }, told).await
    };
    if let Err(error) = noted.await {
        tracing::error!(run = %id, %error, "that it ended could not be written down");
    }
}

/// What a failed run means to the user, and how to go on with it, where one can.
fn explain(error: RunError, kind: RunKind, id: &RunId) -> (Failure, Option<String>) {
    let resume = Some(kept::how_to_resume(kind, id, ""));
    match error {
        RunError::Cancelled { reason } => (Failure::new(FailureKind::Interrupted, reason), resume),
        RunError::Node { node, source, .. } => {
            let is_final = source.downcast_ref::<Trouble>().is_some_and(Trouble::is_final);
            (of_node(node, source), resume.filter(|_| !is_final))
        }
        RunError::Changed { .. } | RunError::GraphChanged { .. } => {
            let message = format!("{error}; this version of assize asks otherwise");
            let failure = Failure::new(FailureKind::Usage, message);
            let failure = match kind {
                RunKind::Debate => {
                    failure.hint(format!("start a new run from it: `assize debate --fork {id}`"))
                }
                _ => failure.hint("start a new run"),
            };
            (failure, None)
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

/// What to do about calls that failed for good.
const RETRY: &str = "resume the run when the provider answers again: only the calls that failed, and what follows \
     from them, are made again";

/// What the failure of a node means to the user.
fn of_node(node: &str, source: Box<dyn Error + Send + Sync>) -> Failure {
    let source = match source.downcast::<ModelError>() {
        Ok(error) => return (*error).into(),
        Err(source) => source,
    };
    let source = match source.downcast::<AnswerError>() {
        Ok(error) => return (*error).into(),
        Err(source) => source,
    };
    let source = match source.downcast::<RunError>().map(|error| *error) {
        // A graph within the node.
        Ok(RunError::Node { node, source, .. }) => return of_node(node, source),
        Ok(error) => return Failure::from_error(FailureKind::Internal, &error),
        Err(source) => source,
    };
    let source = match source.downcast::<assize_consult::Trouble>() {
        Ok(trouble) => return Failure::from_error(FailureKind::Environment, &*trouble),
        Err(source) => source,
    };
    let source = match source.downcast::<assize_consult::NotKept>() {
        Ok(not_kept) => return Failure::from_error(FailureKind::Environment, &*not_kept),
        Err(source) => source,
    };
    let source = match source.downcast::<MostMovesAffected>() {
        Ok(most) => return Failure::from_error(FailureKind::Environment, &*most).hint(RETRY),
        Err(source) => source,
    };
    let source = match source.downcast::<assize_debate::NoVerdict>() {
        Ok(none) => return Failure::from_error(FailureKind::Environment, &*none).hint(RETRY),
        Err(source) => source,
    };
    let source = match source.downcast::<DebateError>().map(|error| *error) {
        Ok(DebateError::Sandbox(error)) => return error.into(),
        Ok(error @ DebateError::Unreadable(_)) => {
            return Failure::from_error(FailureKind::Internal, &error);
        }
        Ok(error) => return Failure::from_error(FailureKind::Environment, &error),
        Err(source) => source,
    };
    let source = match source.downcast::<NotHeld>().map(|error| *error) {
        Ok(NotHeld::Store(error)) => return error.into(),
        Ok(error) => return Failure::from_error(FailureKind::Environment, &error),
        Err(source) => source,
    };
    match source.downcast::<Trouble>() {
        Ok(trouble) => of_trouble(*trouble),
        Err(source) => Failure::new(FailureKind::Internal, format!("`{node}` failed: {source}")),
    }
}

/// What it means that code could not be tried.
pub fn of_trouble(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Sandbox(error) => error.into(),
        Trouble::Session(error) => error.into(),
        error @ Trouble::Keep(_) => Failure::from_error(FailureKind::Environment, &error),
        error @ Trouble::Packages(_) => Failure::from_error(FailureKind::Environment, &error)
            .hint("the settings `packages.pip` and `packages.wheels` say where they come from"),
    }
}

#[cfg(test)]
mod tests {
    use assize_run::NewRun;
    use assize_store::{Access, Durability, SqliteStore};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_stop_that_comes_with_a_claim_stops_whoever_took_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(
            &folder.path().join("store.db"),
            Access::Write(Durability::default()),
        )
        .unwrap();
        let new = NewRun {
            kind: RunKind::Consult,
            title: "NVDA".to_owned(),
            parent: None,
            input: json!({}),
            artifacts: Vec::new(),
            once: None,
        };
        let (seen, _) = store.create_run(new, "one").await.unwrap();
        // Somebody takes it, after it was looked at and before it is stopped.
        let claim = store.claim(&seen.id, "another", Some(seen.epoch)).await.unwrap();
        cancel(&store, &seen).await.unwrap();
        assert_eq!(store.run(&seen.id).await.unwrap().status, RunStatus::Cancelled);
        let late = store.finish(&claim, Ending::Done { result: json!(1) }, Vec::new()).await;
        assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
        // What is over is not stopped.
        assert!(matches!(cancel(&store, &seen).await, Err(StoreError::Fenced(_))));
    }
}

//! Runs that end before they are done: what is written down, and what the user is told.

use std::error::Error;
use std::time::Duration;

use assize_code::Trouble;
use assize_gateway::Gateway;
use assize_graph::{Event, JournalError, RunError};
use assize_llm::{AnswerError, ModelError};
use assize_store::{Ending, RunId, RunJournal, StoreError};

use crate::account::account;
use crate::failure::{Failure, FailureKind};
use crate::kept;
use crate::terminal::{DIM, note, paint};

/// How long the last word of a run that was stopped may take: whoever stopped it waits.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Writes down why a run ended, and tells it.
pub(crate) async fn note_end(journal: &RunJournal, error: &RunError, told: Vec<Event>) {
    let ending = match error {
        RunError::Cancelled { reason } => Ending::Cancelled { reason: reason.clone() },
        error => Ending::Failed { error: error.to_string() },
    };
    // The journal holds all that matters; without its last word the run counts as stopped.
    let _ = tokio::time::timeout(LAST_WORD, journal.finish(ending, told)).await;
}

/// Writes down that a run failed, says what it took and how to go on with it, and gives what is told.
pub(crate) async fn fail(
    journal: &RunJournal,
    error: RunError,
    (kind, id): (&str, &RunId),
    gateway: &Gateway,
    quiet: bool,
) -> Failure {
    note_end(journal, &error, Vec::new()).await;
    let totals = gateway.ledger().totals();
    if !quiet && totals.calls > 0 {
        note(&paint(DIM, format!("spent: {}", account(&totals))));
    }
    let (failure, how) = explain(error, kind, id);
    if let Some(how) = how {
        note(&how);
    }
    failure
}

/// What a failed run means to the user, and how to go on with it, where one can.
pub(crate) fn explain(error: RunError, kind: &str, id: &RunId) -> (Failure, Option<String>) {
    let resume = Some(kept::how_to_resume(kind, id));
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
                "debate" => {
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
    match source.downcast::<Trouble>() {
        Ok(trouble) => of_trouble(*trouble),
        Err(source) => Failure::new(FailureKind::Internal, format!("`{node}` failed: {source}")),
    }
}

/// What it means that code could not be tried.
pub(crate) fn of_trouble(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Sandbox(error) => error.into(),
        Trouble::Session(error) => error.into(),
        error @ Trouble::Keep(_) => Failure::from_error(FailureKind::Environment, &error),
        error @ Trouble::Packages(_) => Failure::from_error(FailureKind::Environment, &error)
            .hint("the settings `packages.pip` and `packages.wheels` say where they come from"),
    }
}

//! Why a run ended before its end.

use std::error::Error;

use assize_types::CancelReason;

use crate::context::FailedEffect;
use crate::journal::JournalError;
use crate::key::{BadKey, Key};

/// What ended a run. Nothing that was recorded is lost by it.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{reason}")]
    Cancelled { reason: CancelReason },
    #[error("`{node}` would be step {} of a run that may take {limit}", .limit + 1)]
    StepLimit { node: &'static str, limit: u32 },
    #[error("`{node}` failed: {source}")]
    Node {
        node: &'static str,
        /// The labels of the branches that led there; empty outside of them.
        scope: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The run was begun with another request at this place.
    #[error("what is asked at `{key}` is not what this run asked there before")]
    Changed { key: Key },
    /// The run was begun with another graph.
    #[error("the graph `{graph}` is not the one that this run was begun with")]
    GraphChanged { graph: &'static str },
    #[error("the run cannot be kept: {0}")]
    Journal(#[from] JournalError),
    /// What is in the journal is not of the type that is asked for now.
    #[error("the record of `{key}` cannot be read: {source}")]
    Unreadable {
        key: Key,
        #[source]
        source: serde_json::Error,
    },
    #[error("two effects of one run have the key `{key}`")]
    DuplicateKey { key: Key },
    #[error(transparent)]
    BadKey(#[from] BadKey),
    #[error("`{from}` sends two branches with the label `{label}`")]
    DuplicateBranch { from: &'static str, label: String },
    #[error("`{from}` chose `{to}`, which is none of its targets")]
    UndeclaredTarget { from: &'static str, to: &'static str },
    /// Another part of the run failed; what was under way was still finished.
    #[error("stopped, since another part of the run failed")]
    Halted,
}

/// Why a node failed.
#[derive(Debug)]
pub enum NodeError {
    /// Its own failure.
    Failed(Box<dyn Error + Send + Sync>),
    /// The run is over.
    Stop(RunError),
}

impl<E: Error + Send + Sync + 'static> From<E> for NodeError {
    fn from(error: E) -> NodeError {
        let error: Box<dyn Error + Send + Sync> = Box::new(error);
        match error.downcast::<RunError>() {
            // A graph within a graph: its node failed, and with it ours.
            Ok(run) if matches!(*run, RunError::Node { .. }) => NodeError::Failed(run),
            Ok(run) => NodeError::Stop(*run),
            Err(error) => NodeError::Failed(error),
        }
    }
}

/// Why an effect has no value.
#[derive(Debug)]
pub enum EffectError<E> {
    /// It failed. To go on in spite of that, see [`crate::Context::go_on`].
    Failed(FailedEffect<E>),
    /// The run is over.
    Stop(RunError),
}

impl<E> From<RunError> for EffectError<E> {
    fn from(error: RunError) -> EffectError<E> {
        EffectError::Stop(error)
    }
}

impl<E: Error + Send + Sync + 'static> From<EffectError<E>> for NodeError {
    fn from(error: EffectError<E>) -> NodeError {
        match error {
            EffectError::Failed(failed) => NodeError::from(failed.error),
            EffectError::Stop(error) => NodeError::Stop(error),
        }
    }
}

/// A node panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it panicked: {0}")]
pub(crate) struct NodePanicked(pub(crate) String);

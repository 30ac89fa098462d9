//! Errors of graph runs, nodes and effects.

use std::error::Error;

use assize_types::CancelReason;

use crate::context::FailedEffect;
use crate::journal::JournalError;
use crate::key::{EffectKey, InvalidEffectKey};

/// Error that ended a run. The records written before the error stay in the journal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{reason}")]
    Cancelled { reason: CancelReason },
    #[error("the run reached its step limit ({limit}) before node `{node}`")]
    StepLimit { node: &'static str, limit: u32 },
    #[error("`{node}` failed: {source}")]
    Node {
        node: &'static str,
        /// Labels of the branches that contain the node, joined by `/`; empty outside branches.
        scope: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The journal has a record for the effect, but the recorded request differs from the current request.
    #[error("the request of effect `{key}` differs from the request recorded in this run")]
    RequestChanged { key: EffectKey },
    /// The run was started with a graph whose shape differs from the shape of `graph`.
    #[error("graph `{graph}` differs from the graph that this run was started with")]
    GraphChanged { graph: &'static str },
    #[error("cannot read or write the run's journal: {0}")]
    Journal(#[from] JournalError),
    /// The outcome of an effect cannot be encoded as JSON, or its recorded JSON does not decode into the expected type.
    #[error("invalid journal record for effect `{key}`: {source}")]
    Unreadable {
        key: EffectKey,
        #[source]
        source: serde_json::Error,
    },
    #[error("effect key `{key}` is used twice in one run")]
    DuplicateKey { key: EffectKey },
    #[error(transparent)]
    BadKey(#[from] InvalidEffectKey),
    #[error("node `{from}` creates two branches labelled `{label}`")]
    DuplicateBranch { from: &'static str, label: String },
    #[error("node `{from}` chose `{to}`, which is not one of its declared targets")]
    UndeclaredTarget { from: &'static str, to: &'static str },
    /// The node was stopped because another node of the run failed. Effects that were already in progress were
    /// completed.
    #[error("the node was stopped because another node of the run failed")]
    Halted,
}

/// Error that a node returns.
#[derive(Debug)]
pub enum NodeError {
    /// The node failed with this error.
    Failed(Box<dyn Error + Send + Sync>),
    /// The whole run must stop with this error.
    Stop(RunError),
}

impl<E: Error + Send + Sync + 'static> From<E> for NodeError {
    fn from(error: E) -> NodeError {
        let error: Box<dyn Error + Send + Sync> = Box::new(error);
        match error.downcast::<RunError>() {
            // A node of a subgraph failed, which fails the node that runs the subgraph.
            Ok(run) if matches!(*run, RunError::Node { .. }) => NodeError::Failed(run),
            Ok(run) => NodeError::Stop(*run),
            Err(error) => NodeError::Failed(error),
        }
    }
}

/// Error that [`crate::Context::effect`] returns.
#[derive(Debug)]
pub enum EffectError<E> {
    /// The effect failed. A node that continues after the failure must call [`crate::Context::record_failure`].
    Failed(FailedEffect<E>),
    /// The whole run must stop with this error.
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

/// Error of a node whose code panicked, with the panic message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the node panicked: {0}")]
pub(crate) struct NodePanicked(pub(crate) String);

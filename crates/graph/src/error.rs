//! Errors that end a run, a node or an effect.

use std::error::Error;

use assize_types::CancelReason;

use crate::context::FailedEffect;
use crate::journal::JournalError;
use crate::key::{EffectKey, InvalidEffectKey};

/// Error that ended a run. Records already in the journal are kept.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{reason}")]
    Cancelled { reason: CancelReason },
    #[error("step limit of {limit} reached before `{node}`")]
    StepLimit { node: &'static str, limit: u32 },
    #[error("`{node}` failed: {source}")]
    Node {
        node: &'static str,
        /// Labels of the branches that contain the node, joined by `/`; empty outside branches.
        scope: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The effect has a record whose request differs from the current one.
    #[error("request of effect `{key}` differs from the one recorded in this run")]
    Changed { key: EffectKey },
    /// The run was started with a graph of another shape.
    #[error("graph `{graph}` differs from the one this run was started with")]
    GraphChanged { graph: &'static str },
    #[error("cannot read or write the run's journal: {0}")]
    Journal(#[from] JournalError),
    /// The record's JSON cannot be encoded, or does not decode into the type of the effect.
    #[error("invalid journal record for `{key}`: {source}")]
    Unreadable {
        key: EffectKey,
        #[source]
        source: serde_json::Error,
    },
    #[error("effect key `{key}` used twice in one run")]
    DuplicateKey { key: EffectKey },
    #[error(transparent)]
    BadKey(#[from] InvalidEffectKey),
    #[error("`{from}` creates two branches labelled `{label}`")]
    DuplicateBranch { from: &'static str, label: String },
    #[error("`{from}` chose `{to}`, which is not one of its declared targets")]
    UndeclaredTarget { from: &'static str, to: &'static str },
    /// Another part of the run failed. Effects already in progress were completed.
    #[error("stopped because another part of the run failed")]
    Halted,
}

/// Error of a node.
#[derive(Debug)]
pub enum NodeError {
    /// The node itself failed.
    Failed(Box<dyn Error + Send + Sync>),
    /// The whole run must stop.
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

/// Error of an effect.
#[derive(Debug)]
pub enum EffectError<E> {
    /// The call failed. To continue anyway, see [`crate::Context::go_on`].
    Failed(FailedEffect<E>),
    /// The whole run must stop.
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

/// A node's body panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub(crate) struct NodePanicked(pub(crate) String);

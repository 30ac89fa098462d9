//! Options for running a graph, and the signals that a run sends to its observer.

use std::sync::Arc;

use assize_types::Cancel;

use crate::journal::{GraphEvent, Journal};
use crate::key::EffectKey;

/// Callback that receives the signals of a run as they happen.
pub type RunObserver = Arc<dyn Fn(&Signal<'_>) + Send + Sync>;

/// Options for running a graph.
#[derive(Clone)]
pub struct RunOptions {
    /// Journal in which effects are recorded. Without a journal, the run cannot be resumed.
    pub journal: Option<Arc<dyn Journal>>,
    pub observer: Option<RunObserver>,
    pub cancel: Cancel,
    /// Maximum number of nodes that are executed in sequence on one path, including the nodes of subgraphs.
    pub step_limit: u32,
}

impl RunOptions {
    pub fn with_journal(journal: Arc<dyn Journal>) -> RunOptions {
        RunOptions { journal: Some(journal), ..RunOptions::default() }
    }
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { journal: None, observer: None, cancel: Cancel::new(), step_limit: 1000 }
    }
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("journal", &self.journal.is_some())
            .field("observer", &self.observer.is_some())
            .field("step_limit", &self.step_limit)
            .finish_non_exhaustive()
    }
}

/// Progress signal of a run for its observer. The journal stores only events; the other signals are not stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Signal<'a> {
    /// A node finished without an error.
    NodeFinished {
        node: &'static str,
    },
    Effect {
        key: &'a EffectKey,
        stage: EffectStage,
    },
    /// An event was emitted. `id` is the event's id in the journal, or `None` if the event is not in a journal.
    Event {
        id: Option<u64>,
        event: &'a GraphEvent,
    },
}

/// Progress of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectStage {
    /// The effect was started, and its outcome is not recorded yet.
    Started,
    /// The effect finished, and its outcome was recorded.
    Recorded,
    /// The outcome of the effect was already in the journal and was replayed.
    Replayed,
    /// The outcome of the effect was copied from the run that this run was forked from.
    Inherited,
    /// The effect failed, now or before the run was resumed. The node decides whether this failure ends the run.
    Failed,
}

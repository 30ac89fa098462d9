//! Options of a run, and the signals it sends to an observer.

use std::sync::Arc;

use assize_types::Cancel;

use crate::journal::{GraphEvent, Journal};
use crate::key::EffectKey;

/// Callback that receives the signals of a run as they happen.
pub type RunObserver = Arc<dyn Fn(&Signal<'_>) + Send + Sync>;

/// Options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// Where effects are recorded; without a journal the run cannot be resumed.
    pub journal: Option<Arc<dyn Journal>>,
    pub observer: Option<RunObserver>,
    pub cancel: Cancel,
    /// Maximum number of nodes on one path, in sequence. A subgraph continues the count of the node that runs it.
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

/// Signal to an observer. Only [`Signal::Event`] is stored; the others are lost with the process.
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
    /// An event, with its id in the journal.
    Event {
        id: Option<u64>,
        event: &'a GraphEvent,
    },
}

/// Progress of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectStage {
    /// The call is running and has no record yet.
    Started,
    /// The call is done and its outcome is in the journal.
    Recorded,
    /// The outcome was already in the journal.
    Replayed,
    /// The outcome was copied from the run that this one was forked from.
    Inherited,
    /// The call failed, now or in an earlier attempt. The node decides whether this ends the run.
    Failed,
}

//! How a graph is run, and what can be seen of it.

use std::sync::Arc;

use assize_types::Cancel;

use crate::journal::{Event, Journal};
use crate::key::Key;

/// Sees what happens in a run, while it happens.
pub type Observer = Arc<dyn Fn(&Signal<'_>) + Send + Sync>;

/// The circumstances of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// Where effects are recorded; without one nothing outlives the run.
    pub journal: Option<Arc<dyn Journal>>,
    pub observer: Option<Observer>,
    pub cancel: Cancel,
    /// The longest chain of tasks, each of which needs the one before. A graph within a node counts
    /// on from where that node stands.
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

/// Something an observer sees. Only [`Signal::Event`] outlives the process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Signal<'a> {
    /// A node has finished without failing.
    NodeFinished {
        node: &'static str,
    },
    Effect {
        key: &'a Key,
        stage: EffectStage,
    },
    /// An event, with the id it has in the journal.
    Event {
        id: Option<u64>,
        event: &'a Event,
    },
}

/// How far an effect is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectStage {
    /// It is being done, and not known to the journal yet.
    Started,
    /// It is done and in the journal.
    Recorded,
    /// It was in the journal.
    Replayed,
    /// It was taken over from the run that this one was forked from.
    Inherited,
    /// It failed, now or when it was recorded. What this means for the run is the node's business.
    Failed,
}

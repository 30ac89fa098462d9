//! The journal of one run, for the graph that runs it.

use std::collections::HashMap;
use std::sync::Arc;

use assize_graph::{Appended, Event, Journal, JournalError, Key, Record};
use async_trait::async_trait;

use crate::error::StoreError;
use crate::run::{Lease, Run};
use crate::{Ending, Store};

/// The journal of a claimed run.
///
/// What was recorded before is read once, when it is opened: a run asks for every key it comes by,
/// and most of them are not there. It asks for each key once, so nothing that is recorded since is
/// asked for.
#[derive(Debug)]
pub struct RunJournal {
    store: Arc<dyn Store>,
    claim: Lease,
    earlier: HashMap<Key, Record>,
}

impl RunJournal {
    pub async fn open(store: Arc<dyn Store>, claim: Lease) -> Result<RunJournal, StoreError> {
        let earlier = store.records(&claim.run).await?;
        let earlier = earlier.into_iter().map(|record| (record.key.clone(), record)).collect();
        Ok(RunJournal { store, claim, earlier })
    }

    /// The journal of a run that was just made.
    pub fn fresh(store: Arc<dyn Store>, claim: Lease) -> RunJournal {
        RunJournal { store, claim, earlier: HashMap::new() }
    }

    /// Which life of the run this is, from 1.
    pub fn life(&self) -> u64 {
        self.claim.epoch
    }

    /// The run as it stands now, whoever has it.
    pub async fn run(&self) -> Result<Run, StoreError> {
        self.store.run(&self.claim.run).await
    }

    /// Says how the run ended.
    pub async fn finish(&self, ending: Ending, events: Vec<Event>) -> Result<Vec<u64>, StoreError> {
        self.store.finish(&self.claim, ending, events).await
    }
}

fn failed(error: StoreError) -> JournalError {
    match error {
        StoreError::Fenced(_) => JournalError::Fenced,
        error => JournalError::Failed(Box::new(error)),
    }
}

#[async_trait]
impl Journal for RunJournal {
    async fn find(&self, key: &Key) -> Result<Option<Record>, JournalError> {
        Ok(self.earlier.get(key).cloned())
    }

    async fn append(&self, record: Record, events: Vec<Event>) -> Result<Appended, JournalError> {
        self.store.append(&self.claim, record, events).await.map_err(failed)
    }
}

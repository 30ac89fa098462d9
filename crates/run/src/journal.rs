//! Journal of one run in the store. The graph engine reads and writes the run's effects through this journal.

use std::collections::HashMap;
use std::sync::Arc;

use assize_graph::{Appended, EffectKey, EffectRecord, GraphEvent, Journal, JournalError};
use async_trait::async_trait;

use crate::error::StoreError;
use crate::run::{Lease, Run};
use crate::{Ending, Store};

/// Journal of a run whose lease this process holds.
///
/// A run looks up the key of each effect once, before it executes the effect. All records of earlier epochs are read
/// when the journal is opened, so that these lookups need no access to the store. A lookup never needs a record of the
/// current epoch, because a run does not look up a key again after it has written the record.
#[derive(Debug)]
pub struct RunJournal {
    store: Arc<dyn Store>,
    lease: Lease,
    earlier: HashMap<EffectKey, EffectRecord>,
}

impl RunJournal {
    /// Opens the journal of a resumed run and reads the records of its earlier epochs.
    pub async fn open(store: Arc<dyn Store>, lease: Lease) -> Result<RunJournal, StoreError> {
        let earlier = store.records(&lease.run).await?;
        let earlier = earlier.into_iter().map(|record| (record.key.clone(), record)).collect();
        Ok(RunJournal { store, lease, earlier })
    }

    /// Opens the journal of a new run, which has no records.
    pub fn new(store: Arc<dyn Store>, lease: Lease) -> RunJournal {
        RunJournal { store, lease, earlier: HashMap::new() }
    }

    /// Epoch of the lease that this process holds on the run, counted from 1.
    pub fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    /// Reads the current state of the run from the store. The state can show that another process has claimed the run
    /// since this journal was opened.
    pub async fn run(&self) -> Result<Run, StoreError> {
        self.store.run(&self.lease.run).await
    }

    /// Stores how the run ended, with the last events of the run. Returns the ids of these events.
    pub async fn finish(
        &self,
        ending: Ending,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<u64>, StoreError> {
        self.store.finish(&self.lease, ending, events).await
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
    async fn find(&self, key: &EffectKey) -> Result<Option<EffectRecord>, JournalError> {
        Ok(self.earlier.get(key).cloned())
    }

    async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, JournalError> {
        self.store.append(&self.lease, record, events).await.map_err(failed)
    }
}

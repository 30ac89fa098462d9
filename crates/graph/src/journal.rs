//! Journal of a run: outcomes of effects, recorded so that no finished effect is executed again.
//!
//! An [`EffectRecord`] contains the key of an effect, the fingerprint of its request and its outcome. The record is
//! written once, together with its events. A resumed run executes its nodes again and replays the outcomes from the
//! journal. The state of the graph is never stored.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use assize_types::Fingerprint;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::key::EffectKey;

/// Journal record of one completed effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRecord {
    pub key: EffectKey,
    /// Fingerprint of the request; [`Fingerprint::NONE`] for records without a request.
    pub request: Fingerprint,
    pub outcome: EffectOutcome,
}

/// Outcome of an effect, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectOutcome {
    Done(String),
    /// The effect failed and the run continued. A failure that ends the run is not recorded, so that a resumed run
    /// tries the effect again.
    Failed(String),
}

/// Event of a run, which is sent to the run's subscribers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraphEvent {
    pub name: String,
    pub payload: Value,
}

impl GraphEvent {
    pub fn new(name: impl Into<String>, payload: Value) -> GraphEvent {
        GraphEvent { name: name.into(), payload }
    }
}

/// Result of appending a record to the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Appended {
    /// The record and its events were written. `event_ids` are the ids of the events.
    Recorded { event_ids: Vec<u64> },
    /// Nothing was written, because the journal already has a record under the key: the record in this variant.
    Existing(EffectRecord),
}

/// Error of reading or writing a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another process has taken over this run")]
    Fenced,
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

/// Journal of one run, which stores the outcomes of effects.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Returns the record under `key`, or `None` if there is none.
    async fn find(&self, key: &EffectKey) -> Result<Option<EffectRecord>, JournalError>;

    /// Writes a record and its events atomically, unless the key already has a record. When this function returns, a
    /// persistent journal has stored the record and the events durably.
    async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, JournalError>;

    /// In a forked run, returns the JSON outcome that the parent run recorded under the same key for the same
    /// request. Returns `None` in other runs; see [`ForkJournal`].
    fn inherited(&self, _key: &EffectKey, _request: Fingerprint) -> Option<String> {
        None
    }
}

/// Journal in the memory of the process, used in tests.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    records: HashMap<EffectKey, EffectRecord>,
    events: Vec<GraphEvent>,
}

impl MemoryJournal {
    pub fn new() -> MemoryJournal {
        MemoryJournal::default()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All records, sorted by key.
    pub fn records(&self) -> Vec<EffectRecord> {
        let mut records: Vec<EffectRecord> = self.inner().records.values().cloned().collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records
    }

    /// All events, in the order they were written.
    pub fn events(&self) -> Vec<GraphEvent> {
        self.inner().events.clone()
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn find(&self, key: &EffectKey) -> Result<Option<EffectRecord>, JournalError> {
        Ok(self.inner().records.get(key).cloned())
    }

    async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, JournalError> {
        let inner = &mut *self.inner();
        if let Some(existing) = inner.records.get(&record.key) {
            return Ok(Appended::Existing(existing.clone()));
        }
        inner.records.insert(record.key.clone(), record);
        let first = inner.events.len() as u64 + 1;
        inner.events.extend(events);
        Ok(Appended::Recorded { event_ids: (first..=inner.events.len() as u64).collect() })
    }
}

/// Journal of a run that was forked from an earlier run. An effect with the same key and request as in the earlier run
/// reuses the recorded outcome. All other effects are executed.
pub struct ForkJournal<J> {
    own: J,
    /// Request fingerprint and JSON outcome of each reusable record of the earlier run.
    old: HashMap<EffectKey, (Fingerprint, String)>,
}

impl<J> ForkJournal<J> {
    /// Creates the journal of a fork. `own` is the journal of the new run. `old` lists the records that the new run can
    /// reuse: all records of the earlier run, or only the records before the fork point. Effects that failed in the
    /// earlier run are executed again.
    pub fn new(own: J, old: impl IntoIterator<Item = EffectRecord>) -> ForkJournal<J> {
        let reusable = |record: EffectRecord| match record.outcome {
            EffectOutcome::Done(text) => Some((record.key, (record.request, text))),
            EffectOutcome::Failed(_) => None,
        };
        ForkJournal { own, old: old.into_iter().filter_map(reusable).collect() }
    }
}

impl<J> std::fmt::Debug for ForkJournal<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fork").field("old", &self.old.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl<J: Journal> Journal for ForkJournal<J> {
    async fn find(&self, key: &EffectKey) -> Result<Option<EffectRecord>, JournalError> {
        self.own.find(key).await
    }

    async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, JournalError> {
        self.own.append(record, events).await
    }

    fn inherited(&self, key: &EffectKey, request: Fingerprint) -> Option<String> {
        let (_, text) = self.old.get(key).filter(|(recorded, _)| *recorded == request)?;
        Some(text.clone())
    }
}

#[async_trait]
impl<J: Journal + ?Sized> Journal for std::sync::Arc<J> {
    async fn find(&self, key: &EffectKey) -> Result<Option<EffectRecord>, JournalError> {
        (**self).find(key).await
    }

    async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, JournalError> {
        (**self).append(record, events).await
    }

    fn inherited(&self, key: &EffectKey, request: Fingerprint) -> Option<String> {
        (**self).inherited(key, request)
    }
}

//! What has been done, kept so that it is never done twice.
//!
//! A [`Record`] is the key of an effect, the fingerprint of what was asked, and the outcome. It is
//! written once, together with the events of its step. Nodes are run again when a run is taken up
//! again, and find the outcomes of their effects here; the state of a run is never stored.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};

use assize_types::Fingerprint;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::key::Key;

/// One effect that has been done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub key: Key,
    /// What was asked; [`Fingerprint::NONE`] where nothing was.
    pub request: Fingerprint,
    pub outcome: Outcome,
}

/// How an effect ended, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done(String),
    /// It failed, and the run went on from there. A failure that ends a run is not recorded, so
    /// that the run can be taken up again and try anew.
    Failed(String),
}

/// Something that happened in a run, for whoever watches it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub name: String,
    pub payload: Value,
}

impl Event {
    pub fn new(name: impl Into<String>, payload: Value) -> Event {
        Event { name: name.into(), payload }
    }
}

/// What became of a record that was to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Appended {
    /// It is written, and so are its events, under these ids.
    Recorded { event_ids: Vec<u64> },
    /// There was one under this key already, and that one counts.
    Existing(Record),
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("another process has taken this run over")]
    Fenced,
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

/// The journal of one run.
#[async_trait]
pub trait Journal: Send + Sync {
    /// The record under a key, if there is one.
    async fn find(&self, key: &Key) -> Result<Option<Record>, JournalError>;

    /// Writes a record and the events of its step, all or nothing, unless the key has a record.
    /// Once this returns, they are as safe as the journal ever makes them.
    async fn append(&self, record: Record, events: Vec<Event>) -> Result<Appended, JournalError>;

    /// What another run was answered, as JSON, when it asked the very same thing under the same key;
    /// see [`Fork`].
    fn inherited(&self, _key: &Key, _request: Fingerprint) -> Option<String> {
        None
    }
}

/// A journal in memory: lost with the process, and enough for tests.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    records: HashMap<Key, Record>,
    events: Vec<Event>,
}

impl MemoryJournal {
    pub fn new() -> MemoryJournal {
        MemoryJournal::default()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All records, by key.
    pub fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.kept().records.values().cloned().collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records
    }

    /// All events, in the order in which they were written.
    pub fn events(&self) -> Vec<Event> {
        self.kept().events.clone()
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn find(&self, key: &Key) -> Result<Option<Record>, JournalError> {
        Ok(self.kept().records.get(key).cloned())
    }

    async fn append(&self, record: Record, events: Vec<Event>) -> Result<Appended, JournalError> {
        let kept = &mut *self.kept();
        if let Some(existing) = kept.records.get(&record.key) {
            return Ok(Appended::Existing(existing.clone()));
        }
        kept.records.insert(record.key.clone(), record);
        let first = kept.events.len() as u64 + 1;
        kept.events.extend(events);
        Ok(Appended::Recorded { event_ids: (first..=kept.events.len() as u64).collect() })
    }
}

/// The journal of a new run that starts from an old one: what was asked under the same key and in
/// the same words is taken over, everything else is asked anew.
pub struct Fork<J> {
    own: J,
    /// What was asked, and the answer.
    old: HashMap<Key, (Fingerprint, String)>,
}

impl<J> Fork<J> {
    /// `old` is what the new run may take over: all records of the old run, or those before the
    /// point from which it is to go another way. Failures are tried again.
    pub fn new(own: J, old: impl IntoIterator<Item = Record>) -> Fork<J> {
        let answered = |record: Record| match record.outcome {
            Outcome::Done(text) => Some((record.key, (record.request, text))),
            Outcome::Failed(_) => None,
        };
        Fork { own, old: old.into_iter().filter_map(answered).collect() }
    }
}

impl<J> std::fmt::Debug for Fork<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fork").field("old", &self.old.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl<J: Journal> Journal for Fork<J> {
    async fn find(&self, key: &Key) -> Result<Option<Record>, JournalError> {
        self.own.find(key).await
    }

    async fn append(&self, record: Record, events: Vec<Event>) -> Result<Appended, JournalError> {
        self.own.append(record, events).await
    }

    fn inherited(&self, key: &Key, request: Fingerprint) -> Option<String> {
        let (_, text) = self.old.get(key).filter(|(asked, _)| *asked == request)?;
        Some(text.clone())
    }
}

#[async_trait]
impl<J: Journal + ?Sized> Journal for std::sync::Arc<J> {
    async fn find(&self, key: &Key) -> Result<Option<Record>, JournalError> {
        (**self).find(key).await
    }

    async fn append(&self, record: Record, events: Vec<Event>) -> Result<Appended, JournalError> {
        (**self).append(record, events).await
    }

    fn inherited(&self, key: &Key, request: Fingerprint) -> Option<String> {
        (**self).inherited(key, request)
    }
}

//! Trait that every store of runs implements.
//!
//! A [`Store`] stores runs and their journals, the events that clients subscribe to, content-addressed artifacts, and
//! the audit log. A database or message log can implement the trait if it can create a record at most once, assign ids
//! that increase, and refuse writes that have an older epoch than the run.
//!
//! A process claims the lease of a run before it executes the run. A later claim invalidates every earlier lease: the
//! earlier lease holder gets [`StoreError::Fenced`] at its next write, and stops.

use std::time::Duration;

use assize_graph::{Appended, EffectRecord, GraphEvent};
use async_trait::async_trait;
use serde_json::Value;

use crate::artifact::{ArtifactId, ArtifactUse};
use crate::audit::{AuditEntry, AuditQuery, NewAuditEntry};
use crate::call::StoredCall;
use crate::error::StoreError;
use crate::run::{Ending, IdempotencyKey, Lease, NewRun, Run, RunFilter, RunId};

/// An event of a run in the store.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StoredEvent {
    /// Id of the event. Ids increase with every event of the store, over all runs, and may have gaps.
    pub id: u64,
    pub run: RunId,
    /// Time of the event, in milliseconds since 1970.
    pub at: u64,
    pub name: String,
    pub payload: Value,
}

/// Filter for reading events of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    /// Return only events of these runs; if empty, of all runs. Runs that do not exist are ignored.
    pub runs: Vec<RunId>,
    /// Return only events with an id above this number.
    pub after: u64,
    /// Maximum number of events to return, earliest first; 0 for no limit.
    pub limit: usize,
}

impl EventQuery {
    /// Query for all events of one run.
    pub fn of_run(run: &Run) -> EventQuery {
        EventQuery { runs: vec![run.id.clone()], ..EventQuery::default() }
    }
}

/// One of the two logs of the store: the events of runs, or the audit log. [`Store::wait_for_entry`] waits for the
/// next entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreLog {
    Events,
    Audit,
}

/// Persistent store of runs. All methods are safe to call from many tasks and processes at once.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Creates a run with a new id and claims its lease for `holder`. If the idempotency key of the run was used
    /// before, returns the error [`StoreError::IdempotencyKeyUsed`].
    async fn create_run(&self, run: NewRun, holder: &str) -> Result<(Run, Lease), StoreError>;

    /// Finds the run that was created with an idempotency key. The returned `bool` is true if the request that created
    /// the run has the same fingerprint as the request in `once`.
    async fn find_by_idempotency_key(
        &self,
        once: &IdempotencyKey,
    ) -> Result<Option<(RunId, bool)>, StoreError>;

    async fn run(&self, id: &RunId) -> Result<Run, StoreError>;

    /// Returns the runs that match the filter, latest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError>;

    /// Claims the lease of a run and invalidates earlier leases. Only the returned lease allows writing to the journal
    /// of the run and finishing the run. If `seen` is given, the claim succeeds only if `seen` is the current epoch of
    /// the run.
    async fn claim(&self, id: &RunId, holder: &str, seen: Option<u64>)
    -> Result<Lease, StoreError>;

    /// Writes a journal record and the events of its step atomically. If the journal already has a record with the same
    /// key, writes nothing and returns the existing record.
    async fn append(
        &self,
        claim: &Lease,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, StoreError>;

    /// Returns all journal records of a run, in the order in which they were written.
    async fn records(&self, id: &RunId) -> Result<Vec<EffectRecord>, StoreError>;

    /// Stores the state of a model call, under the number of the call in this epoch: once before the call is sent, and
    /// once when the call has ended. If the process dies, the next lease holder can then compute which calls may have
    /// been paid for without a recorded answer.
    ///
    /// If the lease is outdated, a call that is about to be sent is refused with [`StoreError::Fenced`]. The end of a
    /// call is stored even if the lease is outdated.
    async fn store_call(
        &self,
        claim: &Lease,
        number: u64,
        noted: StoredCall,
    ) -> Result<(), StoreError>;

    /// Returns all model calls of a run, each with its epoch. The list is empty if the run does not exist.
    async fn calls(&self, id: &RunId) -> Result<Vec<(u64, StoredCall)>, StoreError>;

    /// Total time in which the store could not be written to, counted since the store was opened.
    fn unavailable_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Stores how a run ended, with the last events of the run, and returns the ids of these events. The run can be
    /// claimed again, unless it is done.
    async fn finish(
        &self,
        claim: &Lease,
        ending: Ending,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<u64>, StoreError>;

    /// Cancels a run that has the status `Running`, even if another process holds its lease. Later writes of the lease
    /// holder are refused. The run is cancelled only if it still has the epoch in `seen`.
    async fn cancel_run(
        &self,
        seen: &Lease,
        reason: &str,
        events: Vec<GraphEvent>,
    ) -> Result<(), StoreError>;

    /// Returns the events that match the query, by ascending id.
    async fn events(&self, query: EventQuery) -> Result<Vec<StoredEvent>, StoreError>;

    /// Returns an upper bound of the ids of all events written so far; 0 if no event was ever written.
    async fn last_event(&self) -> Result<u64, StoreError>;

    /// Waits until a log of the store has an entry with an id above `beyond`, written by any process.
    async fn wait_for_entry(&self, log: StoreLog, beyond: u64) -> Result<(), StoreError>;

    /// Removes a run with its journal and events, and the artifacts that no other run uses, and writes an audit entry.
    /// The run is removed only if it still has the epoch in `seen`.
    async fn remove_run(&self, seen: &Lease) -> Result<(), StoreError>;

    /// Stores an artifact of a run under a name. Replaces an artifact that the run stored under this name before.
    async fn put_artifact(
        &self,
        run: &RunId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactId, StoreError>;

    async fn artifact(&self, id: ArtifactId) -> Result<Vec<u8>, StoreError>;

    /// Returns the artifacts of a run, sorted by name.
    async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactUse>, StoreError>;

    /// Adds an entry to the audit log. The entry contains the hash of the previous entry.
    async fn audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, StoreError>;

    /// Returns the entries of the audit log that match the query, oldest first.
    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the id of the last audit entry ever written; 0 if there is none. The id is stored separately from the
    /// entries, so that removed entries at the end of the log are detected.
    async fn audit_head(&self) -> Result<u64, StoreError>;
}

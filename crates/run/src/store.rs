//! Trait that every store of runs implements.
//!
//! A [`Store`] holds runs and their journals, the events that clients follow, content-addressed artifacts, and the
//! audit log. A database or message log can implement it if it has records that are created once, ids that increase,
//! and an epoch that fences the holders of older leases.
//!
//! A process claims the lease of a run before it works on it. A later claim invalidates every earlier one: the earlier
//! lease holder gets [`StoreError::Fenced`] at its next write, and stops.

use std::time::Duration;

use assize_graph::{Appended, EffectRecord, GraphEvent};
use async_trait::async_trait;
use serde_json::Value;

use crate::artifact::{ArtifactId, ArtifactUse};
use crate::audit::{AuditEntry, AuditQuery, NewAuditEntry};
use crate::call::StoredCall;
use crate::error::StoreError;
use crate::run::{Ending, IdempotencyKey, Lease, NewRun, Run, RunFilter, RunId};

/// An event in the store.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StoredEvent {
    /// Increases with every event of the store, over all runs, with gaps.
    pub id: u64,
    pub run: RunId,
    /// Milliseconds since 1970.
    pub at: u64,
    pub name: String,
    pub payload: Value,
}

/// Filter for events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    /// Only events of these runs; of all runs if empty. Runs that do not exist are ignored.
    pub runs: Vec<RunId>,
    /// Only events with a larger id.
    pub after: u64,
    /// Maximum number of events, earliest first; 0 for no limit.
    pub limit: usize,
}

impl EventQuery {
    /// All events of one run.
    pub fn of_run(run: &Run) -> EventQuery {
        EventQuery { runs: vec![run.id.clone()], ..EventQuery::default() }
    }
}

/// A log of the store that [`Store::grown`] can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreLog {
    Events,
    Audit,
}

/// Persistent store of runs. All methods are safe to call from many tasks and processes at once.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Creates a run with a new id and claims its lease for `holder`. Fails if its idempotency key was used before
    /// ([`StoreError::AskedBefore`]).
    async fn create_run(&self, run: NewRun, holder: &str) -> Result<(Run, Lease), StoreError>;

    /// Finds the run that was created with an idempotency key, and whether its request was the same.
    async fn asked_before(
        &self,
        once: &IdempotencyKey,
    ) -> Result<Option<(RunId, bool)>, StoreError>;

    async fn run(&self, id: &RunId) -> Result<Run, StoreError>;

    /// Runs that match the filter, latest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError>;

    /// Claims the lease of a run: from now on only this lease allows adding to its journal and finishing it.
    /// With `seen`, only if the run still has that epoch.
    async fn claim(&self, id: &RunId, holder: &str, seen: Option<u64>)
    -> Result<Lease, StoreError>;

    /// Writes a record and the events of its step atomically. If the key already has a record, writes nothing and
    /// returns the existing record.
    async fn append(
        &self,
        claim: &Lease,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, StoreError>;

    /// All records of a run, in the order in which they were written.
    async fn records(&self, id: &RunId) -> Result<Vec<EffectRecord>, StoreError>;

    /// Stores the state of a model call under its number in this epoch: before it is sent, and when it has ended. If
    /// the process dies, the next lease holder knows which calls may have been paid for without a recorded answer.
    ///
    /// A call about to be sent is refused if the lease is outdated ([`StoreError::Fenced`]). The end of a call is
    /// stored in any case.
    async fn note_call(
        &self,
        claim: &Lease,
        number: u64,
        noted: StoredCall,
    ) -> Result<(), StoreError>;

    /// All model calls of a run, each with its epoch; empty if the run does not exist.
    async fn calls(&self, id: &RunId) -> Result<Vec<(u64, StoredCall)>, StoreError>;

    /// Total time since the store was opened during which nothing could be written.
    fn away(&self) -> Duration {
        Duration::ZERO
    }

    /// Stores how a run ended, with its last events. The run can be claimed again, unless it is done.
    async fn finish(
        &self,
        claim: &Lease,
        ending: Ending,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<u64>, StoreError>;

    /// Cancels a running run in any process, if it still has the epoch in `seen`. Later writes of the lease holder are
    /// refused.
    async fn stop(
        &self,
        seen: &Lease,
        reason: &str,
        events: Vec<GraphEvent>,
    ) -> Result<(), StoreError>;

    /// Events that match the query, by ascending id.
    async fn events(&self, query: EventQuery) -> Result<Vec<StoredEvent>, StoreError>;

    /// Upper bound of the ids of all events written so far; 0 if there never was one.
    async fn last_event(&self) -> Result<u64, StoreError>;

    /// Waits until the log has an entry with an id above `beyond`, written by any process.
    async fn grown(&self, log: StoreLog, beyond: u64) -> Result<(), StoreError>;

    /// Removes a run and everything that no other run uses, and writes an audit entry; only if the run still has the
    /// epoch in `seen`.
    async fn remove_run(&self, seen: &Lease) -> Result<(), StoreError>;

    /// Stores an artifact for a run under a name, replacing an earlier one of that name.
    async fn put_artifact(
        &self,
        run: &RunId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactId, StoreError>;

    async fn artifact(&self, id: ArtifactId) -> Result<Vec<u8>, StoreError>;

    /// The artifacts of a run, by name.
    async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactUse>, StoreError>;

    /// Adds an entry to the audit log, chained to the previous one.
    async fn audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, StoreError>;

    /// Entries of the audit log, oldest first.
    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError>;

    /// Id of the last audit entry ever written, stored separately from the entries; 0 if there is none.
    async fn audit_head(&self) -> Result<u64, StoreError>;
}

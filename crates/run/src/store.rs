//! What every store of runs does.
//!
//! A [`Store`] keeps runs and their journals, the events that clients follow, artifacts by the hash of their content,
//! and the audit log. A database or message log can implement it if it has records that are created once, ids that
//! increase, and an epoch that fences the holders of older leases.
//!
//! A process claims the lease of a run before it works on it. A later claim makes every earlier one void: the earlier
//! holder gets [`StoreError::Fenced`] at its next write, and stops.

use std::time::Duration;

use assize_graph::{Appended, Event, Record};
use async_trait::async_trait;
use serde_json::Value;

use crate::artifact::{ArtifactId, ArtifactUse};
use crate::audit::{AuditEntry, AuditQuery, NewAuditEntry};
use crate::call::Noted;
use crate::error::StoreError;
use crate::run::{Ending, IdempotencyKey, Lease, NewRun, Run, RunFilter, RunId};

/// An event as it was written.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StoredEvent {
    /// Increases with every event of the store, whatever run it belongs to. There are gaps.
    pub id: u64,
    pub run: RunId,
    /// Milliseconds since 1970.
    pub at: u64,
    pub name: String,
    pub payload: Value,
}

/// Which events are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    /// Of these runs, as far as they are there; of all, if none is named.
    pub runs: Vec<RunId>,
    /// With ids above this one.
    pub after: u64,
    /// At most so many, the earliest first; 0 for all of them.
    pub limit: usize,
}

impl EventQuery {
    /// All events of one run.
    pub fn of_run(run: &Run) -> EventQuery {
        EventQuery { runs: vec![run.id.clone()], ..EventQuery::default() }
    }
}

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    Events,
    Audit,
}

/// What outlives a process. All methods are safe to call from many tasks and processes at once.
#[async_trait]
pub trait Store: std::fmt::Debug + Send + Sync {
    /// Makes a run, with an id of its own, claimed by its maker; unless one was made under the same key
    /// before ([`StoreError::AskedBefore`]).
    async fn create_run(&self, run: NewRun, holder: &str) -> Result<(Run, Lease), StoreError>;

    /// The run that was asked for under a key, and whether it was the same that was asked for.
    async fn asked_before(
        &self,
        once: &IdempotencyKey,
    ) -> Result<Option<(RunId, bool)>, StoreError>;

    async fn run(&self, id: &RunId) -> Result<Run, StoreError>;

    /// Runs that fit, the latest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError>;

    /// Takes a run over: from now on only the holder of this claim can add to its journal and say
    /// how it ended.
    /// With `seen`, only if nobody has claimed it since it had that epoch.
    async fn claim(&self, id: &RunId, holder: &str, seen: Option<u64>)
    -> Result<Lease, StoreError>;

    /// Writes a record and the events of its step, all or nothing, unless there is one under its
    /// key: then that one counts, and comes back.
    async fn append(
        &self,
        claim: &Lease,
        record: Record,
        events: Vec<Event>,
    ) -> Result<Appended, StoreError>;

    /// All records of a run, in the order in which they were written.
    async fn records(&self, id: &RunId) -> Result<Vec<Record>, StoreError>;

    /// Notes how far a call to a model is, under its number in this epoch of the run: before it is sent, and when it is
    /// over. Should the process die, the next one knows what may have been paid for besides what was recorded.
    ///
    /// A call that is to be sent is refused if the run was claimed anew ([`StoreError::Fenced`]). How a call ended is
    /// noted all the same.
    async fn note_call(&self, claim: &Lease, number: u64, noted: Noted) -> Result<(), StoreError>;

    /// All calls of a run, each with the epoch in which it was made; none of a run that is not there.
    async fn calls(&self, id: &RunId) -> Result<Vec<(u64, Noted)>, StoreError>;

    /// How long nothing could be noted since the store was opened, in all.
    fn away(&self) -> Duration {
        Duration::ZERO
    }

    /// Says how a run ended, with the events of its end. It can be claimed again, unless it is done.
    async fn finish(
        &self,
        claim: &Lease,
        ending: Ending,
        events: Vec<Event>,
    ) -> Result<Vec<u64>, StoreError>;

    /// Ends a run that is under way, whoever has it, if nobody has claimed it since it was seen like this: what they
    /// write from then on is refused.
    async fn stop(&self, seen: &Lease, reason: &str, events: Vec<Event>) -> Result<(), StoreError>;

    /// Events in the order of their ids.
    async fn events(&self, query: EventQuery) -> Result<Vec<StoredEvent>, StoreError>;

    /// An id that no event there is, or was, is above; 0 if there never was one.
    async fn last_event(&self) -> Result<u64, StoreError>;

    /// Waits until there is something with an id above `beyond`, whoever wrote it.
    async fn grown(&self, log: Log, beyond: u64) -> Result<(), StoreError>;

    /// Removes a run with all that belongs to it alone, and says so in the audit log; only if nobody
    /// has claimed it since it was seen like this.
    async fn remove_run(&self, seen: &Lease) -> Result<(), StoreError>;

    /// Keeps bytes for a run under a name, replacing what it had there.
    async fn put_artifact(
        &self,
        run: &RunId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactId, StoreError>;

    async fn artifact(&self, id: ArtifactId) -> Result<Vec<u8>, StoreError>;

    /// The artifacts of a run, by name.
    async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactUse>, StoreError>;

    /// Adds an entry to the audit log, chained to the one before.
    async fn audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, StoreError>;

    /// Entries of the audit log, oldest first.
    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError>;

    /// The id of the last entry that was ever written to it, kept apart from the entries; 0 if none was.
    async fn audit_head(&self) -> Result<u64, StoreError>;
}

//! Messages of the store, and their subjects.
//!
//! All messages of a run are in one stream. Their order decides which are valid (see `life.rs`). Each message has its
//! own subject, so that it is written once. Content that is too large for a message is stored in pieces.

use assize_graph::{EffectKey, EffectOutcome, EffectRecord, GraphEvent};
use assize_run::{ArtifactUse, Ending, RunId, RunKind, RunStatus};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Stream of runs, their journals and their events.
pub(super) const RUNS: &str = "runs";
/// Stream of large content, in pieces.
pub(super) const PIECES: &str = "pieces";
pub(super) const AUDIT: &str = "audit";
/// Stream of model calls.
pub(super) const CALLS: &str = "calls";

/// Header with the number of events in a message, if there are any.
pub(super) const EVENTS: &str = "Assize-Events";

/// Maximum number of events in a message. Event ids start at the message's sequence number times this.
pub(super) const EVENTS_OF_A_MESSAGE: u64 = 1 << 16;

/// Ids of the events of a message.
pub(super) fn event_ids(sequence: u64, count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map(move |index| sequence * EVENTS_OF_A_MESSAGE + index)
}

/// Creation of a run. Its creator holds the lease in epoch 1.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunCreated {
    pub(super) at: u64,
    pub(super) kind: RunKind,
    pub(super) title: String,
    pub(super) parent: Option<RunId>,
    pub(super) input: Value,
    pub(super) holder: String,
    pub(super) artifacts: Vec<ArtifactMessage>,
    /// Subject of the idempotency key.
    pub(super) once: Option<String>,
}

/// Change of a run's lease.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeaseChange {
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) kind: LeaseChangeKind,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "turn", rename_all = "snake_case")]
pub(super) enum LeaseChangeKind {
    Claimed {
        holder: String,
    },
    /// A running run was cancelled. It has no lease holder.
    Stopped {
        reason: String,
        events: Vec<GraphEvent>,
    },
    /// The run was removed.
    Removed,
}

/// End of a run in one of its epochs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndMessage {
    pub(super) at: u64,
    pub(super) status: RunStatus,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) events: Vec<GraphEvent>,
}

impl EndMessage {
    pub(super) fn of(at: u64, ending: Ending, events: Vec<GraphEvent>) -> EndMessage {
        let (status, result, error) = match ending {
            Ending::Done { result } => (RunStatus::Done, Some(result), None),
            Ending::Failed { error } => (RunStatus::Failed, None, Some(error)),
            Ending::Cancelled { reason } => (RunStatus::Cancelled, None, Some(reason)),
        };
        EndMessage { at, status, result, error, events }
    }
}

/// A record of the journal, and the events of its step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordMessage {
    pub(super) at: u64,
    pub(super) key: EffectKey,
    /// Fingerprint of the request, if the effect has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<Fingerprint>,
    pub(super) outcome: EffectOutcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<GraphEvent>,
}

impl RecordMessage {
    pub(super) fn record(self) -> EffectRecord {
        let request = self.request.unwrap_or(Fingerprint::NONE);
        EffectRecord { key: self.key, request, outcome: self.outcome }
    }
}

/// An artifact of a run, under a name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ArtifactMessage {
    pub(super) name: String,
    pub(super) id: Fingerprint,
    pub(super) bytes: u64,
}

impl From<ArtifactMessage> for ArtifactUse {
    fn from(used: ArtifactMessage) -> ArtifactUse {
        ArtifactUse { name: used.name, id: used.id, bytes: used.bytes }
    }
}

/// The run that was created with an idempotency key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyedRun {
    pub(super) run: RunId,
    pub(super) request: Fingerprint,
}

/// Kind of a run's message, with its epoch if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunMessageKind {
    Born,
    Turn(u64),
    Ended(u64),
    Written(u64),
    Used,
}

impl RunMessageKind {
    /// Parses the parts of the subject after the run's id.
    pub(super) fn of<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<RunMessageKind> {
        let kind = match (words.next()?, words.next()) {
            ("state", Some("born")) => RunMessageKind::Born,
            ("state", Some("turn")) => RunMessageKind::Turn(words.next()?.parse().ok()?),
            ("state", Some("ended")) => RunMessageKind::Ended(words.next()?.parse().ok()?),
            ("record", Some(epoch)) => RunMessageKind::Written(epoch.parse().ok()?),
            ("used", _) => RunMessageKind::Used,
            _ => return None,
        };
        Some(kind)
    }
}

// The functions below return subjects without the name of the cluster.

pub(super) fn born(run: &RunId) -> String {
    format!("run.{run}.state.born")
}

pub(super) fn turn(run: &RunId, epoch: u64) -> String {
    format!("run.{run}.state.turn.{epoch}")
}

pub(super) fn ended(run: &RunId, epoch: u64) -> String {
    format!("run.{run}.state.ended.{epoch}")
}

pub(super) fn record(run: &RunId, epoch: u64, key: &EffectKey) -> String {
    format!("run.{run}.record.{epoch}.{}", short(key.as_str()))
}

pub(super) fn used(run: &RunId, name: &str) -> String {
    format!("run.{run}.used.{}", short(name))
}

pub(super) fn asked(key: &str) -> String {
    format!("asked.{}", short(key))
}

pub(super) fn piece(run: &RunId, whole: Fingerprint, index: usize) -> String {
    format!("piece.{run}.{whole}.{index}")
}

/// Part of a subject that stands for any text: the first half of its fingerprint.
fn short(text: &str) -> String {
    Fingerprint::of(text).to_string()[..32].to_owned()
}

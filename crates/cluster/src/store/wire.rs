//! Messages of the cluster store, and their NATS subjects.
//!
//! One stream contains the messages with the state, the journal and the events of all runs. The order of the messages
//! of a run determines which of them are valid (see `timeline.rs`). Each message has its own subject, so that it is
//! written only once. Separate streams contain the model calls, and the pieces of content that is too large for a
//! message.

use assize_graph::{EffectKey, EffectOutcome, EffectRecord, GraphEvent};
use assize_run::{ArtifactUse, Ending, RunId, RunKind, RunStatus};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the stream that contains the runs, their journals and their events.
pub(super) const RUNS: &str = "runs";
/// Name of the stream that contains large content in pieces.
pub(super) const PIECES: &str = "pieces";
pub(super) const AUDIT: &str = "audit";
/// Name of the stream that contains the model calls.
pub(super) const CALLS: &str = "calls";

/// Header with the number of events in a message. A message without events does not have this header.
pub(super) const EVENTS: &str = "Assize-Events";

/// Maximum number of events in a message. The id of a message's first event is the sequence number of the message,
/// times this constant.
pub(super) const EVENTS_OF_A_MESSAGE: u64 = 1 << 16;

/// Returns the ids of the events of the message with this sequence number.
pub(super) fn event_ids(sequence: u64, count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map(move |index| sequence * EVENTS_OF_A_MESSAGE + index)
}

/// Message that creates a run. The process that creates the run holds the lease in epoch 1.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunCreated {
    pub(super) at: u64,
    pub(super) kind: RunKind,
    pub(super) title: String,
    pub(super) parent: Option<RunId>,
    pub(super) input: Value,
    pub(super) holder: String,
    pub(super) artifacts: Vec<ArtifactMessage>,
    /// NATS subject of the idempotency key that the run was created with, if any.
    pub(super) once: Option<String>,
}

/// Message that changes the lease of a run.
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
    /// The run was cancelled while it was running, so it has no lease holder any more.
    Stopped {
        reason: String,
        events: Vec<GraphEvent>,
    },
    /// The run was removed.
    Removed,
}

/// Message that ends a run. Each epoch of the run has at most one such message.
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

/// Message with one journal record of a run, and the events of the step that wrote the record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordMessage {
    pub(super) at: u64,
    pub(super) key: EffectKey,
    /// Fingerprint of the effect's request, such as a model request; `None` if the effect has no request.
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

/// Message that stores the name, id and size of an artifact that a run uses.
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

/// Message that reserves an idempotency key for a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeyedRun {
    pub(super) run: RunId,
    pub(super) request: Fingerprint,
}

/// Kind of a message of a run, with its epoch if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunMessageKind {
    Created,
    LeaseChange(u64),
    Ended(u64),
    Written(u64),
    Used,
}

impl RunMessageKind {
    /// Parses the kind of a message from those parts of its NATS subject that follow the run id.
    pub(super) fn of<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<RunMessageKind> {
        let kind = match (words.next()?, words.next()) {
            ("state", Some("born")) => RunMessageKind::Created,
            ("state", Some("turn")) => RunMessageKind::LeaseChange(words.next()?.parse().ok()?),
            ("state", Some("ended")) => RunMessageKind::Ended(words.next()?.parse().ok()?),
            ("record", Some(epoch)) => RunMessageKind::Written(epoch.parse().ok()?),
            ("used", _) => RunMessageKind::Used,
            _ => return None,
        };
        Some(kind)
    }
}

// The following functions return NATS subjects without the name of the cluster at the beginning.

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

/// Converts any text to a valid part of a NATS subject: the first half of the text's fingerprint.
fn short(text: &str) -> String {
    Fingerprint::of(text).to_string()[..32].to_owned()
}

//! What is written to the servers, and where.
//!
//! Everything about a run is in one stream, in the order in which it happened: that order decides what
//! counts (see `life.rs`). Each message has a subject of its own, so that it is written once. What is too
//! large for a message is beside it, in pieces.

use assize_graph::{Event, Key, Outcome, Record};
use assize_run::{ArtifactUse, Ending, RunId, RunKind, RunStatus};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Runs, their journals and their events.
pub(super) const RUNS: &str = "runs";
/// What is large, in pieces.
pub(super) const PIECES: &str = "pieces";
pub(super) const AUDIT: &str = "audit";
/// Calls to models, before and after they are made.
pub(super) const CALLS: &str = "calls";

/// How many events a message has, where it has any.
pub(super) const EVENTS: &str = "Assize-Events";

/// So many events fit a message: each has a number of its own in its place.
pub(super) const EVENTS_OF_A_MESSAGE: u64 = 1 << 16;

/// The ids of the events of a message.
pub(super) fn event_ids(place: u64, count: usize) -> impl Iterator<Item = u64> {
    (0..count as u64).map(move |index| place * EVENTS_OF_A_MESSAGE + index)
}

/// How a run begins. Whoever made it holds it, in epoch 1.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Born {
    pub(super) at: u64,
    pub(super) kind: RunKind,
    pub(super) title: String,
    pub(super) parent: Option<RunId>,
    pub(super) input: Value,
    pub(super) holder: String,
    pub(super) artifacts: Vec<Used>,
    /// The subject under which it was asked for.
    pub(super) once: Option<String>,
}

/// Who has a run from now on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) at: u64,
    #[serde(flatten)]
    pub(super) kind: TurnKind,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "turn", rename_all = "snake_case")]
pub(super) enum TurnKind {
    Claimed {
        holder: String,
    },
    /// Nobody; it was under way, and was stopped.
    Stopped {
        reason: String,
        events: Vec<Event>,
    },
    /// Nobody, for good.
    Removed,
}

/// How a run ended in one of its epochs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) at: u64,
    pub(super) status: RunStatus,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) events: Vec<Event>,
}

impl Ended {
    pub(super) fn of(at: u64, ending: Ending, events: Vec<Event>) -> Ended {
        let (status, result, error) = match ending {
            Ending::Done { result } => (RunStatus::Done, Some(result), None),
            Ending::Failed { error } => (RunStatus::Failed, None, Some(error)),
            Ending::Cancelled { reason } => (RunStatus::Cancelled, None, Some(reason)),
        };
        Ended { at, status, result, error, events }
    }
}

/// A record of the journal, and the events of its step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) at: u64,
    pub(super) key: Key,
    /// What was asked, where anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<Fingerprint>,
    pub(super) outcome: Outcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<Event>,
}

impl Written {
    pub(super) fn record(self) -> Record {
        let request = self.request.unwrap_or(Fingerprint::NONE);
        Record { key: self.key, request, outcome: self.outcome }
    }
}

/// An artifact of a run, under a name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Used {
    pub(super) name: String,
    pub(super) id: Fingerprint,
    pub(super) bytes: u64,
}

impl From<Used> for ArtifactUse {
    fn from(used: Used) -> ArtifactUse {
        ArtifactUse { name: used.name, id: used.id, bytes: used.bytes }
    }
}

/// The run that was made under a key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) run: RunId,
    pub(super) request: Fingerprint,
}

/// Which of the messages of a run one is, by its subject without the cluster's name: `run.ID.…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Born,
    Turn(u64),
    Ended(u64),
    Written(u64),
    Used,
}

impl Kind {
    /// By the words after the run's name.
    pub(super) fn of<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Kind> {
        let kind = match (words.next()?, words.next()) {
            ("state", Some("born")) => Kind::Born,
            ("state", Some("turn")) => Kind::Turn(words.next()?.parse().ok()?),
            ("state", Some("ended")) => Kind::Ended(words.next()?.parse().ok()?),
            ("record", Some(epoch)) => Kind::Written(epoch.parse().ok()?),
            ("used", _) => Kind::Used,
            _ => return None,
        };
        Some(kind)
    }
}

/// Subjects, without the name of the cluster before them.
pub(super) fn born(run: &RunId) -> String {
    format!("run.{run}.state.born")
}

pub(super) fn turn(run: &RunId, epoch: u64) -> String {
    format!("run.{run}.state.turn.{epoch}")
}

pub(super) fn ended(run: &RunId, epoch: u64) -> String {
    format!("run.{run}.state.ended.{epoch}")
}

pub(super) fn record(run: &RunId, epoch: u64, key: &Key) -> String {
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

/// A word for what may be any text: half a fingerprint.
fn short(text: &str) -> String {
    Fingerprint::of(text).to_string()[..32].to_owned()
}

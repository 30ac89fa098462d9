//! Runs in the form that the store uses: id, input, status, lease and ending.

use std::fmt;
use std::str::FromStr;

use assize_types::{Failure, FailureKind, Fingerprint};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};

use crate::kind::RunKind;

/// Id of a run: its kind and a random suffix, such as `debate-k3v9x2ma`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(String);

assize_types::serde_as_text!(RunId);

/// Error for a text that is not a valid run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid run id `{0}`: expected a text like `debate-k3v9x2ma`")]
pub struct InvalidRunId(String);

impl RunId {
    /// Characters of the random suffix: letters and digits that are not easily confused with one another.
    const ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";

    /// Generates an id with a random suffix for a run of this kind.
    pub fn random(kind: RunKind) -> RunId {
        let letter = || char::from(Self::ALPHABET[fastrand::usize(..Self::ALPHABET.len())]);
        let tail: String = std::iter::repeat_with(letter).take(8).collect();
        RunId(format!("{kind}-{tail}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Kind of the run, from the first part of the id; `None` if that part is not the name of a kind.
    pub(crate) fn kind(&self) -> Option<RunKind> {
        self.0.split('-').next()?.parse().ok()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = InvalidRunId;

    fn from_str(text: &str) -> Result<RunId, InvalidRunId> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > 60 || !text.chars().all(plain) {
            return Err(InvalidRunId(assize_types::text::shorten(text, 60)));
        }
        Ok(RunId(text.to_owned()))
    }
}

/// Content of a run that is not created yet. The store adds the id, the times and the status.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    pub kind: RunKind,
    /// One line that describes the run to users.
    pub title: String,
    /// Id of the run that the new run is forked from.
    pub parent: Option<RunId>,
    /// All data needed to repeat the run, except for large data, which is in `artifacts`.
    pub input: Value,
    /// Large parts of the run's input, by name. They are stored atomically with the run.
    pub artifacts: Vec<(String, Vec<u8>)>,
    /// Idempotency key of the request that creates the run.
    pub idempotency_key: Option<IdempotencyKey>,
}

/// Key that a client sends with a request, so that repeating the request creates no second run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key itself. The client chooses a unique key for each run that it wants to create.
    pub key: String,
    /// Fingerprint of the whole request, to detect a different request that is sent with the same key.
    pub request: Fingerprint,
}

/// A run in the store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    pub id: RunId,
    /// Sequence number among all runs, in the order of their creation.
    #[serde(skip)]
    pub number: u64,
    pub kind: RunKind,
    pub title: String,
    pub status: RunStatus,
    pub parent: Option<RunId>,
    /// Time of creation, in milliseconds since 1970.
    pub created: u64,
    /// Time of the last change, in milliseconds since 1970.
    pub updated: u64,
    /// Number of times that a process has claimed the lease on the run.
    pub epoch: u64,
    /// The last lease holder of the run: a [`LeaseHolder`](crate::LeaseHolder) as JSON.
    pub holder: Option<String>,
    pub input: Value,
    /// Result of the run; `None` until the run is done.
    pub result: Option<Value>,
    /// Error message of a failed run, or the reason why a run was cancelled.
    pub error: Option<String>,
}

impl Run {
    /// Parses the stored result of the run.
    ///
    /// # Errors
    /// When another version of assize wrote the result, or the run is not done.
    pub fn read_result<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        read_result(self.result.clone().unwrap_or_default())
    }
}

/// Parses the stored result of a run.
///
/// # Errors
/// When another version of assize wrote the result.
pub fn read_result<T: DeserializeOwned>(result: Value) -> Result<T, Failure> {
    serde_json::from_value(result).map_err(|error| {
        Failure::new(FailureKind::Environment, format!("cannot read the stored result: {error}"))
    })
}

/// Stored status of a run. A run whose process was killed keeps the status `Running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// The run completed. It cannot be claimed any more.
    Done,
    /// The run failed. It can be resumed.
    Failed,
    /// The run was cancelled. It can be resumed.
    Cancelled,
}

impl RunStatus {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Filter for runs. The default matches all runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    pub kind: Option<RunKind>,
    pub status: Option<RunStatus>,
    /// Return only runs whose id starts with this text.
    pub prefix: Option<String>,
    /// Return only runs whose title contains this text, ignoring case.
    pub title: Option<String>,
    /// Return only runs with a sequence number below this number.
    pub before: Option<u64>,
    /// Maximum number of runs to return; 0 for no limit.
    pub limit: usize,
}

/// The right of a process to write to a run. A lease ends when another process claims the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub run: RunId,
    pub epoch: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    Done { result: Value },
    Failed { error: String },
    Cancelled { reason: String },
}

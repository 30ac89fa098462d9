//! Runs as the store holds them: id, input, status, lease and ending.

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
    /// Letters and digits that are not easily confused.
    const ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";

    /// Generates a random id.
    pub fn random(kind: RunKind) -> RunId {
        let letter = || char::from(Self::ALPHABET[fastrand::usize(..Self::ALPHABET.len())]);
        let tail: String = std::iter::repeat_with(letter).take(8).collect();
        RunId(format!("{kind}-{tail}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind of run that the id starts with.
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

/// A run to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    pub kind: RunKind,
    /// One line that describes the run to users.
    pub title: String,
    /// The run that it was forked from.
    pub parent: Option<RunId>,
    /// Everything needed to repeat the run, except for large data, which is in `artifacts`.
    pub input: Value,
    /// Large parts of the input, by name. They are stored atomically with the run.
    pub artifacts: Vec<(String, Vec<u8>)>,
    /// Idempotency key of the request.
    pub once: Option<IdempotencyKey>,
}

/// Key that a client sends with a request, so that repeating the request creates no second run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Chosen by the client, and unique for each intended run.
    pub key: String,
    /// Fingerprint of the whole request.
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
    /// Milliseconds since 1970.
    pub created: u64,
    pub updated: u64,
    /// Number of times the lease was claimed.
    pub epoch: u64,
    /// The last lease holder: a [`LeaseHolder`](crate::LeaseHolder) as JSON.
    pub holder: Option<String>,
    pub input: Value,
    /// Result, once the run is done.
    pub result: Option<Value>,
    /// Why the run ended, if it failed or was cancelled.
    pub error: Option<String>,
}

impl Run {
    /// Parses the result of the run.
    ///
    /// # Errors
    /// When another version of assize wrote the result, or the run is not done.
    pub fn read_result<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        read_result(self.result.clone().unwrap_or_default())
    }
}

/// Parses the result of a run.
///
/// # Errors
/// When another version of assize wrote the result.
pub fn read_result<T: DeserializeOwned>(result: Value) -> Result<T, Failure> {
    serde_json::from_value(result).map_err(|error| {
        Failure::new(FailureKind::Environment, format!("cannot read the stored result: {error}"))
    })
}

/// Stored status of a run. A run whose process was killed is still `Running`.
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
    /// Prefix of the id.
    pub prefix: Option<String>,
    /// Text in the title, case-insensitive.
    pub title: Option<String>,
    /// Only runs with a smaller sequence number.
    pub before: Option<u64>,
    /// Maximum number of runs; 0 for no limit.
    pub limit: usize,
}

/// The right to write to a run, until another process claims the run.
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

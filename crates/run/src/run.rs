//! Runs: what they are, who works on them, how they ended.

use std::fmt;
use std::str::FromStr;

use assize_types::{Failure, FailureKind, Fingerprint};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr};

use crate::kind::RunKind;

/// The name of a run: its kind, and what tells it apart, such as `debate-k3v9x2ma`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(String);

assize_types::serde_as_text!(RunId);

/// A text that is no name of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a run: names are like `debate-k3v9x2ma`")]
pub struct BadRunId(String);

impl RunId {
    /// Letters and digits that are not easily taken for one another.
    const ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";

    /// A new name.
    pub fn random(kind: RunKind) -> RunId {
        let letter = || char::from(Self::ALPHABET[fastrand::usize(..Self::ALPHABET.len())]);
        let tail: String = std::iter::repeat_with(letter).take(8).collect();
        RunId(format!("{kind}-{tail}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind that the name begins with.
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
    type Err = BadRunId;

    fn from_str(text: &str) -> Result<RunId, BadRunId> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > 60 || !text.chars().all(plain) {
            return Err(BadRunId(assize_types::text::shorten(text, 60)));
        }
        Ok(RunId(text.to_owned()))
    }
}

/// A run that is to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    pub kind: RunKind,
    /// A line that tells people which one this is.
    pub title: String,
    /// The run that it was forked from.
    pub parent: Option<RunId>,
    /// All that is needed to do it again, but for what is large.
    pub input: Value,
    /// What is large, by name. It is kept together with the run, or neither is.
    pub artifacts: Vec<(String, Vec<u8>)>,
    /// Under what it was asked for, so that it is made once however often it is asked for.
    pub once: Option<IdempotencyKey>,
}

/// Key under which a client asks for a run, so that a repeated request makes no second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Chosen by the client, and used for nothing else.
    pub key: String,
    /// Fingerprint of the whole request.
    pub request: Fingerprint,
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    pub id: RunId,
    /// Its place among all runs, in the order in which they were made.
    #[serde(skip)]
    pub number: u64,
    pub kind: RunKind,
    pub title: String,
    pub status: RunStatus,
    pub parent: Option<RunId>,
    /// Milliseconds since 1970.
    pub created: u64,
    pub updated: u64,
    /// How often it was claimed.
    pub epoch: u64,
    /// Who claimed it last.
    pub holder: Option<String>,
    pub input: Value,
    /// What it came to, once it is done.
    pub result: Option<Value>,
    /// Why it ended, if it failed or was stopped.
    pub error: Option<String>,
}

impl Run {
    /// Reads what the run came to.
    ///
    /// # Errors
    /// When another version of assize wrote it, or it is not done.
    pub fn read_result<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        read_result(self.result.clone().unwrap_or_default())
    }
}

/// Reads what a run came to.
///
/// # Errors
/// When another version of assize wrote it.
pub fn read_result<T: DeserializeOwned>(result: Value) -> Result<T, Failure> {
    serde_json::from_value(result).map_err(|error| {
        Failure::new(FailureKind::Environment, format!("its verdict cannot be read: {error}"))
    })
}

/// How far a run is, as far as the store knows: one whose process was killed is still `Running`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// It came to its end. It cannot be claimed any more.
    Done,
    /// It cannot go on by itself, and can be taken up again.
    Failed,
    /// Somebody stopped it; it can be taken up again.
    Cancelled,
}

impl RunStatus {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Which runs are wanted; everything by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    pub kind: Option<RunKind>,
    pub status: Option<RunStatus>,
    /// Whose name begins like this.
    pub prefix: Option<String>,
    /// Whose title holds this, in upper or lower case.
    pub title: Option<String>,
    /// Made before the one with this number.
    pub before: Option<u64>,
    /// At most so many; 0 for all of them.
    pub limit: usize,
}

/// The right to write to a run, until another process claims it.
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

//! Calls to models as a run notes them: before each is sent, and when it is over.

use assize_types::Cost;
use serde::{Deserialize, Serialize};

/// A call to a model, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    pub how: CallState,
    /// What it took, or the most that it can have taken.
    pub tokens: u64,
    pub cost: Cost,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// On its way, or the process that made it died.
    Sent,
    Answered,
    /// It may have been charged for, and there is no answer.
    Lost,
    /// It was turned down before anything was charged.
    Free,
}

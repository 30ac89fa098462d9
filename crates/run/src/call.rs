//! Stored records of model calls. A record is stored before the call is sent, and is updated when the call ends.

use assize_types::Cost;
use serde::{Deserialize, Serialize};

/// Stored record of a model call: its state, tokens and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCall {
    pub state: CallState,
    /// Number of tokens that the call used, or an upper bound while the actual number is unknown.
    pub tokens: u64,
    /// Cost of the call, or an upper bound while the actual cost is unknown.
    pub cost: Cost,
}

/// State of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The call is in flight, or the process that made the call died before it stored the end of the call.
    Sent,
    Answered,
    /// The call ended without an answer, but the provider may have charged for it.
    Lost,
    /// The provider did not charge for the call: the call was not sent, or the provider rejected it without charge.
    Free,
}

//! Model calls as the store accounts for them: before each is sent, and when it has ended.

use assize_types::Cost;
use serde::{Deserialize, Serialize};

/// State and cost of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCall {
    pub how: CallState,
    /// Tokens used, or the upper bound while the actual number is unknown.
    pub tokens: u64,
    /// Cost, or the upper bound while the actual cost is unknown.
    pub cost: Cost,
}

/// State of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// In flight, or the process that made the call died.
    Sent,
    Answered,
    /// There is no answer, but the provider may have charged for the call.
    Lost,
    /// The call failed before the provider charged for it.
    Free,
}

//! What a trial came to, for whoever shows or keeps it.

use assize_llm::Spent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::state::{Attempt, CodeState};

/// What a trial came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CodeVerdict")]
pub struct Verdict {
    pub success: bool,
    /// How many were made.
    pub attempts: u32,
    /// What the program printed, if it succeeded.
    pub answer: Option<String>,
    /// The program of the last attempt.
    pub code: Option<String>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// Every attempt, with its code, how it went and what the critic said.
    pub history: Vec<Attempt>,
    pub spent: Spent,
}

impl From<&CodeState> for Verdict {
    fn from(state: &CodeState) -> Verdict {
        let last = state.history.last();
        let execution = last.and_then(|last| last.execution.as_ref());
        let success = state.succeeded();
        Verdict {
            success,
            attempts: state.attempt(),
            answer: execution.filter(|_| success).map(|execution| execution.stdout.clone()),
            code: last.and_then(|last| last.code.clone()),
            error: last.and_then(|last| last.error.as_ref()).map(ToString::to_string),
            history: state.history.clone(),
            spent: state.spent,
        }
    }
}

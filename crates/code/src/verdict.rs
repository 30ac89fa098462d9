//! Verdict of a code run: whether the task was solved, and all attempts.

use assize_llm::CallTotals;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::state::{Attempt, CodeState};

/// Final result of a code run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeVerdict {
    /// Whether the last attempt succeeded.
    pub success: bool,
    /// Number of attempts.
    pub attempts: u32,
    /// Standard output of the successful program; null if no attempt succeeded.
    pub answer: Option<String>,
    /// Code of the last attempt's program; null if the model's answer contained no code.
    pub code: Option<String>,
    /// Why the last attempt failed; null if it succeeded.
    pub error: Option<String>,
    /// All attempts, with code, execution and critique.
    pub history: Vec<Attempt>,
    /// Tokens and cost of all model calls.
    pub spent: CallTotals,
}

impl From<&CodeState> for CodeVerdict {
    fn from(state: &CodeState) -> CodeVerdict {
        let last = state.history.last();
        let execution = last.and_then(|last| last.execution.as_ref());
        let success = state.succeeded();
        CodeVerdict {
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

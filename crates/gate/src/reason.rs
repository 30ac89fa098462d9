//! Reasons of the gate against a proposed change, and the verdict that follows from the reasons.

use assize_config::Review;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Advice to the agent if a reviewer must decide on the draft.
const REVIEW_ADVICE: &str = "a reviewer decides; do not change this file until then";

/// Effect that a reason of the gate has on a draft.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ReasonEffect {
    /// A reviewer must decide on the draft.
    Escalate,
    /// The draft is returned to the agent.
    Reject,
}

/// Reason of the gate against a draft: a finding of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    pub effect: ReasonEffect,
    /// Name of the rule that the draft violates, such as `secret/github-token` or `scope/lines`.
    pub rule: String,
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Description of the finding, for people and agents.
    pub message: String,
    /// Advice to the agent: how to fix the finding. Empty if there is no advice.
    pub what_to_do: String,
}

impl Reason {
    /// Creates a reason about a whole file or a whole submission, without a line.
    pub fn of_file(
        file: &str,
        effect: ReasonEffect,
        rule: &str,
        message: impl Into<String>,
    ) -> Reason {
        let what_to_do = match effect {
            ReasonEffect::Escalate => REVIEW_ADVICE,
            ReasonEffect::Reject => "",
        };
        let (rule, file, message) = (rule.to_owned(), file.to_owned(), message.into());
        Reason { effect, rule, file, line: None, message, what_to_do: what_to_do.to_owned() }
    }

    pub(crate) fn at(self, line: usize) -> Reason {
        Reason { line: Some(line), ..self }
    }

    /// Sets the advice to the agent.
    pub fn with_advice(self, what_to_do: impl Into<String>) -> Reason {
        Reason { what_to_do: what_to_do.into(), ..self }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {} [{}]", self.message, self.rule)?;
        if self.what_to_do.is_empty() { Ok(()) } else { write!(f, "; {}", self.what_to_do) }
    }
}

/// The gate's verdict on a submission.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GateVerdict {
    Accepted,
    Rejected,
    Escalated,
}

impl GateVerdict {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Derives the verdict from the reasons and the setting `draft.review`.
    pub fn of(reasons: &[Reason], review: Review) -> GateVerdict {
        match (reasons.iter().map(|reason| reason.effect).max(), review) {
            (Some(ReasonEffect::Reject), _) => GateVerdict::Rejected,
            (Some(ReasonEffect::Escalate), Review::Never) => GateVerdict::Rejected,
            (Some(ReasonEffect::Escalate), _) | (_, Review::Always) => GateVerdict::Escalated,
            _ => GateVerdict::Accepted,
        }
    }
}

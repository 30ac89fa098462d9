//! Reasons against a proposed change, and the verdict that follows from them.

use assize_config::Review;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Advice to the agent when a reviewer decides.
const WAIT: &str = "a reviewer decides; do not change this file until then";

/// Effect of a reason on a draft.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ReasonEffect {
    /// A reviewer decides.
    Escalate,
    /// The draft is returned to the agent.
    Reject,
}

/// A reason against a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    pub effect: ReasonEffect,
    /// Rule name, such as `secret/github-token` or `scope`.
    pub rule: String,
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Description of the finding.
    pub message: String,
    /// Advice to the agent.
    pub what_to_do: String,
}

impl Reason {
    /// A reason about a whole file or submission.
    pub fn of_file(
        file: &str,
        effect: ReasonEffect,
        rule: &str,
        message: impl Into<String>,
    ) -> Reason {
        let what_to_do = match effect {
            ReasonEffect::Escalate => WAIT,
            ReasonEffect::Reject => "",
        };
        let (rule, file, message) = (rule.to_owned(), file.to_owned(), message.into());
        Reason { effect, rule, file, line: None, message, what_to_do: what_to_do.to_owned() }
    }

    pub(crate) fn at(self, line: usize) -> Reason {
        Reason { line: Some(line), ..self }
    }

    /// Sets the advice.
    pub fn advise(self, what_to_do: impl Into<String>) -> Reason {
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

    /// Derives the verdict from the reasons and the review setting.
    pub fn of(reasons: &[Reason], review: Review) -> GateVerdict {
        match (reasons.iter().map(|reason| reason.effect).max(), review) {
            (Some(ReasonEffect::Reject), _) => GateVerdict::Rejected,
            (Some(ReasonEffect::Escalate), Review::Never) => GateVerdict::Rejected,
            (Some(ReasonEffect::Escalate), _) | (_, Review::Always) => GateVerdict::Escalated,
            _ => GateVerdict::Accepted,
        }
    }
}

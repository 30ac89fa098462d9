//! Reasons against a proposed change, and the verdict that they come to.

use assize_config::Review;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What whoever wrote it can do where a person decides.
const WAIT: &str = "a person decides; leave this file alone until they have";

/// What a reason does to a draft.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A person decides.
    Escalate,
    /// It is sent back.
    Reject,
}

/// Something about a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    pub effect: Effect,
    /// Such as `secret/github-token` or `scope`.
    pub rule: String,
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is the matter.
    pub message: String,
    /// What whoever wrote it can do.
    pub what_to_do: String,
}

impl Reason {
    /// A reason about a whole file or submission.
    pub fn of_file(file: &str, effect: Effect, rule: &str, message: impl Into<String>) -> Reason {
        let what_to_do = match effect {
            Effect::Escalate => WAIT,
            Effect::Reject => "",
        };
        let (rule, file, message) = (rule.to_owned(), file.to_owned(), message.into());
        Reason { effect, rule, file, line: None, message, what_to_do: what_to_do.to_owned() }
    }

    pub(crate) fn at(self, line: usize) -> Reason {
        Reason { line: Some(line), ..self }
    }

    /// With what to do about it.
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

/// How a submission fares.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[schemars(rename = "GateVerdict")]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    Accepted,
    Rejected,
    Escalated,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What the reasons come to.
    pub fn of(reasons: &[Reason], review: Review) -> Verdict {
        match (reasons.iter().map(|reason| reason.effect).max(), review) {
            (Some(Effect::Reject), _) => Verdict::Rejected,
            (Some(Effect::Escalate), Review::Never) => Verdict::Rejected,
            (Some(Effect::Escalate), _) | (_, Review::Always) => Verdict::Escalated,
            _ => Verdict::Accepted,
        }
    }
}

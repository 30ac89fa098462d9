//! The kinds of runs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run does. Its name is the command that starts it, and the first part of a [`RunId`](crate::RunId).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A program that a model writes, and that is run, criticised and retried.
    #[serde(rename = "run")]
    Code,
    /// A company's options, debated and ranked.
    Consult,
    /// One move, debated and scored.
    Debate,
    /// File edits that a model drafts, behind the gate.
    Work,
    /// Problems with known answers, solved by a model.
    Eval,
}

/// A name of no kind of run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of run `{0}`")]
pub struct UnknownRunKind(String);

impl RunKind {
    pub const ALL: [RunKind; 5] =
        [RunKind::Code, RunKind::Eval, RunKind::Debate, RunKind::Consult, RunKind::Work];

    pub fn name(self) -> &'static str {
        match self {
            RunKind::Code => "run",
            RunKind::Consult => "consult",
            RunKind::Debate => "debate",
            RunKind::Work => "work",
            RunKind::Eval => "eval",
        }
    }
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RunKind {
    type Err = UnknownRunKind;

    fn from_str(name: &str) -> Result<RunKind, UnknownRunKind> {
        let known = RunKind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownRunKind(assize_types::text::shorten(name, 40)))
    }
}

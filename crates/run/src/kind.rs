//! The kinds of runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Kind of a run. Its name is the command that starts it, and the first part of a [`RunId`](crate::RunId).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownRunKind, parse_err_fn = unknown)]
pub enum RunKind {
    /// A program that a model writes, and that is run, criticised and retried.
    #[serde(rename = "run")]
    #[strum(serialize = "run")]
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

/// Error for an unknown kind of run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of run `{0}`")]
pub struct UnknownRunKind(String);

impl RunKind {
    pub const ALL: [RunKind; 5] =
        [RunKind::Code, RunKind::Eval, RunKind::Debate, RunKind::Consult, RunKind::Work];

    /// Whether runs of this kind can be forked.
    pub fn can_be_forked(self) -> bool {
        matches!(self, RunKind::Debate | RunKind::Consult)
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

fn unknown(name: &str) -> UnknownRunKind {
    UnknownRunKind(assize_types::text::shorten(name, 40))
}

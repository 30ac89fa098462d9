//! The kinds of runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Kind of a run. The kind's name is the command that starts the run, and the first part of a [`RunId`](crate::RunId).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownRunKind, parse_err_fn = unknown)]
pub enum RunKind {
    /// A model writes a program for a task; the program is run in a sandbox, criticised and retried.
    #[serde(rename = "run")]
    #[strum(serialize = "run")]
    Code,
    /// Models propose business moves for a company; the proposed moves are debated and ranked.
    Consult,
    /// Models debate one proposed business move of a company and score it.
    Debate,
    /// An agent edits files as drafts, and the gate decides on the drafts.
    Work,
    /// A model writes programs for problems with tests, to measure how many problems the model solves.
    Eval,
}

/// Error for a name that is not the name of a kind of run.
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

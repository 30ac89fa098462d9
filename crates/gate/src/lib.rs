//! The gate: checks whether a proposed change to a workspace can be accepted, is rejected, or needs a reviewer.
//!
//! [`check`] inspects a proposed change under a [`Policy`], which combines the settings and the task's [`Contract`].
//! [`Verification`] runs the tests of the project on a copy of the workspace, through the caller's [`Verifier`]. This
//! crate never writes to a workspace: `crates/draft` decides on changes and applies them.

mod checks;
mod contract;
pub mod corpus;
mod diff;
mod file_kind;
mod file_rules;
mod globs;
pub mod hidden_text;
pub mod machine_paths;
mod path_rules;
mod pattern;
mod policy;
mod reason;
mod runs_on_build;
pub mod secrets;
mod task;
mod verify;

pub use checks::{DRAFT_MODE, ProposedChange, check};
pub use contract::{CONTRACT, Contract, ContractError, ContractLimits, VerifyCommand};
pub use diff::Diff;
pub use file_kind::FileKind;
pub use globs::InvalidGlob;
pub use path_rules::PathRules;
pub use pattern::InvalidPattern;
pub use policy::{Policy, VerifyLimits};
pub use reason::{GateVerdict, Reason, ReasonEffect};
pub use task::{InvalidTaskId, TaskId};
pub use verify::{
    ChangedFile, CommandOutcome, NamedEnvironment, Verification, Verifier, VerifyError, VerifyJob,
    VerifyResult,
};

//! The gate: whether a proposed change to a workspace is accepted, rejected or put before a reviewer.
//!
//! [`check`] looks at what would change, under a [`Policy`] made of the settings and the task's [`Contract`].
//! [`Verification`] runs the project's own tests on a copy of the workspace, through a [`Verifier`] of the caller.
//! What becomes of a change is decided and done elsewhere: nothing here writes to a workspace.

mod checks;
mod contract;
pub mod corpus;
mod diff;
mod file_kind;
mod file_rules;
mod globs;
pub mod hardcoded;
pub mod hidden_text;
mod pattern;
mod places;
mod policy;
mod reason;
mod runs_on_build;
pub mod secrets;
mod task;
mod verify;

pub use checks::{Change, DRAFT_MODE, check};
pub use contract::{CONTRACT, Contract, ContractError, ContractLimits, Verify};
pub use diff::Diff;
pub use file_kind::FileKind;
pub use globs::BadGlob;
pub use pattern::BadPattern;
pub use places::Places;
pub use policy::{Policy, VerifyMost};
pub use reason::{Effect, Reason, Verdict};
pub use task::{BadTaskId, TaskId};
pub use verify::{
    ChangedFile, Job, NamedEnvironment, NotVerified, Ran, Verification, Verified, Verifier,
};

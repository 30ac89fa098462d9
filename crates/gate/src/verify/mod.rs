//! Verification: runs the project's own tests on a copy of the workspace that includes the drafts.
//!
//! A known test runner is run twice, the second time with canary tests that must fail, so that a draft cannot forge
//! the result.

mod canary;
mod command;
mod copy;
mod missing_tool;
mod report;
mod runner;
mod verification;
mod verifier;

pub use verification::{ChangedFile, Verification};
pub use verifier::{
    CommandOutcome, NamedEnvironment, Verifier, VerifyError, VerifyJob, VerifyResult,
};

//! Verification: the project's own tests, run on a copy of the workspace with the drafts in it.
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
pub use verifier::{Job, NamedEnvironment, NotVerified, Ran, Verified, Verifier};

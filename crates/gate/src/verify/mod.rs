//! Verification: runs the tests of the project on a copy of the workspace that includes the drafts.
//!
//! The tests of a known test runner are run twice. The second time, the gate adds canary tests that must fail, to
//! detect a draft that forges the test results.

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

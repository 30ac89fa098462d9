//! Types and functions that all crates share: token usage, money, fingerprints, cancellation, failures, text functions,
//! and the log lines of an agent workflow.
//!
//! This crate does no I/O: it uses no files and no network, and prints nothing.

mod cancel;
mod clock;
mod failure;
mod fingerprint;
mod money;
mod reporter;
pub mod text;
mod usage;
pub mod workflow_log;

pub use cancel::{Cancel, CancelReason};
pub use clock::unix_millis;
pub use failure::{Failure, FailureKind};
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use money::{Cost, Money};
pub use reporter::Reporter;
pub use usage::Usage;

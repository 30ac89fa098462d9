//! Types that all crates share: token usage, money, fingerprints, cancellation, failures, text, and
//! the lines of the log.
//!
//! This crate does no I/O: no files, no network, no printing. It holds the types that several
//! crates must agree on and none of them owns.

mod cancel;
mod clock;
mod failure;
mod fingerprint;
mod money;
mod reporter;
pub mod text;
pub mod trail;
mod usage;

pub use cancel::{Cancel, CancelReason};
pub use clock::unix_millis;
pub use failure::{Failure, FailureKind};
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use money::{Cost, Money};
pub use reporter::Reporter;
pub use usage::Usage;

//! The words every room shares: token usage, money, fingerprints, cancellation, text, and
//! the lines of the log.
//!
//! Nothing here does any work of its own: no files, no network, no printing. Whatever two rooms
//! must agree on and neither of them owns is at home here.

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
pub use fingerprint::{Fingerprint, NotAFingerprint};
pub use money::{Cost, Money};
pub use reporter::Reporter;
pub use usage::Usage;

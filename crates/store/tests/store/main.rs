//! The store: what every store must do, and what only a file can get wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod conformance;
mod file;

//! Code on trial, in real sandboxes, with a model that says what it is told to.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod bench;
mod eval;
mod faults;
mod harness;
mod packages;
mod trial;

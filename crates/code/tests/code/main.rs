//! Tests of code runs in real sandboxes, with a scripted model.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod code_runs;
mod eval;
mod faults;
mod fixture;
mod harness;
mod packages;
mod separate;

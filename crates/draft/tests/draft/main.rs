//! Integration tests of the draft workflow: request, write, submit, decide, apply, undo.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod docs;
mod faults;
mod fixture;
mod log;
mod propose;
mod refusals;
mod reviews;
mod transactions;
mod verified;
mod workflow;

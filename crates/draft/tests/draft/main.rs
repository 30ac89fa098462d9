//! Integration tests of the draft workflow: request, write, submit, decide, apply, undo.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod cycle;
mod docs;
mod faults;
mod fixture;
mod log;
mod people;
mod propose;
mod refusals;
mod transactions;
mod verified;

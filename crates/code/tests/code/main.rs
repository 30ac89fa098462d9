//! Tests of the code loop in real sandboxes, with a scripted model.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod eval;
mod faults;
mod fixture;
mod harness;
mod packages;
mod trial;

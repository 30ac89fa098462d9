//! Tests of consultations with a scripted model and a fake SEC server.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod edgar;
mod faults;
mod forks;
mod pipeline;
mod sandboxed;
mod script;

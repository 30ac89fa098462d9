//! Tests of the graph engine through its public API.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod effects;
mod faults;
mod invalid;
mod order;
mod resume;

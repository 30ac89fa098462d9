//! The graph as its users see it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod effects;
mod faults;
mod invalid;
mod order;
mod resume;

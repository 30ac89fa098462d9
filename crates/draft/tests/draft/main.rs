//! Drafts behind a gate, from the request to the file and back.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cycle;
mod docs;
mod faults;
mod log;
mod office;
mod people;
mod propose;
mod refusals;
mod transactions;
mod verified;

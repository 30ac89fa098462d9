//! Drafts behind a gate, from the request to the file and back.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cycle;
mod docs;
mod faults;
mod files;
mod labelled;
mod log;
mod office;
mod paths;
mod people;
mod propose;
mod refusals;
mod secrets;
mod verified;

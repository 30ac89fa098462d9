//! A consultation, with everything that is not ours played by a script or a server of our own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod edgar;
mod faults;
mod forks;
mod pipeline;
mod sandboxed;
mod script;

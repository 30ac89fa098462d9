//! The store: what every store must do, and what only a file can get wrong.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[macro_use]
mod conformance;
mod file;

every_behaviour!(sqlite, crate::file::fresh());
every_behaviour!(sqlite_for_power_loss, crate::file::fresh_for_power_loss());

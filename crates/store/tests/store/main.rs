//! Tests of the SQLite store: the conformance tests that every store must pass, and tests of the SQLite file.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

#[macro_use]
mod conformance;
mod file;

every_behaviour!(sqlite, crate::file::fresh());
every_behaviour!(sqlite_for_power_loss, crate::file::fresh_for_power_loss());

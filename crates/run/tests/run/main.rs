//! Tests of what a run is.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod events;

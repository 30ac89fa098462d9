//! Integration tests of `assize-run`.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod events;

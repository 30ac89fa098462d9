//! Integration tests of `assize-workspace`.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod files;

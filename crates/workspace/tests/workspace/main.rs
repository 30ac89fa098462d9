//! Tests of workspace files with symbolic links in every position.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod files;

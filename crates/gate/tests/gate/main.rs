//! Integration tests of `assize-gate`, mostly on its labelled corpora.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod hardcoded;
mod labelled;
mod paths;
mod secrets;

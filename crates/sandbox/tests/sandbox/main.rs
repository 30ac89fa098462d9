//! What every sandbox must do, whatever its walls are made of, and what only some can get wrong.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bench;
mod conformance;
mod docker;
mod harvest;
mod manager;
mod microvm;
mod pool;
mod warm;
mod work;

//! Sandbox tests: a conformance suite for all backends, and tests of single backends, pools and the manager.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod bench;
mod collect_files;
mod conformance;
mod docker;
mod host_calls;
mod manager;
mod microvm;
mod pool;
mod warm_pools;

//! Test support: a fake model provider on loopback, which is stricter than real providers, and real NATS servers.
//!
//! [`FakeProvider`] serves real HTTP in each provider's format. It checks every request (path, key, body, the
//! documented rules of the provider) and records violations; a test fails when it drops a fake with recorded
//! violations. The fake shares no code with the tested crates, and can simulate all kinds of server faults.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test helper that fails should stop the test at once"
)]

mod fake;
mod http;
mod nats;

use std::path::PathBuf;

pub use nats::NatsServers;

pub use fake::{
    BilledTokens, CapturedRequest, FakeAnswer, FakeKind, FakeProvider, FakeReply, FakeStop,
    Latency, PromptCache, WrittenPrefixes,
};

/// Cache folder of assize for the user who runs the tests. It contains the microVM image.
pub fn cache_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.unwrap_or_default().join("assize")
}

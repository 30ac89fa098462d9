//! For tests alone: a model provider on loopback that is stricter than the real ones, and real servers of NATS.
//!
//! [`FakeProvider`] speaks real HTTP in each provider's own shapes. It checks every request it gets
//! (path, key, body, the rules that the provider's documentation states) and remembers what was
//! wrong; a test fails when it drops a fake that had anything to complain of. It knows nothing of
//! the code it tests, and can misbehave in every way a server can.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test helper that cannot go on should stop the test, where it stands"
)]

mod fake;
mod http;
mod nats;

use std::path::PathBuf;

pub use nats::NatsServers;

pub use fake::{
    Answer, AnswerStop, Billed, Captured, FakeProvider, Kind, Latency, PromptCache, Reply, Written,
};

/// Cache folder of assize for the user who runs the tests, where the image of microVMs is.
pub fn cache_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.unwrap_or_default().join("assize")
}

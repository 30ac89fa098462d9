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
mod gate;
mod http;
mod nats;

pub use nats::NatsServers;

pub use fake::{
    Answer, AnswerStop, Billed, Captured, FakeProvider, Kind, Latency, PromptCache, Reply, Written,
};

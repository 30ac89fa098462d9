//! Tests of the gateway over real HTTP, against fake providers on loopback.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod caching;
mod cassettes;
mod clock;
mod faults;
mod local;
mod providers;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use assize_config::{ApiKey, Provider};
use assize_gateway::{CallEvent, Endpoint, Gateway, GatewayOptions, HttpClient};
use assize_testkit::{FakeKind, FakeProvider};

pub(crate) fn provider_of(kind: FakeKind) -> Provider {
    match kind {
        FakeKind::Anthropic => Provider::Anthropic,
        FakeKind::OpenAi => Provider::OpenAi,
        FakeKind::Groq => Provider::Groq,
        FakeKind::OpenRouter => Provider::OpenRouter,
        FakeKind::Google => Provider::Google,
        FakeKind::Ollama => Provider::Ollama,
    }
}

pub(crate) const KINDS: [FakeKind; 6] = [
    FakeKind::Anthropic,
    FakeKind::OpenAi,
    FakeKind::Groq,
    FakeKind::OpenRouter,
    FakeKind::Google,
    FakeKind::Ollama,
];

/// Returns the endpoint of a fake provider, with the provider's default model.
pub(crate) fn endpoint(kind: FakeKind, fake: &FakeProvider) -> Endpoint {
    Endpoint {
        base_url: fake.base_url(),
        key: Some(ApiKey::new(fake.key())),
        ..Endpoint::new(provider_of(kind))
    }
}

pub(crate) fn gateway(kind: FakeKind, fake: &FakeProvider, options: GatewayOptions) -> Gateway {
    Gateway::to_provider(&HttpClient::new(), endpoint(kind, fake), options)
}

/// Stops tokio's clock while real sockets are in use. Time passes only when a test calls [`advance_clock`].
///
/// A paused clock of tokio jumps ahead whenever the runtime waits for a socket, except while a blocking task is
/// running. So this type keeps a blocking task running.
pub(crate) struct HeldClock {
    _release: mpsc::Sender<()>,
}

impl HeldClock {
    pub(crate) fn stop() -> HeldClock {
        tokio::time::pause();
        let (release, held) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        HeldClock { _release: release }
    }
}

impl Drop for HeldClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// Advances the clock by 2 ms more than `time`, because timers fire at whole milliseconds.
pub(crate) async fn advance_clock(time: Duration) {
    tokio::time::advance(time + Duration::from_millis(2)).await;
}

/// Adds an observer to the options. The returned channel receives the length and the reason of each wait before a retry
/// or for a rate limit.
pub(crate) fn observed(
    options: GatewayOptions,
) -> (GatewayOptions, tokio::sync::mpsc::UnboundedReceiver<(Duration, String)>) {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    let observer = Arc::new(move |event: &CallEvent| {
        let wait = match event {
            CallEvent::Retry { wait, reason, .. } => (*wait, reason.clone()),
            CallEvent::RateLimited { wait } => (*wait, "paced".to_owned()),
        };
        let _ = send.send(wait);
    });
    (GatewayOptions { observer: Some(observer), ..options }, receive)
}

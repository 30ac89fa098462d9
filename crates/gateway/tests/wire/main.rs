//! The gateway over real HTTP, against fakes on loopback.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod caching;
mod cassettes;
mod clock;
mod faults;
mod local;
mod providers;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use assize_config::{Provider, Secret};
use assize_gateway::{Endpoint, Event, Gateway, HttpClient, Options};
use assize_testkit::{FakeProvider, Kind};

pub(crate) fn provider_of(kind: Kind) -> Provider {
    match kind {
        Kind::Anthropic => Provider::Anthropic,
        Kind::OpenAi => Provider::OpenAi,
        Kind::Groq => Provider::Groq,
        Kind::OpenRouter => Provider::OpenRouter,
        Kind::Google => Provider::Google,
        Kind::Ollama => Provider::Ollama,
    }
}

pub(crate) const KINDS: [Kind; 6] =
    [Kind::Anthropic, Kind::OpenAi, Kind::Groq, Kind::OpenRouter, Kind::Google, Kind::Ollama];

/// The endpoint of a fake, with the provider's default model.
pub(crate) fn endpoint(kind: Kind, fake: &FakeProvider) -> Endpoint {
    Endpoint {
        base_url: fake.base_url(),
        key: Some(Secret::new(fake.key())),
        ..Endpoint::new(provider_of(kind))
    }
}

pub(crate) fn gateway(kind: Kind, fake: &FakeProvider, options: Options) -> Gateway {
    Gateway::to_provider(&HttpClient::new(), endpoint(kind, fake), options)
}

/// Holds the clock still while real sockets are in use: time passes only when a test says so.
///
/// A paused clock would jump ahead whenever the runtime waits for a socket. It does not while a
/// blocking task is alive, so one is kept alive.
pub(crate) struct HeldClock {
    _release: mpsc::Sender<()>,
}

impl HeldClock {
    pub(crate) fn hold() -> HeldClock {
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

/// Lets time pass: a little more than asked, since timers fire at whole milliseconds.
pub(crate) async fn pass(time: Duration) {
    tokio::time::advance(time + Duration::from_millis(2)).await;
}

/// Options whose waits are heard: how long each is, and why.
pub(crate) fn hearing(
    options: Options,
) -> (Options, tokio::sync::mpsc::UnboundedReceiver<(Duration, String)>) {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    let observer = Arc::new(move |event: &Event| {
        let heard = match event {
            Event::Retry { wait, reason, .. } => (*wait, reason.clone()),
            Event::Paced { wait } => (*wait, "paced".to_owned()),
        };
        let _ = send.send(heard);
    });
    (Options { observer: Some(observer), ..options }, receive)
}

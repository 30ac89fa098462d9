//! Hears of what is written, whoever writes it.

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::wire::{EVENTS, RUNS};
use crate::error::Trouble;
use crate::link::{Link, More, Reading};

/// The servers may forget whoever listens; so now and then it is looked.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// One log that grows.
#[derive(Debug)]
pub(super) struct Growth {
    stream: &'static str,
    filter: &'static str,
    listening: Mutex<Option<(watch::Receiver<Heard>, AbortOnDropHandle<()>)>>,
}

/// The last that was heard of: its place, and how many events it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Heard {
    /// Somebody listens.
    begun: bool,
    place: u64,
    events: u64,
}

impl Heard {
    fn is_beyond(self, place: u64, seen: u64) -> bool {
        self.place > place || self.place == place && self.events > seen
    }
}

impl Growth {
    pub(super) fn of(stream: &'static str, filter: &'static str) -> Growth {
        Growth { stream, filter, listening: Mutex::default() }
    }

    /// Waits until there is something beyond a place, or more in it than was seen.
    pub(super) async fn beyond(
        &self,
        link: &Arc<Link>,
        place: u64,
        seen: u64,
    ) -> Result<(), StoreError> {
        // First it is listened, then looked, so that nothing falls between.
        let mut heard = self.listen(link);
        let _ = tokio::time::timeout(LOOK_AGAIN, heard.wait_for(|heard| heard.begun)).await;
        loop {
            if self.is_there(link, place, seen).await? {
                return Ok(());
            }
            let beyond = heard.wait_for(|heard| heard.is_beyond(place, seen));
            if let Ok(Ok(_)) = tokio::time::timeout(LOOK_AGAIN, beyond).await {
                return Ok(());
            }
        }
    }

    /// Whether there is something already.
    async fn is_there(&self, link: &Link, place: u64, seen: u64) -> Result<bool, StoreError> {
        let filter = link.subject(self.filter);
        let reading =
            Reading { stream: self.stream, filter, from: place.max(1), last_of_each: false };
        let mut there = false;
        link.read(reading, |found| {
            let events = match self.stream {
                RUNS => found.header(EVENTS).and_then(|count| count.parse().ok()).unwrap_or(0),
                _ => 1,
            };
            let heard = Heard { begun: true, place: found.sequence, events };
            there = events > 0 && heard.is_beyond(place, seen);
            Ok(if there { More::Enough } else { More::Wanted })
        })
        .await?;
        Ok(there)
    }

    fn listen(&self, link: &Arc<Link>) -> watch::Receiver<Heard> {
        let mut listening = self.listening.lock();
        if let Some((heard, task)) = &*listening
            && !task.is_finished()
        {
            return heard.clone();
        }
        let (tell, heard) = watch::channel(Heard::default());
        let (link, stream, filter) = (Arc::clone(link), self.stream, self.filter);
        let task = tokio::spawn(async move { follow(&link, stream, filter, &tell).await });
        *listening = Some((heard.clone(), AbortOnDropHandle::new(task)));
        heard
    }
}

/// Tells of each message as it comes, for as long as anybody might want to know.
async fn follow(
    link: &Link,
    stream: &'static str,
    filter: &'static str,
    tell: &watch::Sender<Heard>,
) {
    let mut patience = link.patience();
    loop {
        let followed = follow_once(link, stream, filter, tell).await;
        if let Err(error) = patience.heed(followed).await {
            tracing::warn!(%error, "it is not heard what others write");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

async fn follow_once(
    link: &Link,
    stream: &'static str,
    filter: &'static str,
    tell: &watch::Sender<Heard>,
) -> Result<(), Trouble> {
    // After a break it goes on where it was.
    let deliver_policy = match tell.borrow().place {
        0 => DeliverPolicy::New,
        last => DeliverPolicy::ByStartSequence { start_sequence: last + 1 },
    };
    let config = pull::OrderedConfig {
        filter_subject: link.subject(filter),
        deliver_policy,
        headers_only: true,
        ..pull::OrderedConfig::default()
    };
    let consumer = link.stream(stream).await?.create_consumer(config).await?;
    let mut messages = consumer.messages().await?;
    tell.send_modify(|heard| heard.begun = true);
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| Trouble::Silent(error.to_string()))?;
        let Ok(info) = message.info() else { continue };
        let count = message.headers.as_ref().and_then(|headers| headers.get(EVENTS));
        let events = count.and_then(|count| count.as_str().parse().ok());
        let events = events.unwrap_or(u64::from(stream != RUNS));
        if events > 0 {
            tell.send_replace(Heard { begun: true, place: info.stream_sequence, events });
        }
    }
    Ok(())
}

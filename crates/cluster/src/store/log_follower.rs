//! Waits for new messages in a log. A log consists of the messages of a stream whose subjects match a filter. Any
//! process of the cluster can write such messages.

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::wire::{EVENTS, RUNS};
use crate::connection::{NatsConnection, ReadFlow, ReadSelection};
use crate::error::NatsError;

/// Interval at which the log is polled. Polling is needed because the servers may drop the subscription without notice.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Subscription to the new messages of one log.
#[derive(Debug)]
pub(super) struct LogFollower {
    stream: &'static str,
    filter: &'static str,
    follower: Mutex<Option<(watch::Receiver<Latest>, AbortOnDropHandle<()>)>>,
}

/// State of a subscription: whether it is active, and the latest message of the log that it has received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Latest {
    /// Whether the subscription is active.
    subscribed: bool,
    sequence: u64,
    /// Number of events in the latest message.
    events: u64,
}

impl Latest {
    fn is_beyond(self, sequence: u64, seen: u64) -> bool {
        self.sequence > sequence || self.sequence == sequence && self.events > seen
    }
}

impl LogFollower {
    pub(super) fn of(stream: &'static str, filter: &'static str) -> LogFollower {
        LogFollower { stream, filter, follower: Mutex::default() }
    }

    /// Waits until the log has an event that the reader has not seen. The reader has seen all messages before the
    /// message with the sequence number `sequence`, and the first `seen` events of that message.
    pub(super) async fn beyond(
        &self,
        link: &Arc<NatsConnection>,
        sequence: u64,
        seen: u64,
    ) -> Result<(), StoreError> {
        // Subscribe before reading the log, so that a message that is written in between is not missed.
        let mut latest = self.subscribe(link);
        let _ = tokio::time::timeout(POLL_INTERVAL, latest.wait_for(|one| one.subscribed)).await;
        loop {
            if self.exists(link, sequence, seen).await? {
                return Ok(());
            }
            let beyond = latest.wait_for(|one| one.is_beyond(sequence, seen));
            if let Ok(Ok(_)) = tokio::time::timeout(POLL_INTERVAL, beyond).await {
                return Ok(());
            }
        }
    }

    /// Whether the log already has an event that the reader has not seen. The parameters are those of
    /// [`LogFollower::beyond`].
    async fn exists(
        &self,
        link: &NatsConnection,
        sequence: u64,
        seen: u64,
    ) -> Result<bool, StoreError> {
        let filter = link.subject(self.filter);
        let reading = ReadSelection {
            stream: self.stream,
            filter,
            from: sequence.max(1),
            last_of_each: false,
        };
        let mut exists = false;
        link.read(reading, |found| {
            let events = match self.stream {
                RUNS => found.header(EVENTS).and_then(|count| count.parse().ok()).unwrap_or(0),
                _ => 1,
            };
            let one = Latest { subscribed: true, sequence: found.sequence, events };
            exists = events > 0 && one.is_beyond(sequence, seen);
            Ok(if exists { ReadFlow::Stop } else { ReadFlow::Continue })
        })
        .await?;
        Ok(exists)
    }

    fn subscribe(&self, link: &Arc<NatsConnection>) -> watch::Receiver<Latest> {
        let mut follower = self.follower.lock();
        if let Some((latest, task)) = &*follower
            && !task.is_finished()
        {
            return latest.clone();
        }
        let (sender, latest) = watch::channel(Latest::default());
        let (link, stream, filter) = (Arc::clone(link), self.stream, self.filter);
        let task = tokio::spawn(async move { follow(&link, stream, filter, &sender).await });
        *follower = Some((latest.clone(), AbortOnDropHandle::new(task)));
        latest
    }
}

/// Sends the sequence number and the number of events of each new message to `sender`, until the task is aborted.
async fn follow(
    link: &NatsConnection,
    stream: &'static str,
    filter: &'static str,
    sender: &watch::Sender<Latest>,
) {
    let mut patience = link.retry_loop();
    loop {
        let followed = follow_once(link, stream, filter, sender).await;
        if let Err(error) = patience.check(followed).await {
            tracing::warn!(%error, stream, "cannot subscribe to a stream, retrying");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

async fn follow_once(
    link: &NatsConnection,
    stream: &'static str,
    filter: &'static str,
    sender: &watch::Sender<Latest>,
) -> Result<(), NatsError> {
    // After an interruption, continue after the last received message.
    let deliver_policy = match sender.borrow().sequence {
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
    sender.send_modify(|latest| latest.subscribed = true);
    while let Some(message) = messages.next().await {
        let message = message.map_err(|error| NatsError::Silent(error.to_string()))?;
        let Ok(info) = message.info() else { continue };
        let count = message.headers.as_ref().and_then(|headers| headers.get(EVENTS));
        let events = count.and_then(|count| count.as_str().parse().ok());
        let events = events.unwrap_or(u64::from(stream != RUNS));
        if events > 0 {
            let sequence = info.stream_sequence;
            sender.send_replace(Latest { subscribed: true, sequence, events });
        }
    }
    Ok(())
}

//! Dead-letter list: messages of the queue that no worker can run.
//!
//! A message that cannot be decoded, or whose kind is unknown, would be redelivered for ever. It is copied to a
//! separate stream, with the reason, and only then removed from the queue. The list is bounded: the oldest
//! entries are dropped first.

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use assize_types::unix_millis;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::link::{NatsConnection, ReadFlow, ReadSelection};

const DEAD: &str = "dead";

/// Maximum number of entries.
const MAX_ENTRIES: i64 = 1000;
/// How long an entry is kept.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum number of bytes stored of a payload.
const MAX_PAYLOAD: usize = 1024;
/// Maximum number of characters stored of a reason and of a subject.
const MAX_REASON: usize = 500;

/// A message that was removed from the queue because no worker can run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// NATS subject of the message.
    pub subject: String,
    /// Why no worker can run it.
    pub reason: String,
    /// Beginning of the payload, as text.
    pub payload: String,
    /// Size of the whole payload, in bytes.
    pub payload_bytes: usize,
    /// Number of deliveries.
    pub deliveries: u64,
    /// When the message was moved to the list, in milliseconds since 1970.
    pub time: u64,
}

impl DeadLetter {
    pub(crate) fn new(subject: &str, reason: &str, payload: &[u8], deliveries: u64) -> DeadLetter {
        let beginning = &payload[..payload.len().min(MAX_PAYLOAD)];
        DeadLetter {
            subject: subject.chars().take(MAX_REASON).collect(),
            reason: reason.chars().take(MAX_REASON).collect(),
            payload: String::from_utf8_lossy(beginning).into_owned(),
            payload_bytes: payload.len(),
            deliveries,
            time: unix_millis(),
        }
    }
}

/// The dead-letter list of a cluster.
#[derive(Debug, Clone)]
pub(crate) struct DeadLetters {
    link: Arc<NatsConnection>,
}

impl DeadLetters {
    pub(crate) async fn open(link: Arc<NatsConnection>) -> Result<DeadLetters, StoreError> {
        let config = Config {
            name: link.stream_name(DEAD),
            subjects: vec![link.subject(DEAD)],
            max_messages: MAX_ENTRIES,
            max_age: MAX_AGE,
            discard: DiscardPolicy::Old,
            num_replicas: link.options.replicas,
            ..Config::default()
        };
        link.set_up(config).await?;
        Ok(DeadLetters { link })
    }

    /// Adds a message, once for each sequence number in the queue.
    pub(crate) async fn add(&self, sequence: u64, letter: &DeadLetter) -> Result<(), StoreError> {
        let payload = serde_json::to_vec(letter).map_err(|error| self.link.failed(error))?;
        let name = format!("dead letter {sequence}");
        self.link.add_once(&self.link.subject(DEAD), HeaderMap::new(), payload, &name).await?;
        Ok(())
    }

    /// Newest entries, newest first.
    pub(crate) async fn newest(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let filter = self.link.subject(DEAD);
        let Some(last) = self.link.last(DEAD, &filter).await? else { return Ok(Vec::new()) };
        // Expired entries leave a gap only at the beginning of the stream.
        let from = last.sequence.saturating_sub(limit as u64).saturating_add(1);
        let reading = ReadSelection { stream: DEAD, filter, from, last_of_each: false };
        let mut letters = Vec::new();
        self.link
            .read(reading, |found| {
                letters.extend(serde_json::from_slice::<DeadLetter>(&found.payload));
                Ok(ReadFlow::Wanted)
            })
            .await?;
        letters.reverse();
        letters.truncate(limit);
        Ok(letters)
    }
}

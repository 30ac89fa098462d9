//! Dead-letter list: messages that were removed from the queue because no worker can execute them.
//!
//! A message that cannot be decoded, or whose kind is unknown, would be redelivered for ever. So the message is copied
//! to a separate stream, with the reason, and then removed from the queue. The number of dead letters is limited; the
//! oldest are removed first.

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use assize_types::unix_millis;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connection::{NatsConnection, ReadFlow, ReadSelection};

const DEAD: &str = "dead";

/// Maximum number of dead letters in the list.
const MAX_ENTRIES: i64 = 1000;
/// Age at which a dead letter is removed from the list.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum size in bytes of the part of a message's payload that a dead letter contains.
const MAX_PAYLOAD: usize = 1024;
/// Maximum length in characters of a dead letter's reason, and of its NATS subject. The rest is cut off.
const MAX_REASON: usize = 500;

/// Dead letter: a message that was removed from the queue because no worker can execute it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// NATS subject of the message.
    pub subject: String,
    /// Why no worker can execute the message.
    pub reason: String,
    /// Beginning of the message's payload, as text.
    pub payload: String,
    /// Size of the message's whole payload, in bytes.
    pub payload_bytes: usize,
    /// Number of times that the message was delivered to a worker.
    pub deliveries: u64,
    /// Time at which the message was moved to the list, in milliseconds since 1970.
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

    /// Adds a dead letter to the list. `sequence` is the message's sequence number in the queue; adding the same
    /// message again has no effect.
    pub(crate) async fn add(&self, sequence: u64, letter: &DeadLetter) -> Result<(), StoreError> {
        let payload = serde_json::to_vec(letter).map_err(|error| self.link.failed(error))?;
        let name = format!("dead letter {sequence}");
        self.link.add_once(&self.link.subject(DEAD), HeaderMap::new(), payload, &name).await?;
        Ok(())
    }

    /// Returns up to `limit` of the newest dead letters, newest first.
    pub(crate) async fn newest(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let filter = self.link.subject(DEAD);
        let Some(last) = self.link.last(DEAD, &filter).await? else { return Ok(Vec::new()) };
        // The sequence numbers of the newest entries are consecutive: expired entries are missing only at the
        // beginning.
        let from = last.sequence.saturating_sub(limit as u64).saturating_add(1);
        let reading = ReadSelection { stream: DEAD, filter, from, last_of_each: false };
        let mut letters = Vec::new();
        self.link
            .read(reading, |found| {
                letters.extend(serde_json::from_slice::<DeadLetter>(&found.payload));
                Ok(ReadFlow::Continue)
            })
            .await?;
        letters.reverse();
        letters.truncate(limit);
        Ok(letters)
    }
}

//! Dead-letter list: messages of the queue that no worker can run.
//!
//! A message that cannot be decoded, or whose kind is unknown, would be redelivered for ever. It is copied to a
//! stream of its own, with the reason, and only then removed from the queue. The list is bounded: the oldest
//! entries go first.

use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use assize_types::unix_millis;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::link::{Link, More, Reading};

const DEAD: &str = "dead";

/// Entries that are kept.
const MAX_ENTRIES: i64 = 1000;
/// How long an entry is kept.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Bytes that are kept of a payload, and of a reason.
const MAX_PAYLOAD: usize = 1024;
const MAX_REASON: usize = 500;

/// A message that was removed from the queue because no worker can run it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// The subject it was published under.
    pub subject: String,
    pub reason: String,
    /// The beginning of the payload, as text.
    pub payload: String,
    /// Bytes of the whole payload.
    pub payload_bytes: usize,
    /// How often it had been delivered.
    pub deliveries: u64,
    /// When it was moved here, in milliseconds since 1970.
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
    link: Arc<Link>,
}

impl DeadLetters {
    pub(crate) async fn open(link: Arc<Link>) -> Result<DeadLetters, StoreError> {
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

    /// Adds a message, once for each place it had in the queue.
    pub(crate) async fn add(&self, place: u64, letter: &DeadLetter) -> Result<(), StoreError> {
        let payload = serde_json::to_vec(letter).map_err(|error| self.link.failed(error))?;
        let name = format!("dead letter {place}");
        self.link.add_once(&self.link.subject(DEAD), HeaderMap::new(), payload, &name).await?;
        Ok(())
    }

    /// The newest entries, the newest first.
    pub(crate) async fn newest(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        let filter = self.link.subject(DEAD);
        let Some(last) = self.link.last(DEAD, &filter).await? else { return Ok(Vec::new()) };
        // An entry that has expired leaves a gap at the beginning only.
        let from = last.sequence.saturating_sub(limit as u64).saturating_add(1);
        let reading = Reading { stream: DEAD, filter, from, last_of_each: false };
        let mut letters = Vec::new();
        self.link
            .read(reading, |found| {
                letters.extend(serde_json::from_slice::<DeadLetter>(&found.payload));
                Ok(More::Wanted)
            })
            .await?;
        letters.reverse();
        letters.truncate(limit);
        Ok(letters)
    }
}

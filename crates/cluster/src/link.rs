//! Connection to the NATS servers: exactly-once writes, reads, and retries while the servers do not reply.
//!
//! A publish that was not acknowledged in time may have been stored. So every message that must exist once has its own
//! subject and a random mark in a header. After a timeout the writer reads the message under the subject, and recognizes
//! its own by the mark.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_config::ClusterServers;
use assize_run::StoreError;
use async_nats::header::{self, HeaderMap};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream::{Config, Info, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, Event};
use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::address::ClusterCredentials;
use crate::error::{NatsError, is_missing, words};
use crate::times::ClusterTimes;

/// Header with the random mark of the writer of a message.
const MARK: &str = "Assize-Mark";

/// Prefix of the data format's version in the description of a stream.
const VERSION_PREFIX: &str = "assize, version ";

/// First and maximum pause before a request is repeated that got no reply.
const RETRY_PAUSE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Duration of an outage before it is logged.
const LOG_OUTAGE_AFTER: Duration = Duration::from_secs(2);

/// Number of messages read at a time.
const BATCH: usize = 200;

/// Idle time after which the servers remove a temporary consumer.
const CONSUMER_TTL: Duration = Duration::from_secs(10);

/// Connection options of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    pub address: ClusterServers,
    pub identification: ClusterCredentials,
    /// Name of the cluster, because several clusters can share the same servers.
    pub name: String,
    /// Number of servers that store each stream.
    pub replicas: usize,
    /// How long to wait for servers that do not reply; indefinitely if not set.
    pub patience: Option<Duration>,
    /// Timeouts and intervals, the same on all nodes.
    pub times: ClusterTimes,
}

/// Connection to the servers.
#[derive(Debug)]
pub(crate) struct NatsConnection {
    pub(crate) context: Context,
    pub(crate) options: ClusterOptions,
    /// Address of the servers, for messages.
    address: String,
    /// Whether the current outage was logged.
    outage_logged: AtomicBool,
    downtime: Mutex<Downtime>,
    /// Why there is no connection, if there is none.
    connection_error: ConnectionError,
}

type ConnectionError = Arc<Mutex<Option<String>>>;

/// Total time during which the servers did not reply.
#[derive(Debug, Default)]
struct Downtime {
    /// Duration of all earlier outages.
    before: Duration,
    /// End of the last outage.
    until: Option<Instant>,
    /// Start of the current outage.
    since: Option<Instant>,
}

/// A message in a stream.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) sequence: u64,
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Vec<u8>,
}

impl StoredMessage {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(header::HeaderValue::as_str)
    }

    /// Part of the subject, counted from 0; empty if there are fewer parts.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.subject.split('.').nth(index).unwrap_or_default()
    }
}

/// Result of writing a message that must exist once.
#[derive(Debug)]
pub(crate) enum CreateResult {
    /// Our message was written, with this sequence number.
    Ours(u64),
    /// Another writer was first; this is its message.
    Theirs(StoredMessage),
}

/// Selects messages of a stream.
#[derive(Debug, Clone)]
pub(crate) struct ReadSelection {
    pub(crate) stream: &'static str,
    pub(crate) filter: String,
    /// First sequence number.
    pub(crate) from: u64,
    /// Whether to read only the last message of each subject.
    pub(crate) last_of_each: bool,
}

/// Whether to continue reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFlow {
    Wanted,
    Enough,
}

impl NatsConnection {
    /// Starts to connect, without waiting for the servers. The first request waits.
    pub(crate) async fn open(options: ClusterOptions) -> Result<NatsConnection, StoreError> {
        let (address, reply) = (options.address.to_string(), options.times.server_reply());
        let unopened =
            |reason: String| StoreError::Unopened { path: PathBuf::from(&address), reason };
        let identified = identify(&options.identification);
        let connecting = identified.await.map_err(&unopened)?;
        let connection_error = ConnectionError::default();
        let current_error = Arc::clone(&connection_error);
        let connecting = connecting
            .name(format!("assize {}", std::process::id()))
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(reply)
            .reconnect_delay_callback(|attempt| match attempt {
                0 | 1 => RETRY_PAUSE[0],
                _ => RETRY_PAUSE[1] / 2,
            })
            .event_callback(move |event| {
                let current = Arc::clone(&current_error);
                async move {
                    match event {
                        Event::Connected => *current.lock() = None,
                        Event::Disconnected => {
                            *current.lock() = Some("not connected to any server".into());
                        }
                        Event::ServerError(error) => *current.lock() = Some(error.to_string()),
                        Event::ClientError(error) => {
                            let message = error.to_string();
                            // The client reports only this if no server listens at the address.
                            let refused = message.ends_with("IO error");
                            let refused = refused.then(|| "no server replies there".to_owned());
                            *current.lock() = Some(refused.unwrap_or(message));
                        }
                        _ => {}
                    }
                }
            });
        let client = connecting.connect(options.address.servers()).await;
        let client = client.map_err(|error| unopened(words(&error)))?;
        let context =
            jetstream::ContextBuilder::new().timeout(reply).ack_timeout(reply).build(client);
        Ok(NatsConnection {
            context,
            options,
            address,
            outage_logged: AtomicBool::new(false),
            downtime: Mutex::default(),
            connection_error,
        })
    }

    /// Total time during which the servers did not reply.
    pub(crate) fn away(&self) -> Duration {
        let downtime = self.downtime.lock();
        downtime.before + downtime.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Records that an outage has lasted since `since`, or, with `None`, that there is no outage.
    fn record_outage(&self, since: Option<Instant>) {
        let mut downtime = self.downtime.lock();
        match since {
            Some(since) => {
                // Several requests may wait through the same outage: count no time twice.
                let since = downtime.until.map_or(since, |until| since.max(until));
                downtime.since.get_or_insert(since);
            }
            None => {
                if let Some(since) = downtime.since.take() {
                    downtime.before += since.elapsed();
                    downtime.until = Some(Instant::now());
                }
            }
        }
    }

    /// Error for a cluster that cannot be used.
    pub(crate) fn unopened(&self, reason: String) -> StoreError {
        StoreError::Unopened { path: PathBuf::from(&self.address), reason }
    }

    pub(crate) fn failed(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Failed { path: PathBuf::from(&self.address), reason: reason.to_string() }
    }

    /// Name of a stream on the servers, prefixed with the cluster's name.
    pub(crate) fn stream_name(&self, stream: &str) -> String {
        format!("{}-{stream}", self.options.name)
    }

    /// NATS subject, prefixed with the cluster's name.
    pub(crate) fn subject(&self, rest: &str) -> String {
        format!("{}.{rest}", self.options.name)
    }

    pub(crate) async fn stream(&self, stream: &str) -> Result<Stream<()>, NatsError> {
        Ok(self.context.get_stream_no_info(self.stream_name(stream)).await?)
    }

    /// Creates a stream if it does not exist, and returns its actual configuration. An existing stream is not changed,
    /// except for an older version in its description.
    pub(crate) async fn set_up(&self, config: Config) -> Result<Config, StoreError> {
        let description = Some(describe(config.description.as_deref()));
        let config = Config { description, ..config };
        let create = async || Ok(self.context.get_or_create_stream(config.clone()).await?);
        let existing = self.retry(create).await?.cached_info().config.clone();
        self.refuse_newer(&existing)?;
        let version = existing.description.as_deref().and_then(version_of);
        if version.is_some_and(|version| version < crate::VERSION) {
            // Nodes of the older version refuse to use the stream from now on.
            let description = existing.description.as_deref().and_then(parse_description);
            let description = Some(describe(description.and_then(|(_, more)| more)));
            let upgraded = Config { description, ..existing.clone() };
            let update = async || Ok(self.context.update_stream(upgraded.clone()).await?);
            self.retry(update).await?;
        }
        let (actual, configured) = (existing.num_replicas, config.num_replicas);
        if actual != configured {
            let stream = config.name;
            tracing::warn!(stream, "the stream has {actual} replicas, but {configured} configured");
        }
        Ok(existing)
    }

    /// Rejects a stream that a later version created or took over.
    pub(crate) fn refuse_newer(&self, existing: &Config) -> Result<(), StoreError> {
        let version = existing.description.as_deref().and_then(version_of);
        match version.filter(|version| *version > crate::VERSION) {
            Some(found) => {
                let path = PathBuf::from(&self.address);
                Err(StoreError::Newer { path, found, known: crate::VERSION })
            }
            None => Ok(()),
        }
    }

    /// Starts a retry loop.
    pub(crate) fn patience(&self) -> RetryLoop<'_> {
        RetryLoop { link: self, begun: Instant::now(), pause: RETRY_PAUSE[0] }
    }

    /// Repeats a request until the servers reply.
    pub(crate) async fn retry<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, NatsError>>,
    {
        let mut patience = self.patience();
        loop {
            if let Some(answer) = patience.heed(attempt().await).await? {
                return Ok(answer);
            }
        }
    }

    /// Writes a message under a subject that has none, or returns the existing message.
    pub(crate) async fn create(
        &self,
        stream: &str,
        subject: &str,
        mut headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<CreateResult, StoreError> {
        let mark = mark();
        headers.insert(MARK, mark.as_str());
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
        let payload = Bytes::from(payload);
        let mut patience = self.patience();
        let mut first_attempt = true;
        loop {
            let created =
                self.try_create(stream, subject, &headers, &payload, &mark, first_attempt).await;
            if let Some(created) = patience.heed(created).await? {
                return Ok(created);
            }
            first_attempt = false;
        }
    }

    /// Makes one attempt to write. An earlier attempt may have been stored, so later ones look for its message first.
    async fn try_create(
        &self,
        stream: &str,
        subject: &str,
        headers: &HeaderMap,
        payload: &Bytes,
        mark: &str,
        first_attempt: bool,
    ) -> Result<CreateResult, NatsError> {
        if !first_attempt && let Some(found) = self.fetch_last(stream, subject).await? {
            return Ok(created_by(found, mark));
        }
        match self.publish(subject, headers.clone(), payload.clone()).await {
            Ok(sequence) => Ok(CreateResult::Ours(sequence)),
            Err(NatsError::Taken) => match self.fetch_last(stream, subject).await? {
                Some(found) => Ok(created_by(found, mark)),
                None => Err(NatsError::Silent("the message was removed meanwhile".to_owned())),
            },
            Err(trouble) => Err(trouble),
        }
    }

    /// Adds a message under a subject. Retries do not duplicate it.
    pub(crate) async fn add(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<u64, StoreError> {
        self.add_once(subject, headers, payload, &mark()).await
    }

    /// Adds a message under a subject, unless a message with the same id (`name`) was added shortly before.
    pub(crate) async fn add_once(
        &self,
        subject: &str,
        mut headers: HeaderMap,
        payload: Vec<u8>,
        name: &str,
    ) -> Result<u64, StoreError> {
        // JetStream drops messages whose id it has already seen.
        headers.insert(header::NATS_MESSAGE_ID, name);
        let payload = Bytes::from(payload);
        self.retry(|| self.publish(subject, headers.clone(), payload.clone())).await
    }

    async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<u64, NatsError> {
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, payload).await?;
        Ok(sent.await?.sequence)
    }

    /// Last message under a subject, read from the stream's leader.
    pub(crate) async fn last(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, StoreError> {
        self.retry(|| self.fetch_last(stream, subject)).await
    }

    async fn fetch_last(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, NatsError> {
        let stream = self.stream(stream).await?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(StoredMessage {
                sequence: message.sequence,
                subject: message.subject.to_string(),
                headers: message.headers,
                payload: message.payload.to_vec(),
            })),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Last sequence number ever assigned in a stream.
    pub(crate) async fn last_place(&self, stream: &str) -> Result<u64, StoreError> {
        Ok(self.retry(|| self.info(stream)).await?.state.last_sequence)
    }

    /// Configuration and state of a stream.
    pub(crate) async fn info(&self, stream: &str) -> Result<Info, NatsError> {
        Ok(self.stream(stream).await?.get_info().await?)
    }

    /// Reads all selected messages in order, until `each` has enough. Includes every message acknowledged before the
    /// call, whichever server replies.
    pub(crate) async fn read(
        &self,
        mut reading: ReadSelection,
        mut each: impl FnMut(StoredMessage) -> Result<ReadFlow, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(mut last) = self.last(reading.stream, &reading.filter).await? else {
            return Ok(());
        };
        let mut patience = self.patience();
        while reading.from <= last.sequence {
            let batch = self.read_some(&reading, last.sequence).await;
            let Some(batch) = patience.heed(batch).await? else {
                // The last message may have been removed meanwhile.
                match self.last(reading.stream, &reading.filter).await? {
                    Some(now) => last = now,
                    None => return Ok(()),
                }
                continue;
            };
            for found in batch {
                reading.from = found.sequence + 1;
                if each(found)? == ReadFlow::Enough {
                    return Ok(());
                }
            }
            if reading.last_of_each {
                // These are not ordered by sequence number, so the read cannot be continued.
                break;
            }
        }
        Ok(())
    }

    /// Reads one batch of messages, up to sequence number `upto`; with `last_of_each`, all of them.
    async fn read_some(
        &self,
        reading: &ReadSelection,
        upto: u64,
    ) -> Result<Vec<StoredMessage>, NatsError> {
        let stream = self.stream(reading.stream).await?;
        let deliver_policy = match reading.last_of_each {
            true => DeliverPolicy::LastPerSubject,
            false => DeliverPolicy::ByStartSequence { start_sequence: reading.from.max(1) },
        };
        let config = pull::Config {
            filter_subject: reading.filter.clone(),
            deliver_policy,
            ack_policy: AckPolicy::None,
            inactive_threshold: CONSUMER_TTL,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await?;
        let mut found: Vec<StoredMessage> = Vec::new();
        loop {
            let mut batch = consumer
                .batch()
                .max_messages(BATCH)
                .expires(self.options.times.server_reply() / 2)
                .messages()
                .await?;
            let before = found.len();
            while let Some(message) = batch.next().await {
                let message = message.map_err(|error| NatsError::Silent(error.to_string()))?;
                let info = message.info().map_err(|error| NatsError::Refused(error.to_string()))?;
                let (sequence, pending) = (info.stream_sequence, info.pending);
                found.push(StoredMessage {
                    sequence,
                    subject: message.subject.to_string(),
                    headers: message.headers.clone().unwrap_or_default(),
                    payload: message.payload.to_vec(),
                });
                if sequence >= upto && (pending == 0 || !reading.last_of_each) {
                    return Ok(found);
                }
            }
            match found.len() - before {
                // The server of the consumer lags behind or has died.
                0 if found.is_empty() => {
                    return Err(NatsError::Silent("timed out reading messages".to_owned()));
                }
                0 => return Ok(found),
                _ if reading.last_of_each => {}
                // Return each batch, so that a long journal is not held in memory twice.
                _ => return Ok(found),
            }
        }
    }
}

/// Retry loop: waits while the servers do not reply, and logs the outage.
pub(crate) struct RetryLoop<'a> {
    link: &'a NatsConnection,
    begun: Instant,
    pause: Duration,
}

impl RetryLoop<'_> {
    /// Returns the value of a successful attempt. After a temporary error, pauses and returns `None`: the caller makes
    /// another attempt. Other errors, and temporary ones after the timeout, are returned.
    pub(crate) async fn heed<T>(
        &mut self,
        attempt: Result<T, NatsError>,
    ) -> Result<Option<T>, StoreError> {
        let (link, waited) = (self.link, self.begun.elapsed());
        link.record_outage(matches!(attempt, Err(NatsError::Silent(_))).then_some(self.begun));
        let reason = match attempt {
            Err(NatsError::Silent(reason)) => reason,
            Err(trouble) => return Err(trouble.told(&link.address)),
            Ok(value) => {
                (self.begun, self.pause) = (Instant::now(), RETRY_PAUSE[0]);
                if link.outage_logged.swap(false, Ordering::Relaxed) {
                    tracing::warn!("the cluster at {} replies again", link.address);
                }
                return Ok(Some(value));
            }
        };
        let connection_error = link.connection_error.lock().clone();
        let reason = connection_error.unwrap_or(reason);
        if link.options.patience.is_some_and(|patience| waited > patience) {
            return Err(NatsError::Silent(reason).told(&link.address));
        }
        if waited > LOG_OUTAGE_AFTER && !link.outage_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "the cluster at {} does not reply; retrying", link.address);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(RETRY_PAUSE[1]);
        Ok(None)
    }
}

/// Description of a stream: version of the data format, and other values that all nodes must agree on.
fn describe(more: Option<&str>) -> String {
    let more = more.map(|more| format!(", {more}")).unwrap_or_default();
    format!("{VERSION_PREFIX}{}{more}", crate::VERSION)
}

/// Version and the rest of a stream's description.
fn parse_description(description: &str) -> Option<(u32, Option<&str>)> {
    let rest = description.strip_prefix(VERSION_PREFIX)?;
    let (version, more) = rest.split_once(", ").map_or((rest, None), |(v, more)| (v, Some(more)));
    Some((version.parse().ok()?, more))
}

fn version_of(description: &str) -> Option<u32> {
    Some(parse_description(description)?.0)
}

/// Random id of 22 letters and digits.
pub(crate) fn mark() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(22).collect()
}

fn created_by(found: StoredMessage, mark: &str) -> CreateResult {
    match found.header(MARK) == Some(mark) {
        true => CreateResult::Ours(found.sequence),
        false => CreateResult::Theirs(found),
    }
}

async fn identify(identification: &ClusterCredentials) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new();
    if let Some(file) = &identification.credentials {
        let read = options.credentials_file(file).await;
        options = read.map_err(|error| format!("`{}`: {error}", file.display()))?;
    }
    if let Some((user, password)) = &identification.user {
        options = options.user_and_password(user.clone(), password.clone());
    }
    if let Some(token) = &identification.token {
        options = options.token(token.clone());
    }
    for file in identification
        .authority
        .iter()
        .chain(identification.certificate.iter().flat_map(|(certificate, key)| [certificate, key]))
    {
        if let Err(error) = std::fs::File::open(file) {
            return Err(format!("`{}`: {error}", file.display()));
        }
    }
    if let Some(authority) = &identification.authority {
        options = options.add_root_certificates(authority.clone()).require_tls(true);
    }
    if let Some((certificate, key)) = &identification.certificate {
        options =
            options.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
    }
    Ok(options)
}

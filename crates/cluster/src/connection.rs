//! Connection to the NATS servers: exactly-once writes, reads, and retries while the servers do not reply.
//!
//! If the servers do not acknowledge a message in time, they may still have stored it. So every message that must exist
//! only once has its own NATS subject, and a header with a random id that the writer generated. After a timeout, the
//! writer reads the message that is stored under the subject, and compares the ids to find out whether the message is
//! its own.

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
use crate::error::{NatsError, error_chain, is_missing};
use crate::times::ClusterTimes;

/// Header with a random id, by which the writer of a message recognizes its own message.
const MARK: &str = "Assize-Mark";

/// Prefix of a stream's description. The version of the data format follows the prefix.
const VERSION_PREFIX: &str = "assize, version ";

/// Delays before a request to which the servers did not reply is repeated: the initial delay and the maximum delay.
const RETRY_PAUSE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Duration after which an outage of the NATS servers is logged.
const LOG_OUTAGE_AFTER: Duration = Duration::from_secs(2);

/// Maximum number of messages that are read from a stream at a time.
const BATCH: usize = 200;

/// Idle time after which the servers remove a temporary consumer.
const CONSUMER_TTL: Duration = Duration::from_secs(10);

/// Options of the connection to a cluster.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    pub address: ClusterServers,
    pub credentials: ClusterCredentials,
    /// Name of the cluster. It distinguishes clusters that share the same NATS servers.
    pub name: String,
    /// Number of NATS servers that store each stream.
    pub replicas: usize,
    /// Maximum time that a request waits for NATS servers that do not reply; `None` waits without a limit.
    pub timeout: Option<Duration>,
    /// Timeouts and intervals of the cluster, which are the same on all nodes.
    pub times: ClusterTimes,
}

/// Connection to the NATS servers of a cluster.
#[derive(Debug)]
pub(crate) struct NatsConnection {
    pub(crate) context: Context,
    pub(crate) options: ClusterOptions,
    /// Addresses of the NATS servers, for error messages.
    address: String,
    /// Whether the current outage was already logged.
    outage_logged: AtomicBool,
    downtime: Mutex<Downtime>,
    /// Why there is no connection to the servers; `None` if there is a connection.
    connection_error: ConnectionError,
}

type ConnectionError = Arc<Mutex<Option<String>>>;

/// Outages of the NATS servers: periods during which the servers did not reply.
#[derive(Debug, Default)]
struct Downtime {
    /// Total duration of the outages that have ended.
    before: Duration,
    /// Time at which the last outage ended.
    until: Option<Instant>,
    /// Time at which the current outage began; `None` if there is no outage.
    since: Option<Instant>,
}

/// Message that is stored in a stream.
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

    /// Returns the part of the NATS subject with this index. Dots separate the parts, and the first part has the index
    /// 0. Returns an empty text if the subject has no such part.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.subject.split('.').nth(index).unwrap_or_default()
    }
}

/// Result of writing a message that must exist only once.
#[derive(Debug)]
pub(crate) enum CreateResult {
    /// The message of this writer was stored. The value is its sequence number.
    Ours(u64),
    /// Another writer wrote to the subject first. The value is the message of that other writer.
    Theirs(StoredMessage),
}

/// Selection of messages to read from a stream.
#[derive(Debug, Clone)]
pub(crate) struct ReadSelection {
    pub(crate) stream: &'static str,
    pub(crate) filter: String,
    /// Sequence number of the first message to read.
    pub(crate) from: u64,
    /// Whether only the last message of each subject is read.
    pub(crate) last_of_each: bool,
}

/// Whether the reader of a stream wants more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFlow {
    Continue,
    Stop,
}

impl NatsConnection {
    /// Starts to connect without waiting for the servers. The first request waits until the servers reply.
    pub(crate) async fn open(options: ClusterOptions) -> Result<NatsConnection, StoreError> {
        let (address, reply) = (options.address.to_string(), options.times.server_reply());
        let unopened =
            |reason: String| StoreError::CannotOpen { path: PathBuf::from(&address), reason };
        let identified = identify(&options.credentials);
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
                            *current.lock() = Some("not connected to any NATS server".into());
                        }
                        Event::ServerError(error) => *current.lock() = Some(error.to_string()),
                        Event::ClientError(error) => {
                            let message = error.to_string();
                            // If no server listens at the address, the NATS client reports only `IO error`.
                            let refused = message.ends_with("IO error");
                            let why = "no NATS server replies at this address";
                            let refused = refused.then(|| why.to_owned());
                            *current.lock() = Some(refused.unwrap_or(message));
                        }
                        _ => {}
                    }
                }
            });
        let client = connecting.connect(options.address.servers()).await;
        let client = client.map_err(|error| unopened(error_chain(&error)))?;
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

    /// Total time during which the servers did not reply, since this connection was opened.
    pub(crate) fn away(&self) -> Duration {
        let downtime = self.downtime.lock();
        downtime.before + downtime.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Records that an outage began at `since`; with `None`, records that there is no outage.
    fn record_outage(&self, since: Option<Instant>) {
        let mut downtime = self.downtime.lock();
        match since {
            Some(since) => {
                // Several requests may wait during the same outage, so ensure that no time is counted twice.
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

    /// Builds the error for a cluster that cannot be used; `reason` says why it cannot be used.
    pub(crate) fn unopened(&self, reason: String) -> StoreError {
        StoreError::CannotOpen { path: PathBuf::from(&self.address), reason }
    }

    pub(crate) fn failed(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Failed { path: PathBuf::from(&self.address), reason: reason.to_string() }
    }

    /// Returns the full name of a stream on the servers: the name of the cluster, `-` and the name `stream`.
    pub(crate) fn stream_name(&self, stream: &str) -> String {
        format!("{}-{stream}", self.options.name)
    }

    /// Returns the full NATS subject: the name of the cluster, a dot and `rest`.
    pub(crate) fn subject(&self, rest: &str) -> String {
        format!("{}.{rest}", self.options.name)
    }

    pub(crate) async fn stream(&self, stream: &str) -> Result<Stream<()>, NatsError> {
        Ok(self.context.get_stream_no_info(self.stream_name(stream)).await?)
    }

    /// Creates a stream if it does not exist, and returns its configuration. An existing stream is not changed, with
    /// one exception: if its description contains an older version of the data format, the current version replaces
    /// that version.
    pub(crate) async fn set_up(&self, config: Config) -> Result<Config, StoreError> {
        let description = Some(describe(config.description.as_deref()));
        let config = Config { description, ..config };
        let create = async || Ok(self.context.get_or_create_stream(config.clone()).await?);
        let existing = self.retry(create).await?.cached_info().config.clone();
        self.refuse_newer(&existing)?;
        let version = existing.description.as_deref().and_then(version_of);
        if version.is_some_and(|version| version < crate::VERSION) {
            // From now on, nodes with the older version refuse to use the stream.
            let description = existing.description.as_deref().and_then(parse_description);
            let description = Some(describe(description.and_then(|(_, more)| more)));
            let upgraded = Config { description, ..existing.clone() };
            let update = async || Ok(self.context.update_stream(upgraded.clone()).await?);
            self.retry(update).await?;
        }
        let (actual, configured) = (existing.num_replicas, config.num_replicas);
        if actual != configured {
            let stream = config.name;
            tracing::warn!(
                stream,
                "the number of replicas of the stream is {actual}, but {configured} is configured"
            );
        }
        Ok(existing)
    }

    /// Fails if the stream was created or upgraded by a later version of assize.
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

    /// Returns the state of a new loop that repeats a request until the servers reply.
    pub(crate) fn retry_loop(&self) -> RetryLoop<'_> {
        RetryLoop { link: self, begun: Instant::now(), pause: RETRY_PAUSE[0] }
    }

    /// Repeats a request until the servers reply, or until [`ClusterOptions::timeout`] has passed.
    pub(crate) async fn retry<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, NatsError>>,
    {
        let mut patience = self.retry_loop();
        loop {
            if let Some(answer) = patience.check(attempt().await).await? {
                return Ok(answer);
            }
        }
    }

    /// Writes a message to a subject that has no message yet, or returns the existing message of the subject.
    pub(crate) async fn create(
        &self,
        stream: &str,
        subject: &str,
        mut headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<CreateResult, StoreError> {
        let mark = random_id();
        headers.insert(MARK, mark.as_str());
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
        let payload = Bytes::from(payload);
        let mut patience = self.retry_loop();
        let mut first_attempt = true;
        loop {
            let created =
                self.try_create(stream, subject, &headers, &payload, &mark, first_attempt).await;
            if let Some(created) = patience.check(created).await? {
                return Ok(created);
            }
            first_attempt = false;
        }
    }

    /// Makes one attempt to write the message. The servers may have stored the message in an earlier attempt, so each
    /// later attempt first reads the message that is stored under the subject.
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
            Err(NatsError::SubjectExists) => match self.fetch_last(stream, subject).await? {
                Some(found) => Ok(created_by(found, mark)),
                None => {
                    let reason =
                        "the existing message of the subject was removed before it could be read";
                    Err(NatsError::Silent(reason.to_owned()))
                }
            },
            Err(trouble) => Err(trouble),
        }
    }

    /// Adds a message to a subject. Repeated attempts do not duplicate the message.
    pub(crate) async fn add(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<u64, StoreError> {
        self.add_once(subject, headers, payload, &random_id()).await
    }

    /// Adds a message to a subject, unless a message with the same message id (`name`) was added within the
    /// deduplication window of `JetStream`.
    pub(crate) async fn add_once(
        &self,
        subject: &str,
        mut headers: HeaderMap,
        payload: Vec<u8>,
        name: &str,
    ) -> Result<u64, StoreError> {
        // JetStream ignores a message with the same id as a recent message.
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

    /// Reads the last message of a subject from the leader of the stream.
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

    /// Returns the last sequence number that was assigned in a stream, even if the message with this number was
    /// removed.
    pub(crate) async fn last_sequence(&self, stream: &str) -> Result<u64, StoreError> {
        Ok(self.retry(|| self.info(stream)).await?.state.last_sequence)
    }

    /// Returns the configuration and the state of a stream.
    pub(crate) async fn info(&self, stream: &str) -> Result<Info, NatsError> {
        Ok(self.stream(stream).await?.get_info().await?)
    }

    /// Reads all selected messages in order and calls `each` with them, until `each` returns [`ReadFlow::Stop`].
    /// Every message whose write was acknowledged before this call is included, no matter which server replies.
    pub(crate) async fn read(
        &self,
        mut reading: ReadSelection,
        mut each: impl FnMut(StoredMessage) -> Result<ReadFlow, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(mut last) = self.last(reading.stream, &reading.filter).await? else {
            return Ok(());
        };
        let mut patience = self.retry_loop();
        while reading.from <= last.sequence {
            let batch = self.read_some(&reading, last.sequence).await;
            let Some(batch) = patience.check(batch).await? else {
                // Determine the last message again, because it may have been removed since.
                match self.last(reading.stream, &reading.filter).await? {
                    Some(now) => last = now,
                    None => return Ok(()),
                }
                continue;
            };
            for found in batch {
                reading.from = found.sequence + 1;
                if each(found)? == ReadFlow::Stop {
                    return Ok(());
                }
            }
            if reading.last_of_each {
                // With `last_of_each` the messages are not ordered by sequence number, so the read cannot be continued.
                break;
            }
        }
        Ok(())
    }

    /// Reads one batch of the selected messages, up to the sequence number `upto`. With `last_of_each`, reads all
    /// selected messages at once.
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
                // The server of the consumer has died, or has not received the messages yet.
                0 if found.is_empty() => {
                    let reason = "timed out while reading messages from a stream";
                    return Err(NatsError::Silent(reason.to_owned()));
                }
                0 => return Ok(found),
                _ if reading.last_of_each => {}
                // Return each batch separately, so that a long journal is not stored in memory twice.
                _ => return Ok(found),
            }
        }
    }
}

/// State of a loop that repeats a request while the servers do not reply, and that logs the outage.
pub(crate) struct RetryLoop<'a> {
    link: &'a NatsConnection,
    begun: Instant,
    pause: Duration,
}

impl RetryLoop<'_> {
    /// Checks the result of one attempt to send a request. Returns the value if the attempt succeeded. After a
    /// temporary error, waits and returns `None`; the caller then makes another attempt. Returns any other error, and
    /// also a temporary error once [`ClusterOptions::timeout`] has passed.
    pub(crate) async fn check<T>(
        &mut self,
        attempt: Result<T, NatsError>,
    ) -> Result<Option<T>, StoreError> {
        let (link, waited) = (self.link, self.begun.elapsed());
        link.record_outage(matches!(attempt, Err(NatsError::Silent(_))).then_some(self.begun));
        let reason = match attempt {
            Err(NatsError::Silent(reason)) => reason,
            Err(trouble) => return Err(trouble.into_store_error(&link.address)),
            Ok(value) => {
                (self.begun, self.pause) = (Instant::now(), RETRY_PAUSE[0]);
                if link.outage_logged.swap(false, Ordering::Relaxed) {
                    tracing::warn!("the NATS servers at {} reply again", link.address);
                }
                return Ok(Some(value));
            }
        };
        let connection_error = link.connection_error.lock().clone();
        let reason = connection_error.unwrap_or(reason);
        if link.options.timeout.is_some_and(|patience| waited > patience) {
            return Err(NatsError::Silent(reason).into_store_error(&link.address));
        }
        if waited > LOG_OUTAGE_AFTER && !link.outage_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "the NATS servers at {} do not reply; retrying", link.address);
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(RETRY_PAUSE[1]);
        Ok(None)
    }
}

/// Builds the description of a stream: the version of the data format and, if set, the text `more` with other values
/// that must be the same on all nodes.
fn describe(more: Option<&str>) -> String {
    let more = more.map(|more| format!(", {more}")).unwrap_or_default();
    format!("{VERSION_PREFIX}{}{more}", crate::VERSION)
}

/// Parses the description of a stream. Returns the version of the data format, and the text with the other values that
/// must be the same on all nodes, if any.
fn parse_description(description: &str) -> Option<(u32, Option<&str>)> {
    let rest = description.strip_prefix(VERSION_PREFIX)?;
    let (version, more) = rest.split_once(", ").map_or((rest, None), |(v, more)| (v, Some(more)));
    Some((version.parse().ok()?, more))
}

fn version_of(description: &str) -> Option<u32> {
    Some(parse_description(description)?.0)
}

/// Generates a random id of 22 letters and digits.
pub(crate) fn random_id() -> String {
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
        options = read.map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
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
            return Err(format!("cannot read `{}`: {error}", file.display()));
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

//! The line to the servers: what is written once, what is read back, and how long it is waited for them.
//!
//! A publish that was not acknowledged in time may have been stored. So everything that matters is written
//! once, under a subject of its own and with a mark that only its writer knows: whoever is not sure asks
//! what is there, and knows by the mark whether it is theirs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_config::Address;
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

use crate::address::Identification;
use crate::error::{Trouble, is_missing, words};
use crate::times::Times;

/// The mark of whoever wrote a message.
const MARK: &str = "Assize-Mark";

/// Before the version of what is said in a stream.
const MADE_BY: &str = "assize, version ";

/// How long it is waited before servers that did not answer are asked again, at first and at last.
const PAUSE: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// Servers that were silent for so long are spoken of.
const SILENCE: Duration = Duration::from_secs(2);

/// So many messages are read at a time.
const BATCH: usize = 200;

/// A reader that nobody reads by is forgotten by the servers after so long.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// What there is to know about a cluster before anything is said.
#[derive(Debug, Clone)]
pub struct Options {
    pub address: Address,
    pub identification: Identification,
    /// What it is called among others on the same servers.
    pub name: String,
    /// On how many servers everything is kept.
    pub replicas: usize,
    /// How long servers that do not answer are waited for; for good, if not said.
    pub patience: Option<Duration>,
    /// Times that its nodes work by: the same for all of them.
    pub times: Times,
}

/// The line to the servers.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) context: Context,
    pub(crate) options: Options,
    shown: String,
    /// Whether it was said that they are silent.
    said: AtomicBool,
    away: Mutex<Away>,
    /// Why there is no connection, if there is none.
    complaint: Complaint,
}

type Complaint = Arc<Mutex<Option<String>>>;

/// How long the servers were silent, until when, and since when they are again.
#[derive(Debug, Default)]
struct Away {
    before: Duration,
    until: Option<Instant>,
    since: Option<Instant>,
}

/// A message as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) sequence: u64,
    pub(crate) subject: String,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Vec<u8>,
}

impl Found {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(header::HeaderValue::as_str)
    }

    /// What stands in its subject after so many words.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.subject.split('.').nth(index).unwrap_or_default()
    }
}

/// What became of something that is written once.
#[derive(Debug)]
pub(crate) enum Created {
    /// It is there, in this place.
    Ours(u64),
    /// Somebody else was first.
    Theirs(Found),
}

/// What is to be read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) stream: &'static str,
    pub(crate) filter: String,
    /// From this place on.
    pub(crate) from: u64,
    /// Only the last under each subject.
    pub(crate) last_of_each: bool,
}

/// Whether there is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Wanted,
    Enough,
}

impl Link {
    /// Does not wait for the servers; what is asked first does.
    pub(crate) async fn open(options: Options) -> Result<Link, StoreError> {
        let (shown, reply) = (options.address.to_string(), options.times.server_reply());
        let unopened =
            |reason: String| StoreError::Unopened { path: PathBuf::from(&shown), reason };
        let identified = identify(&options.identification);
        let connecting = identified.await.map_err(&unopened)?;
        let complaint = Complaint::default();
        let heard = Arc::clone(&complaint);
        let connecting = connecting
            .name(format!("assize {}", std::process::id()))
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(reply)
            .reconnect_delay_callback(|attempt| if attempt < 2 { PAUSE[0] } else { PAUSE[1] / 2 })
            .event_callback(move |event| {
                let complaint = Arc::clone(&heard);
                async move {
                    match event {
                        Event::Connected => *complaint.lock() = None,
                        Event::Disconnected => {
                            *complaint.lock() = Some("no server is connected".into());
                        }
                        Event::ServerError(error) => *complaint.lock() = Some(error.to_string()),
                        Event::ClientError(error) => {
                            let words = error.to_string();
                            // That is all that it says where there is nobody.
                            let nobody = words.ends_with("IO error");
                            let nobody = nobody.then(|| "nobody answers there".to_owned());
                            *complaint.lock() = Some(nobody.unwrap_or(words));
                        }
                        _ => {}
                    }
                }
            });
        let client = connecting.connect(options.address.servers()).await;
        let client = client.map_err(|error| unopened(words(&error)))?;
        let context =
            jetstream::ContextBuilder::new().timeout(reply).ack_timeout(reply).build(client);
        Ok(Link {
            context,
            options,
            shown,
            said: AtomicBool::new(false),
            away: Mutex::default(),
            complaint,
        })
    }

    /// How long the servers were silent in all.
    pub(crate) fn away(&self) -> Duration {
        let away = self.away.lock();
        away.before + away.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notes that they are silent since then, or not at all.
    fn note_away(&self, since: Option<Instant>) {
        let mut away = self.away.lock();
        match since {
            Some(since) => {
                // No time counts twice, however many waited.
                let since = away.until.map_or(since, |until| since.max(until));
                away.since.get_or_insert(since);
            }
            None => {
                if let Some(since) = away.since.take() {
                    away.before += since.elapsed();
                    away.until = Some(Instant::now());
                }
            }
        }
    }

    /// The error of a cluster that cannot be used.
    pub(crate) fn unopened(&self, reason: String) -> StoreError {
        StoreError::Unopened { path: PathBuf::from(&self.shown), reason }
    }

    pub(crate) fn failed(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::Failed { path: PathBuf::from(&self.shown), reason: reason.to_string() }
    }

    /// The name of one of our streams on the servers.
    pub(crate) fn stream_name(&self, stream: &str) -> String {
        format!("{}-{stream}", self.options.name)
    }

    /// A subject of ours on the servers.
    pub(crate) fn subject(&self, rest: &str) -> String {
        format!("{}.{rest}", self.options.name)
    }

    pub(crate) async fn stream(&self, stream: &str) -> Result<Stream<()>, Trouble> {
        Ok(self.context.get_stream_no_info(self.stream_name(stream)).await?)
    }

    /// Makes a stream that is not there yet. One that is there stays as it is. Gives what is there.
    pub(crate) async fn set_up(&self, config: Config) -> Result<Config, StoreError> {
        let description = Some(made_by(config.description.as_deref()));
        let config = Config { description, ..config };
        let made = async || Ok(self.context.get_or_create_stream(config.clone()).await?);
        let there = self.retry(made).await?.cached_info().config.clone();
        self.refuse_newer(&there)?;
        let speaks = there.description.as_deref().and_then(version_of);
        if speaks.is_some_and(|version| version < crate::VERSION) {
            // From here on those who speak that one are told.
            let description = there.description.as_deref().and_then(about);
            let description = Some(made_by(description.and_then(|(_, more)| more)));
            let taken_over = Config { description, ..there.clone() };
            let update = async || Ok(self.context.update_stream(taken_over.clone()).await?);
            self.retry(update).await?;
        }
        let (kept, wanted) = (there.num_replicas, config.num_replicas);
        if kept != wanted {
            let stream = config.name;
            tracing::warn!(stream, "kept on {kept} servers, as it was made, and not on {wanted}");
        }
        Ok(there)
    }

    /// Refuses what a later version has made, or taken over.
    pub(crate) fn refuse_newer(&self, there: &Config) -> Result<(), StoreError> {
        let speaks = there.description.as_deref().and_then(version_of);
        match speaks.filter(|version| *version > crate::VERSION) {
            Some(found) => {
                let path = PathBuf::from(&self.shown);
                Err(StoreError::Newer { path, found, known: crate::VERSION })
            }
            None => Ok(()),
        }
    }

    /// To try something until the servers answer.
    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience { link: self, begun: Instant::now(), pause: PAUSE[0] }
    }

    /// Repeats a request until the servers answer it.
    pub(crate) async fn retry<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let mut patience = self.patience();
        loop {
            if let Some(answer) = patience.heed(attempt().await).await? {
                return Ok(answer);
            }
        }
    }

    /// Writes what must be there once. Whoever comes second is told what is there.
    pub(crate) async fn create(
        &self,
        stream: &str,
        subject: &str,
        mut headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<Created, StoreError> {
        let mark = mark();
        headers.insert(MARK, mark.as_str());
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
        let payload = Bytes::from(payload);
        let mut patience = self.patience();
        let mut sure = true;
        loop {
            let created =
                self.try_to_create(stream, subject, &headers, &payload, &mark, sure).await;
            if let Some(created) = patience.heed(created).await? {
                return Ok(created);
            }
            sure = false;
        }
    }

    /// Where it is not sure what became of an earlier try, it is asked first.
    async fn try_to_create(
        &self,
        stream: &str,
        subject: &str,
        headers: &HeaderMap,
        payload: &Bytes,
        mark: &str,
        sure: bool,
    ) -> Result<Created, Trouble> {
        if !sure && let Some(found) = self.ask_for_last(stream, subject).await? {
            return Ok(whose(found, mark));
        }
        match self.publish(subject, headers.clone(), payload.clone()).await {
            Ok(sequence) => Ok(Created::Ours(sequence)),
            Err(Trouble::Taken) => match self.ask_for_last(stream, subject).await? {
                Some(found) => Ok(whose(found, mark)),
                None => Err(Trouble::Silent("somebody removes what is written".to_owned())),
            },
            Err(trouble) => Err(trouble),
        }
    }

    /// Writes something more under a subject, once.
    pub(crate) async fn add(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<u64, StoreError> {
        self.add_once(subject, headers, payload, &mark()).await
    }

    /// The same for what others may add, too, under the same name.
    pub(crate) async fn add_once(
        &self,
        subject: &str,
        mut headers: HeaderMap,
        payload: Vec<u8>,
        name: &str,
    ) -> Result<u64, StoreError> {
        // The servers know it by this when it is sent again.
        headers.insert(header::NATS_MESSAGE_ID, name);
        let payload = Bytes::from(payload);
        self.retry(|| self.publish(subject, headers.clone(), payload.clone())).await
    }

    async fn publish(
        &self,
        subject: &str,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<u64, Trouble> {
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, payload).await?;
        Ok(sent.await?.sequence)
    }

    /// The last message under a subject, as the leader has it.
    pub(crate) async fn last(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<Found>, StoreError> {
        self.retry(|| self.ask_for_last(stream, subject)).await
    }

    async fn ask_for_last(&self, stream: &str, subject: &str) -> Result<Option<Found>, Trouble> {
        let stream = self.stream(stream).await?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(Found {
                sequence: message.sequence,
                subject: message.subject.to_string(),
                headers: message.headers,
                payload: message.payload.to_vec(),
            })),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The last place that was ever given out in a stream.
    pub(crate) async fn last_place(&self, stream: &str) -> Result<u64, StoreError> {
        Ok(self.retry(|| self.info(stream)).await?.state.last_sequence)
    }

    /// How a stream is set up, and how it stands.
    pub(crate) async fn info(&self, stream: &str) -> Result<Info, Trouble> {
        Ok(self.stream(stream).await?.get_info().await?)
    }

    /// Reads all that is there, in order. What was acknowledged before is part of it, whichever server is asked.
    pub(crate) async fn read(
        &self,
        mut reading: Reading,
        mut each: impl FnMut(Found) -> Result<More, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(mut last) = self.last(reading.stream, &reading.filter).await? else {
            return Ok(());
        };
        let mut patience = self.patience();
        while reading.from <= last.sequence {
            let batch = self.read_some(&reading, last.sequence).await;
            let Some(batch) = patience.heed(batch).await? else {
                // What was the last may have been removed meanwhile.
                match self.last(reading.stream, &reading.filter).await? {
                    Some(now) => last = now,
                    None => return Ok(()),
                }
                continue;
            };
            for found in batch {
                reading.from = found.sequence + 1;
                if each(found)? == More::Enough {
                    return Ok(());
                }
            }
            if reading.last_of_each {
                // By place they are in no order that could be gone on in.
                break;
            }
        }
        Ok(())
    }

    /// Reads on up to a place, as far as it comes without a break.
    async fn read_some(&self, reading: &Reading, upto: u64) -> Result<Vec<Found>, Trouble> {
        let stream = self.stream(reading.stream).await?;
        let deliver_policy = match reading.last_of_each {
            true => DeliverPolicy::LastPerSubject,
            false => DeliverPolicy::ByStartSequence { start_sequence: reading.from.max(1) },
        };
        let config = pull::Config {
            filter_subject: reading.filter.clone(),
            deliver_policy,
            ack_policy: AckPolicy::None,
            inactive_threshold: FORGOTTEN,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await?;
        let mut found: Vec<Found> = Vec::new();
        loop {
            let mut batch = consumer
                .batch()
                .max_messages(BATCH)
                .expires(self.options.times.server_reply() / 2)
                .messages()
                .await?;
            let before = found.len();
            while let Some(message) = batch.next().await {
                let message = message.map_err(|error| Trouble::Silent(error.to_string()))?;
                let info = message.info().map_err(|error| Trouble::Refused(error.to_string()))?;
                let (sequence, pending) = (info.stream_sequence, info.pending);
                found.push(Found {
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
                // The server that reads for us is behind, or gone.
                0 if found.is_empty() => return Err(Trouble::Silent("nothing comes".to_owned())),
                0 => return Ok(found),
                _ if reading.last_of_each => {}
                // So that not all of a long journal is held twice.
                _ => return Ok(found),
            }
        }
    }
}

/// Waits for servers that do not answer, and says so.
pub(crate) struct Patience<'a> {
    link: &'a Link,
    begun: Instant,
    pause: Duration,
}

impl Patience<'_> {
    /// What was answered; or nothing, a while later, if it is to be tried again.
    pub(crate) async fn heed<T>(
        &mut self,
        answer: Result<T, Trouble>,
    ) -> Result<Option<T>, StoreError> {
        let (link, waited) = (self.link, self.begun.elapsed());
        link.note_away(matches!(answer, Err(Trouble::Silent(_))).then_some(self.begun));
        let reason = match answer {
            Err(Trouble::Silent(reason)) => reason,
            Err(trouble) => return Err(trouble.told(&link.shown)),
            Ok(answer) => {
                (self.begun, self.pause) = (Instant::now(), PAUSE[0]);
                if link.said.swap(false, Ordering::Relaxed) {
                    tracing::warn!("the cluster at {} answers again", link.shown);
                }
                return Ok(Some(answer));
            }
        };
        let complaint = link.complaint.lock().clone();
        let reason = complaint.unwrap_or(reason);
        if link.options.patience.is_some_and(|patience| waited > patience) {
            return Err(Trouble::Silent(reason).told(&link.shown));
        }
        if waited > SILENCE && !link.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                reason,
                "the cluster at {} does not answer; it is waited for",
                link.shown
            );
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE[1]);
        Ok(None)
    }
}

/// Description of a stream: the version of what is in it, and what else all nodes must know.
fn made_by(more: Option<&str>) -> String {
    let more = more.map(|more| format!(", {more}")).unwrap_or_default();
    format!("{MADE_BY}{}{more}", crate::VERSION)
}

/// Version and the rest of such a description.
fn about(description: &str) -> Option<(u32, Option<&str>)> {
    let rest = description.strip_prefix(MADE_BY)?;
    let (version, more) = rest.split_once(", ").map_or((rest, None), |(v, more)| (v, Some(more)));
    Some((version.parse().ok()?, more))
}

fn version_of(description: &str) -> Option<u32> {
    Some(about(description)?.0)
}

/// Twenty-two letters and digits that nobody else has.
pub(crate) fn mark() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(22).collect()
}

fn whose(found: Found, mark: &str) -> Created {
    match found.header(MARK) == Some(mark) {
        true => Created::Ours(found.sequence),
        false => Created::Theirs(found),
    }
}

async fn identify(identification: &Identification) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::new();
    if let Some(file) = &identification.credentials {
        let read = options.credentials_file(file).await;
        options = read.map_err(|error| format!("`{}`: {error}", file.display()))?;
    }
    if let Some((user, word)) = &identification.user {
        options = options.user_and_password(user.clone(), word.clone());
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

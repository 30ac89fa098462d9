//! Job queue of the cluster, on a `JetStream` work-queue stream.
//!
//! Jobs with the same [`Requirements`] share one pull consumer. A worker pulls from every consumer whose requirements
//! it meets. A worker that stops renewing the lease on a job loses the job, and `JetStream` redelivers it to another
//! worker. So a job can be started more than once. Writes that must happen once are fenced in the store (see `store`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assize_run::StoreError;
use assize_types::Fingerprint;
use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use futures_util::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::NatsConnection;
use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::error::NatsError;
use crate::times::{ClusterTimes, DEFAULT_LEASE};

/// Number of deliveries after which a job that workers refused fails, unless a worker that has not refused the job
/// meets its requirements. A run also fails once this number of workers in a row died without progress on the run.
pub const MAX_DELIVERIES: u64 = 5;

/// Text that precedes the lease duration (in milliseconds) in the description of the queue's stream. If the lease has
/// the default duration, the description contains neither this text nor the duration.
const LEASE_MS: &str = "lease in ms: ";

pub(crate) const WORK: &str = "work";

/// Requirements that a worker must meet to execute a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkNeeds")]
pub struct Requirements {
    /// Kind of slot that the job occupies on the worker. Each kind has its own slots, so a job never waits for a job
    /// that occupies a different kind of slot.
    pub place: SlotKind,
    /// Isolation that the sandbox must have; null if any isolation is sufficient.
    pub isolation: Option<String>,
    /// Memory that the sandbox needs, in megabytes.
    pub memory: u64,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

/// Kind of slot that a job occupies on the worker that executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkPlace")]
#[serde(rename_all = "snake_case")]
pub enum SlotKind {
    /// The job occupies one of the slots for runs that use no sandbox.
    #[default]
    Run,
    /// The job occupies one of the worker's sandbox slots.
    Sandbox,
    /// The job enforces the rate limits of a provider. Such jobs have their own slots, because other jobs depend on
    /// them.
    RateLimits,
}

impl Requirements {
    /// Name of the consumer for jobs with these requirements. The name contains the version of the data format, so that
    /// workers with another version do not pull from the consumer.
    fn consumer_name(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("v{}-{}", crate::VERSION, &Fingerprint::of(text).to_string()[..16])
    }
}

/// Capabilities that a worker offers to jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeCapabilities")]
pub struct Capabilities {
    pub isolations: Vec<String>,
    /// Maximum memory of one sandbox, in megabytes.
    pub memory: u64,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

impl Capabilities {
    /// Whether a worker with these capabilities can execute a job with these requirements.
    pub fn meet(&self, needs: &Requirements) -> bool {
        let isolation = needs.isolation.as_ref().is_none_or(|name| self.isolations.contains(name));
        let region = needs.region.is_none() || needs.region == self.region;
        let labels = needs.labels.iter().all(|(name, value)| self.labels.get(name) == Some(value));
        isolation && region && labels && needs.memory <= self.memory
    }
}

/// Job in the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedJob {
    /// Kind of the job: letters, digits and `-`.
    pub kind: String,
    /// Name of the object that the job is about, such as the id of a run: letters, digits and `-`.
    pub about: String,
    /// Number that distinguishes jobs with the same `kind` and `about`, such as the epoch of a run. Adding a job again
    /// with the same number has no effect within the deduplication window of `JetStream`.
    pub turn: u64,
    pub body: Value,
}

impl std::fmt::Display for QueuedJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.kind, self.about, self.turn)
    }
}

/// How many jobs with the same requirements are in the queue, by their state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QueueCounts {
    pub needs: Requirements,
    /// Number of jobs that were never delivered to a worker.
    pub waiting: u64,
    /// Number of jobs that were delivered to a worker and are not acknowledged yet.
    pub under_way: u64,
    /// Number of jobs in `under_way` that were redelivered at least once.
    pub again: u64,
}

/// Job queue of a cluster.
#[derive(Debug, Clone)]
pub struct Queue {
    link: Arc<NatsConnection>,
    dead_letters: DeadLetters,
}

/// Job that was delivered to this worker. If the value is dropped before the job is acknowledged, the job is
/// redelivered once its lease expires.
pub struct Delivery {
    pub work: QueuedJob,
    /// Number of deliveries of the job so far, including this one.
    pub deliveries: u64,
    message: Arc<Received>,
    /// Why the message cannot be decoded; `None` if it was decoded. For a message that cannot be decoded, the fields
    /// `kind` and `about` of `work` come from the NATS subject of the message.
    undecodable: Option<String>,
    dead_letters: DeadLetters,
    acker: Arc<Acker>,
    lease: JobLease,
    /// Task that renews the lease on the job.
    _renewal: AbortOnDropHandle<()>,
}

/// Message as it was received from the queue, before it is decoded.
struct Received {
    subject: String,
    payload: bytes::Bytes,
    /// Sequence number of the message in the stream.
    sequence: u64,
}

/// Lease on a delivered job.
#[derive(Debug, Clone)]
pub struct JobLease {
    times: ClusterTimes,
    /// Time at which the last successful renewal of the lease was sent.
    renewed: Arc<Mutex<Instant>>,
}

impl JobLease {
    fn begin(times: ClusterTimes, since: Instant) -> JobLease {
        JobLease { times, renewed: Arc::new(Mutex::new(since)) }
    }

    /// Whether the lease is valid. No other worker has the job while the lease is valid. An expired lease cannot be
    /// renewed.
    pub fn is_valid(&self) -> bool {
        self.renewed.lock().elapsed() < self.times.lease()
    }

    /// Waits until the lease expires. After that, another worker may have the job.
    pub async fn expired(&self) {
        while self.is_valid() {
            let since = *self.renewed.lock();
            tokio::time::sleep_until(since + self.times.lease()).await;
        }
    }

    fn renew(&self, since: Instant) {
        let mut last = self.renewed.lock();
        if last.elapsed() < self.times.lease() {
            *last = since;
        }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("work", &self.work)
            .field("tries", &self.deliveries)
            .finish()
    }
}

impl Queue {
    pub(crate) async fn open(link: Arc<NatsConnection>) -> Result<Queue, StoreError> {
        let lease = link.options.times.lease();
        let config = Config {
            name: link.stream_name(WORK),
            description: (lease != DEFAULT_LEASE)
                .then(|| format!("{LEASE_MS}{}", lease.as_millis())),
            subjects: vec![link.subject("work.>")],
            retention: RetentionPolicy::WorkQueue,
            num_replicas: link.options.replicas,
            ..Config::default()
        };
        let found = lease_of(&link.set_up(config).await?);
        if found != lease {
            let (found, lease) = (found.as_secs_f64(), lease.as_secs_f64());
            let reason = format!(
                "the lease duration of the cluster is {found} s, but {lease} s is configured"
            );
            return Err(link.unopened(reason));
        }
        let dead_letters = DeadLetters::open(Arc::clone(&link)).await?;
        Ok(Queue { link, dead_letters })
    }

    /// Returns up to `limit` of the newest dead letters, newest first.
    pub async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.dead_letters.newest(limit).await
    }

    /// Adds a job to the queue.
    pub async fn add(&self, needs: &Requirements, work: &QueuedJob) -> Result<(), StoreError> {
        let (subject, payload) = self.prepare(needs, work).await?;
        self.link.add_once(&subject, HeaderMap::new(), payload, &work.to_string()).await?;
        self.wake().await;
        Ok(())
    }

    /// Checks that the cluster's data format does not have a later version than that of this process.
    ///
    /// # Errors
    /// Fails with [`StoreError::Newer`] if the version is later, and with other errors if the version cannot be read.
    pub async fn check_version(&self) -> Result<(), StoreError> {
        self.link.refuse_newer(&self.link.retry(|| self.link.info(WORK)).await?.config)
    }

    /// Whether a job of this kind about this object is waiting or being executed.
    pub async fn has(&self, kind: &str, about: &str) -> Result<bool, StoreError> {
        let subject = self.link.subject(&format!("work.*.{kind}.{about}"));
        Ok(self.link.last(WORK, &subject).await?.is_some())
    }

    /// Adds a job, unless a job of the same kind about the same object with the same requirements is waiting or being
    /// executed.
    pub async fn add_if_absent(
        &self,
        needs: &Requirements,
        work: &QueuedJob,
    ) -> Result<(), StoreError> {
        let (subject, payload) = self.prepare(needs, work).await?;
        self.link.create(WORK, &subject, HeaderMap::new(), payload).await?;
        self.wake().await;
        Ok(())
    }

    /// Creates the consumer for the requirements of a job, and returns the NATS subject and the payload of the job.
    async fn prepare(
        &self,
        needs: &Requirements,
        work: &QueuedJob,
    ) -> Result<(String, Vec<u8>), StoreError> {
        let line = needs.consumer_name();
        self.link.retry(|| self.create_consumer(&line, needs)).await?;
        let payload = serde_json::to_vec(work).map_err(|error| self.link.failed(error))?;
        Ok((self.link.subject(&format!("work.{line}.{}.{}", work.kind, work.about)), payload))
    }

    /// Sends a message that wakes the waiting workers. A worker that does not receive the message finds new jobs at its
    /// next poll.
    async fn wake(&self) {
        let client = self.link.context.client();
        let _ = client.publish(self.link.subject("wake"), Vec::new().into()).await;
    }

    async fn create_consumer(&self, line: &str, needs: &Requirements) -> Result<(), NatsError> {
        let config = pull::Config {
            durable_name: Some(line.to_owned()),
            description: serde_json::to_string(needs).ok(),
            filter_subject: self.link.subject(&format!("work.{line}.>")),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.link.options.times.lease(),
            max_ack_pending: 100_000,
            ..pull::Config::default()
        };
        let stream = self.link.stream(WORK).await?;
        stream.get_or_create_consumer(line, config).await?;
        Ok(())
    }

    /// Returns, for each set of requirements, how many jobs with these requirements are in the queue.
    pub async fn lines(&self) -> Result<Vec<QueueCounts>, StoreError> {
        let lines = self.link.retry(|| self.fetch_lines()).await?;
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// Reads all consumers of the queue. Returns the name of each consumer, and how many jobs it has in each state.
    async fn fetch_lines(&self) -> Result<Vec<(String, QueueCounts)>, NatsError> {
        let stream = self.link.stream(WORK).await?;
        let all = stream.consumers().try_collect::<Vec<_>>().await?;
        let line = |info: async_nats::jetstream::consumer::Info| {
            let needs = serde_json::from_str(&info.config.description?).ok()?;
            let (waiting, under_way) = (info.num_pending, info.num_ack_pending as u64);
            let line =
                QueueCounts { needs, waiting, under_way, again: info.num_redelivered as u64 };
            Some((info.name, line))
        };
        Ok(all.into_iter().filter_map(line).collect())
    }

    /// Waits for the next job that occupies this kind of slot and that a worker with these capabilities can execute.
    pub async fn next_delivery(
        &self,
        capabilities: &Capabilities,
        place: SlotKind,
    ) -> Result<Delivery, StoreError> {
        let client = self.link.context.client();
        let mut patience = self.link.retry_loop();
        loop {
            // Subscribe before polling, so that a job that is published in between wakes this worker.
            let mut wake = client.subscribe(self.link.subject("wake")).await.ok();
            loop {
                let taken = self.try_take(capabilities, place).await;
                if let Some(Some(taken)) = patience.check(taken).await? {
                    return Ok(taken);
                }
                let woken = async {
                    match &mut wake {
                        Some(wake) => wake.next().await.is_some(),
                        None => std::future::pending().await,
                    }
                };
                if let Ok(false) = tokio::time::timeout(self.link.options.times.poll(), woken).await
                {
                    break;
                }
            }
        }
    }

    async fn try_take(
        &self,
        capabilities: &Capabilities,
        place: SlotKind,
    ) -> Result<Option<Delivery>, NatsError> {
        let (stream, times) = (self.link.stream(WORK).await?, self.link.options.times);
        for (name, line) in self.fetch_lines().await? {
            let ours = name.starts_with(&format!("v{}-", crate::VERSION));
            let fits = line.needs.place == place && capabilities.meet(&line.needs);
            // Do not skip a consumer that has only delivered jobs, because a job may be due for redelivery.
            if !ours || !fits || line.waiting + line.under_way == 0 {
                continue;
            }
            let asked = Instant::now();
            let consumer: PullConsumer = stream
                .get_consumer(&name)
                .await
                .map_err(|error| NatsError::Silent(error.to_string()))?;
            let mut batch = consumer.fetch().max_messages(1).messages().await?;
            // The timeout is needed because a fetch on a broken connection never ends. A job that arrives after the
            // timeout is redelivered.
            let next = tokio::time::timeout(times.server_reply(), batch.next()).await;
            let next =
                next.map_err(|_| NatsError::Silent("timed out while fetching a job".to_owned()))?;
            let Some(message) = next else { continue };
            let message = message.map_err(|error| NatsError::Silent(error.to_string()))?;
            let info = message.info().map(|info| (info.delivered, info.stream_sequence));
            let (tries, sequence) =
                info.map_or((1, 0), |(tries, sequence)| (tries.unsigned_abs(), sequence));
            let (message, acker) = message.split();
            let acker = Arc::new(acker);
            let (subject, payload) = (message.subject.to_string(), message.payload);
            let message = Arc::new(Received { subject, payload, sequence });
            let (work, undecodable) = match serde_json::from_slice(&message.payload) {
                Ok(work) => (work, None),
                Err(error) => {
                    let reason = format!("cannot decode the message: {error}");
                    (work_of(&message.subject), Some(reason))
                }
            };
            let lease = JobLease::begin(times, asked);
            let renewal = tokio::spawn(renew_lease(Arc::clone(&acker), lease.clone()));
            let _renewal = AbortOnDropHandle::new(renewal);
            let dead_letters = self.dead_letters.clone();
            return Ok(Some(Delivery {
                work,
                deliveries: tries,
                message,
                undecodable,
                dead_letters,
                acker,
                lease,
                _renewal,
            }));
        }
        Ok(None)
    }
}

/// Reads the lease duration of the cluster from the description of the queue's stream.
fn lease_of(queue: &Config) -> Duration {
    let description = queue.description.as_deref().unwrap_or_default();
    let millis = description.split(", ").find_map(|part| part.strip_prefix(LEASE_MS)?.parse().ok());
    millis.map_or(DEFAULT_LEASE, Duration::from_millis)
}

/// Builds a job without a body for a message that cannot be decoded. The fields `kind` and `about` are the last two
/// parts of the NATS subject.
fn work_of(subject: &str) -> QueuedJob {
    let mut parts = subject.rsplitn(3, '.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (about, kind) = (next(), next());
    QueuedJob { kind, about, turn: 0, body: Value::Null }
}

/// Adds a message to the dead-letter list and removes it from the queue. If the list cannot be written, the message
/// stays in the queue and is redelivered.
async fn move_to_dead_letters(
    dead_letters: &DeadLetters,
    message: &Received,
    acker: &Acker,
    reason: &str,
    deliveries: u64,
) {
    let Received { subject, payload, sequence } = message;
    let letter = DeadLetter::new(subject, reason, payload, deliveries);
    if let Err(error) = dead_letters.add(*sequence, &letter).await {
        tracing::error!(%error, subject, reason, "cannot add a message to the dead-letter list");
        return;
    }
    tracing::error!(subject, reason, "message moved to the dead-letter list");
    if let Err(error) = acker.double_ack_with(AckKind::Term).await {
        tracing::warn!(%error, subject, "cannot remove a dead-letter message from the queue");
    }
}

/// Renews the lease on a job at a fixed interval, and stops once the lease has expired. Another worker may then have
/// received the job, and a renewal would extend the lease of that worker.
async fn renew_lease(acker: Arc<Acker>, lease: JobLease) {
    loop {
        tokio::time::sleep(lease.times.renewal()).await;
        let sent = Instant::now();
        if !lease.is_valid() {
            return;
        }
        let renewal = acker.double_ack_with(AckKind::Progress);
        match tokio::time::timeout(lease.times.renewal(), renewal).await {
            Ok(Ok(())) => lease.renew(sent),
            Ok(Err(error)) => tracing::debug!(%error, "cannot renew the lease on a job"),
            Err(_) => tracing::debug!("timed out while renewing the lease on a job"),
        }
    }
}

impl Delivery {
    pub fn lease(&self) -> JobLease {
        self.lease.clone()
    }

    /// Decodes the body of the job.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, String> {
        if let Some(reason) = &self.undecodable {
            return Err(reason.clone());
        }
        T::deserialize(&self.work.body).map_err(|error| format!("cannot decode the job: {error}"))
    }

    /// Acknowledges the job, which removes it from the queue.
    pub async fn ack(self) {
        self.end(AckKind::Ack).await;
    }

    /// Returns the job to the queue (nack). The job is redelivered after a delay of about `after`. The delay is
    /// randomized, so that it does not always coincide with the next poll of the same worker.
    pub async fn nack(self, after: Duration) {
        let after = after.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.end(AckKind::Nak(Some(after))).await;
    }

    /// Moves the message to the dead-letter list, because no worker can execute the job.
    pub async fn dead_letter(self, reason: &str) {
        let Delivery { dead_letters, message, acker, deliveries: tries, .. } = &self;
        move_to_dead_letters(dead_letters, message, acker, reason, *tries).await;
    }

    async fn end(&self, kind: AckKind) {
        // If the acknowledgement fails, the job is redelivered, and the next worker finds that the job is done.
        if let Err(error) = self.acker.double_ack_with(kind).await {
            tracing::warn!(%error, work = %self.work, "cannot send the ack or nack of a job");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn capabilities_meet_requirements_only_if_isolation_memory_labels_and_region_match() {
        let worker = Capabilities {
            isolations: vec!["jail".to_owned(), "at-least=jail".to_owned()],
            memory: 512,
            labels: labels(&[("site", "north"), ("disk", "fast")]),
            region: Some("eu".to_owned()),
        };
        let needs = |change: fn(&mut Requirements)| {
            let mut needs = Requirements::default();
            change(&mut needs);
            needs
        };
        for fits in [
            needs(|_| {}),
            needs(|needs| needs.isolation = Some("at-least=jail".to_owned())),
            needs(|needs| needs.memory = 512),
            needs(|needs| needs.labels = labels(&[("site", "north")])),
            needs(|needs| needs.region = Some("eu".to_owned())),
        ] {
            assert!(worker.meet(&fits), "{fits:?}");
        }
        for does_not in [
            needs(|needs| needs.isolation = Some("docker".to_owned())),
            needs(|needs| needs.memory = 513),
            needs(|needs| needs.labels = labels(&[("site", "south")])),
            needs(|needs| needs.labels = labels(&[("gpu", "yes")])),
            needs(|needs| needs.region = Some("us".to_owned())),
        ] {
            assert!(!worker.meet(&does_not), "{does_not:?}");
        }
        // A worker without a region does not meet the requirement of a region.
        assert!(
            !Capabilities::default().meet(&needs(|needs| needs.region = Some("eu".to_owned())))
        );
    }
}

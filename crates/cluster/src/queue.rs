//! Work that waits for whoever can do it.
//!
//! What is needed for a piece of work decides in which line it waits: a consumer of its own on the servers, that
//! everybody takes from who has what is needed. Who took something and is not heard of any more is taken for
//! dead, and somebody else gets it. So whatever is done here may be begun twice; what must be done once is
//! guarded where it is written.

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

use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::error::Trouble;
use crate::link::Link;
use crate::times::{DEFAULT_LEASE, Times};

/// Work that so many have begun and nobody has finished is given up.
pub const MOST_TRIES: u64 = 5;

/// Before the lease of a cluster in the description of its queue, in milliseconds; the default one is not written.
const LEASE_MS: &str = "lease in ms: ";

pub(crate) const WORK: &str = "work";

/// What a piece of work needs of whoever does it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkNeeds")]
pub struct Needs {
    /// What it takes of whoever does it. No work waits for a place that work of another kind has.
    pub place: Place,
    /// The walls, by name; any, if none is named.
    pub isolation: Option<String>,
    /// Memory for it, in megabytes.
    pub memory: u64,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

/// What work takes of whoever does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkPlace")]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// One of the runs that can be held at once.
    #[default]
    Run,
    /// One of the sandboxes that can be had at once.
    Sandbox,
    /// Nothing to speak of: others wait for it.
    Keeper,
}

impl Needs {
    /// The line that it waits in. Who speaks another version looks into other lines.
    fn line(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("v{}-{}", crate::VERSION, &Fingerprint::of(text).to_string()[..16])
    }
}

/// What somebody can do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NodeCapabilities")]
pub struct Abilities {
    pub isolations: Vec<String>,
    /// Memory for one piece of work, in megabytes.
    pub memory: u64,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

impl Abilities {
    /// Whether that is enough.
    pub fn meet(&self, needs: &Needs) -> bool {
        let walls = needs.isolation.as_ref().is_none_or(|walls| self.isolations.contains(walls));
        let region = needs.region.is_none() || needs.region == self.region;
        let labels = needs.labels.iter().all(|(name, value)| self.labels.get(name) == Some(value));
        walls && region && labels && needs.memory <= self.memory
    }
}

/// A piece of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// What is to be done: letters, digits and `-`, as in the next.
    pub kind: String,
    /// With what.
    pub about: String,
    /// The same is put once in each of its turns, however often somebody tries to.
    pub turn: u64,
    pub body: Value,
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.kind, self.about, self.turn)
    }
}

/// A line in which work waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Line {
    pub needs: Needs,
    pub waiting: u64,
    pub under_way: u64,
    /// Of those under way, how many came back at least once.
    pub again: u64,
}

/// All that waits.
#[derive(Debug, Clone)]
pub struct Queue {
    link: Arc<Link>,
    dead_letters: DeadLetters,
}

/// Work that was taken. Let go without a word, it comes back after a while.
pub struct Taken {
    pub work: Work,
    /// How many have begun it, with this one.
    pub tries: u64,
    message: Arc<Received>,
    /// Why the message cannot be decoded; kind and subject of `work` are then those it was published under.
    undecodable: Option<String>,
    dead_letters: DeadLetters,
    acker: Arc<Acker>,
    lease: Lease,
    /// Says again and again that it goes on.
    _going_on: AbortOnDropHandle<()>,
}

/// A message as it came.
struct Received {
    subject: String,
    payload: bytes::Bytes,
    /// Its place in the stream.
    place: u64,
}

/// How long something that was taken is sure to be ours.
#[derive(Debug, Clone)]
pub struct Lease {
    times: Times,
    /// When it was last renewed.
    renewed: Arc<Mutex<Instant>>,
}

impl Lease {
    fn begin(times: Times, since: Instant) -> Lease {
        Lease { times, renewed: Arc::new(Mutex::new(since)) }
    }

    /// Whether nobody else can have it. Whoever was silent for too long has lost it for good.
    pub fn holds(&self) -> bool {
        self.renewed.lock().elapsed() < self.times.lease()
    }

    /// Waits until somebody else may have it.
    pub async fn lost(&self) {
        while self.holds() {
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

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").field("work", &self.work).field("tries", &self.tries).finish()
    }
}

impl Queue {
    pub(crate) async fn open(link: Arc<Link>) -> Result<Queue, StoreError> {
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
            let reason = format!("its lease is {found} s, and {lease} s is configured here");
            return Err(link.unopened(reason));
        }
        let dead_letters = DeadLetters::open(Arc::clone(&link)).await?;
        Ok(Queue { link, dead_letters })
    }

    /// The newest messages that no worker could run, the newest first.
    pub async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, StoreError> {
        self.dead_letters.newest(limit).await
    }

    /// Has something done by whoever can.
    pub async fn put(&self, needs: &Needs, work: &Work) -> Result<(), StoreError> {
        let (subject, payload) = self.prepare(needs, work).await?;
        self.link.add_once(&subject, HeaderMap::new(), payload, &work.to_string()).await?;
        self.wake().await;
        Ok(())
    }

    /// Refuses to go on where a later version has taken the cluster over.
    ///
    /// # Errors
    /// [`StoreError::Newer`] then; or when the servers refuse to say.
    pub async fn check_version(&self) -> Result<(), StoreError> {
        self.link.refuse_newer(&self.link.retry(|| self.link.info(WORK)).await?.config)
    }

    /// Whether something is to be done with this, and waits or is under way.
    pub async fn has(&self, kind: &str, about: &str) -> Result<bool, StoreError> {
        let subject = self.link.subject(&format!("work.*.{kind}.{about}"));
        Ok(self.link.last(WORK, &subject).await?.is_some())
    }

    /// Has something done that nobody else has put there: however many try to, it is there once until it is done.
    pub async fn put_alone(&self, needs: &Needs, work: &Work) -> Result<(), StoreError> {
        let (subject, payload) = self.prepare(needs, work).await?;
        self.link.create(WORK, &subject, HeaderMap::new(), payload).await?;
        self.wake().await;
        Ok(())
    }

    /// Makes the line that it waits in; where it goes, and what.
    async fn prepare(&self, needs: &Needs, work: &Work) -> Result<(String, Vec<u8>), StoreError> {
        let line = needs.line();
        self.link.retry(|| self.make_line(&line, needs)).await?;
        let payload = serde_json::to_vec(work).map_err(|error| self.link.failed(error))?;
        Ok((self.link.subject(&format!("work.{line}.{}.{}", work.kind, work.about)), payload))
    }

    /// Tells those who wait. Whoever does not hear it looks a moment later.
    async fn wake(&self) {
        let client = self.link.context.client();
        let _ = client.publish(self.link.subject("wake"), Vec::new().into()).await;
    }

    async fn make_line(&self, line: &str, needs: &Needs) -> Result<(), Trouble> {
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

    /// The lines there are.
    pub async fn lines(&self) -> Result<Vec<Line>, StoreError> {
        let lines = self.link.retry(|| self.ask_for_lines()).await?;
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// By their names.
    async fn ask_for_lines(&self) -> Result<Vec<(String, Line)>, Trouble> {
        let stream = self.link.stream(WORK).await?;
        let all = stream.consumers().try_collect::<Vec<_>>().await?;
        let line = |info: async_nats::jetstream::consumer::Info| {
            let needs = serde_json::from_str(&info.config.description?).ok()?;
            let (waiting, under_way) = (info.num_pending, info.num_ack_pending as u64);
            let line = Line { needs, waiting, under_way, again: info.num_redelivered as u64 };
            Some((info.name, line))
        };
        Ok(all.into_iter().filter_map(line).collect())
    }

    /// Waits for work that somebody with these abilities and such a place can do.
    pub async fn take(&self, abilities: &Abilities, place: Place) -> Result<Taken, StoreError> {
        let client = self.link.context.client();
        let mut patience = self.link.patience();
        loop {
            // First it is listened, then looked, so that nothing falls between.
            let mut wake = client.subscribe(self.link.subject("wake")).await.ok();
            loop {
                let taken = self.try_to_take(abilities, place).await;
                if let Some(Some(taken)) = patience.heed(taken).await? {
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

    async fn try_to_take(
        &self,
        abilities: &Abilities,
        place: Place,
    ) -> Result<Option<Taken>, Trouble> {
        let (stream, times) = (self.link.stream(WORK).await?, self.link.options.times);
        for (name, line) in self.ask_for_lines().await? {
            let ours = name.starts_with(&format!("v{}-", crate::VERSION));
            // What is under way may have come back.
            let fits = line.needs.place == place && abilities.meet(&line.needs);
            if !ours || !fits || line.waiting + line.under_way == 0 {
                continue;
            }
            let asked = Instant::now();
            let consumer: PullConsumer = stream
                .get_consumer(&name)
                .await
                .map_err(|error| Trouble::Silent(error.to_string()))?;
            let mut batch = consumer.fetch().max_messages(1).messages().await?;
            // What was asked of a connection that broke is never answered. What comes too late comes again.
            let next = tokio::time::timeout(times.server_reply(), batch.next()).await;
            let next = next.map_err(|_| Trouble::Silent("nothing comes".to_owned()))?;
            let Some(message) = next else { continue };
            let message = message.map_err(|error| Trouble::Silent(error.to_string()))?;
            let info = message.info().map(|info| (info.delivered, info.stream_sequence));
            let (tries, place) =
                info.map_or((1, 0), |(tries, place)| (tries.unsigned_abs(), place));
            let (message, acker) = message.split();
            let acker = Arc::new(acker);
            let (subject, payload) = (message.subject.to_string(), message.payload);
            let message = Arc::new(Received { subject, payload, place });
            let (work, undecodable) = match serde_json::from_slice(&message.payload) {
                Ok(work) => (work, None),
                Err(error) => {
                    let reason = format!("cannot decode the message: {error}");
                    (work_of(&message.subject), Some(reason))
                }
            };
            let lease = Lease::begin(times, asked);
            let going_on = tokio::spawn(go_on(Arc::clone(&acker), lease.clone()));
            let _going_on = AbortOnDropHandle::new(going_on);
            let dead_letters = self.dead_letters.clone();
            return Ok(Some(Taken {
                work,
                tries,
                message,
                undecodable,
                dead_letters,
                acker,
                lease,
                _going_on,
            }));
        }
        Ok(None)
    }
}

/// Lease of the cluster that a queue belongs to.
fn lease_of(queue: &Config) -> Duration {
    let description = queue.description.as_deref().unwrap_or_default();
    let millis = description.split(", ").find_map(|part| part.strip_prefix(LEASE_MS)?.parse().ok());
    millis.map_or(DEFAULT_LEASE, Duration::from_millis)
}

/// The job that was published under a subject: the last two parts are its kind and its name.
fn work_of(subject: &str) -> Work {
    let mut parts = subject.rsplitn(3, '.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (about, kind) = (next(), next());
    Work { kind, about, turn: 0, body: Value::Null }
}

/// Adds a message to the dead-letter list and removes it from the queue. It stays in the queue, and is
/// redelivered, when the list cannot be written.
async fn move_to_dead_letters(
    dead_letters: &DeadLetters,
    message: &Received,
    acker: &Acker,
    reason: &str,
    deliveries: u64,
) {
    let Received { subject, payload, place } = message;
    let letter = DeadLetter::new(subject, reason, payload, deliveries);
    if let Err(error) = dead_letters.add(*place, &letter).await {
        tracing::error!(%error, subject, reason, "cannot write the dead-letter list");
        return;
    }
    tracing::error!(subject, reason, "message moved to the dead-letter list");
    if let Err(error) = acker.double_ack_with(AckKind::Term).await {
        tracing::warn!(%error, subject, "cannot remove a dead letter from the queue");
    }
}

/// Says that it goes on, as long as it is sure to be ours: whoever has it next would be spoken for.
async fn go_on(acker: Arc<Acker>, lease: Lease) {
    loop {
        tokio::time::sleep(lease.times.renewal()).await;
        let asked = Instant::now();
        if !lease.holds() {
            return;
        }
        let renewal = acker.double_ack_with(AckKind::Progress);
        match tokio::time::timeout(lease.times.renewal(), renewal).await {
            Ok(Ok(())) => lease.renew(asked),
            Ok(Err(error)) => tracing::debug!(%error, "that work goes on could not be said"),
            Err(_) => tracing::debug!("nobody heard that work goes on"),
        }
    }
}

impl Taken {
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Decodes what the job is about.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, String> {
        if let Some(reason) = &self.undecodable {
            return Err(reason.clone());
        }
        T::deserialize(&self.work.body).map_err(|error| format!("cannot decode the job: {error}"))
    }

    /// It is done, and is never to come back.
    pub async fn done(self) {
        self.end(AckKind::Ack).await;
    }

    /// Somebody else may do it, after about so long: not always just when the same one looks again.
    pub async fn give_back(self, after: Duration) {
        let after = after.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.end(AckKind::Nak(Some(after))).await;
    }

    /// Moves the message to the dead-letter list: no worker can run it.
    pub async fn dead_letter(self, reason: &str) {
        let Taken { dead_letters, message, acker, tries, .. } = &self;
        move_to_dead_letters(dead_letters, message, acker, reason, *tries).await;
    }

    async fn end(&self, kind: AckKind) {
        // If it is not heard, it comes back, and whoever gets it finds that it is done.
        if let Err(error) = self.acker.double_ack_with(kind).await {
            tracing::warn!(%error, work = %self.work, "how work ended could not be said");
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
    fn only_what_fits_is_given() {
        let worker = Abilities {
            isolations: vec!["jail".to_owned(), "at-least=jail".to_owned()],
            memory: 512,
            labels: labels(&[("site", "north"), ("disk", "fast")]),
            region: Some("eu".to_owned()),
        };
        let needs = |change: fn(&mut Needs)| {
            let mut needs = Needs::default();
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
        // Whoever says nothing of where it is gets nothing that has to be somewhere.
        assert!(!Abilities::default().meet(&needs(|needs| needs.region = Some("eu".to_owned()))));
    }
}

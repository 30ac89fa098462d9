//! The limits of a provider, for all of a cluster.
//!
//! One worker keeps them, as work that it took from the queue: everybody who is about to ask that provider asks it
//! first. Should it die, another takes the work over. It does not know what was let through before, and so takes the
//! last minute for used up, and waits until everybody has said what they have under way.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use assize_cluster::{Answering, LIMITS, Lease, Member, Needs, Place, Times, Unanswered, Work};
use assize_config::Provider;
use assize_gateway::choice::endpoint_in_use;
use assize_gateway::{Admitted, HttpClient, Left, Pace, Pacer};
use assize_run::StoreError;
use assize_types::Cancel;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::worker::{Host, Outcome};

/// It is asked again so soon where nobody keeps them at the moment.
const PAUSE: Duration = Duration::from_millis(100);

const MINUTE: Duration = Duration::from_secs(60);

/// What is said to whoever keeps the limits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// May a call be made?
    Admit { id: String, node: String, tokens: u64, within: u64 },
    /// It is over.
    Done { id: String, used: Option<u64> },
    /// These are under way or wait to be.
    Under { node: String, calls: Vec<(String, Under)> },
    /// The provider asked for patience, in milliseconds.
    Cool { wait: u64 },
    /// The provider said what is left, and in how many milliseconds that is renewed.
    Left { requests: Option<(u64, u64)>, tokens: Option<(u64, u64)>, own: u64 },
}

/// A call that is under way, or waits to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Under {
    tokens: u64,
    waits: bool,
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Yes,
    /// Not within the time there is, but in so many milliseconds.
    NotWithin(u64),
    /// Somebody else keeps them now, or will.
    NotHere,
}

fn name(provider: Provider) -> String {
    format!("{LIMITS}-{provider}")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Asks whoever keeps the limits.
#[derive(Debug)]
pub struct FarPacer {
    shared: Arc<Shared>,
    /// By what is known here; the keeper decides.
    concurrency: usize,
    next: AtomicU64,
    /// Says what is under way, as long as anything is.
    _reporting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    member: Arc<Member>,
    provider: Provider,
    calls: Mutex<HashMap<String, Under>>,
    /// Whether somebody kept them when they were last asked.
    found: AtomicBool,
}

impl Shared {
    async fn say(&self, said: &Said) -> Result<Value, Unanswered> {
        self.member.cluster.ask(&name(self.provider), &json!(said)).await
    }

    /// Sees to it that somebody keeps them.
    async fn find_a_keeper(&self) -> Result<(), StoreError> {
        let about = self.provider.to_string();
        let queue = &self.member.queue;
        if queue.has(LIMITS, &about).await? {
            return Ok(());
        }
        let work = Work { kind: LIMITS.to_owned(), about, turn: 1, body: Value::Null };
        let needs = Needs { place: Place::Keeper, ..Needs::default() };
        queue.put_alone(&needs, &work).await
    }

    async fn report(&self) {
        let interval = self.member.cluster.times().report();
        loop {
            tokio::time::sleep(interval).await;
            let calls: Vec<(String, Under)> =
                self.calls.lock().iter().map(|(id, under)| (id.clone(), *under)).collect();
            if calls.is_empty() {
                continue;
            }
            let said = Said::Under { node: self.member.id.clone(), calls };
            let _ = tokio::time::timeout(interval, self.say(&said)).await;
        }
    }
}

impl FarPacer {
    pub fn new(member: &Arc<Member>, provider: Provider, concurrency: usize) -> FarPacer {
        let shared = Shared {
            member: member.clone(),
            provider,
            calls: Mutex::default(),
            found: AtomicBool::new(false),
        };
        let shared = Arc::new(shared);
        let reporting = shared.clone();
        let reporting = tokio::spawn(async move { reporting.report().await });
        let _reporting = AbortOnDropHandle::new(reporting);
        FarPacer { shared, concurrency, next: AtomicU64::new(1), _reporting }
    }

    /// Says something that needs no answer.
    fn tell(&self, said: Said) {
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.say(&said).await });
    }
}

/// A call that was let through by whoever keeps the limits, or waits to be.
struct Far {
    shared: Arc<Shared>,
    id: String,
    used: Mutex<Option<u64>>,
}

impl Admitted for Far {
    fn used(&self, tokens: u64) {
        *self.used.lock() = Some(tokens);
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.shared.calls.lock().remove(&self.id);
        let used = self.used.lock().take();
        let said = Said::Done { id: self.id.clone(), used };
        let shared = self.shared.clone();
        // If it is not heard, what is under way without it is said soon.
        tokio::spawn(async move { shared.say(&said).await });
    }
}

#[async_trait]
impl Pace for FarPacer {
    async fn admit(
        self: Arc<Self>,
        tokens: u64,
        by: Instant,
        _: &(dyn Fn(Duration) + Send + Sync),
    ) -> Result<Box<dyn Admitted>, Duration> {
        let node = self.shared.member.id.clone();
        let id = format!("{node}-{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.shared.calls.lock().insert(id.clone(), Under { tokens, waits: true });
        let far = Far { shared: self.shared.clone(), id: id.clone(), used: Mutex::default() };
        let cluster = &self.shared.member.cluster;
        let before = cluster.away();
        // What cannot be asked is not late by that.
        let left = || {
            let by = by + cluster.away().saturating_sub(before);
            by.saturating_duration_since(Instant::now())
        };
        loop {
            let provider = self.shared.provider;
            if !self.shared.found.load(Ordering::Relaxed)
                && let Err(error) = self.shared.find_a_keeper().await
            {
                tracing::warn!(%error, %provider, "nobody can be found to keep its limits");
            }
            let within = millis(left());
            let said = Said::Admit { id: id.clone(), node: node.clone(), tokens, within };
            let answer = self.shared.say(&said).await;
            let found = answer.is_ok();
            if !found {
                tracing::warn!(%provider, "no worker keeps its limits; it is waited for one");
            }
            self.shared.found.store(found, Ordering::Relaxed);
            match answer.ok().and_then(|answer| serde_json::from_value(answer).ok()) {
                Some(Answer::Yes) => {
                    self.shared.calls.lock().insert(id, Under { tokens, waits: false });
                    return Ok(Box::new(far));
                }
                Some(Answer::NotWithin(wait)) => return Err(Duration::from_millis(wait)),
                Some(Answer::NotHere) | None if left().is_zero() => {
                    return Err(cluster.times().lease());
                }
                Some(Answer::NotHere) | None => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn learn(&self, left: Left, own: u64) {
        let until = |(count, at): (u64, Instant)| {
            (count, millis(at.saturating_duration_since(Instant::now())))
        };
        if left.requests.is_some() || left.tokens.is_some() {
            let (requests, tokens) = (left.requests.map(until), left.tokens.map(until));
            self.tell(Said::Left { requests, tokens, own });
        }
    }

    fn cool_down(&self, wait: Duration) {
        self.tell(Said::Cool { wait: millis(wait) });
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}

/// Keeps the limits of a provider, until this process is told to stop or has lost the work.
pub(crate) async fn keep(
    host: &Host,
    work: &Work,
    tries: u64,
    lease: Lease,
    stop: &Cancel,
) -> Outcome {
    let Ok(provider) = work.about.parse::<Provider>() else { return Outcome::Done };
    let client = HttpClient::new();
    let in_use = endpoint_in_use(&host.sandboxes.settings, &client, provider, false);
    let (_, limits) = in_use.await;
    let times = host.member.cluster.times();
    let keeper = Keeper { pacer: Pacer::new(limits), times, lease, nodes: Mutex::default() };
    if tries > 1 {
        let rated = limits.requests_per_minute.or(limits.tokens_per_minute).is_some();
        keeper.pacer.cool_down(if rated { MINUTE } else { times.all_reported() });
    }
    let keeper = Arc::new(keeper);
    let Ok(_open) = host.member.cluster.answer(&name(provider), keeper.clone()).await else {
        return Outcome::Lost;
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(times.report()) => {}
            _ = stop.cancelled() => return Outcome::Paused,
        }
        if !keeper.lease.holds() {
            return Outcome::Lost;
        }
        keeper.forget_the_dead();
    }
}

/// Whoever keeps the limits.
struct Keeper {
    pacer: Arc<Pacer>,
    times: Times,
    lease: Lease,
    nodes: Mutex<HashMap<String, Known>>,
}

/// A process that asks.
struct Known {
    heard: Instant,
    calls: HashMap<String, Asked>,
}

/// A call that was let through, or waits to be.
struct Asked {
    /// The answer, once there is one.
    answer: watch::Receiver<Option<Answer>>,
    /// What it was let through with.
    permit: Arc<Mutex<Option<Box<dyn Admitted>>>>,
    since: Instant,
    _waiting: Option<AbortOnDropHandle<()>>,
}

impl Asked {
    /// Begins to wait for a call's turn.
    fn begin(pacer: Arc<Pacer>, tokens: u64, within: u64) -> Asked {
        let (told, answer) = watch::channel(None);
        let permit: Arc<Mutex<Option<Box<dyn Admitted>>>> = Arc::default();
        let given = permit.clone();
        let waiting = tokio::spawn(async move {
            let by = Instant::now() + Duration::from_millis(within);
            let answer = match pacer.admit(tokens, by, &|_| {}).await {
                Ok(admitted) => {
                    *given.lock() = Some(admitted);
                    Answer::Yes
                }
                Err(wait) => Answer::NotWithin(millis(wait)),
            };
            told.send_replace(Some(answer));
        });
        let _waiting = Some(AbortOnDropHandle::new(waiting));
        Asked { answer, permit, since: Instant::now(), _waiting }
    }

    /// One that somebody else let through.
    fn adopted(pacer: &Arc<Pacer>, tokens: u64) -> Asked {
        let (_, answer) = watch::channel(Some(Answer::Yes));
        let permit = Arc::new(Mutex::new(Some(pacer.adopt(tokens))));
        Asked { answer, permit, since: Instant::now(), _waiting: None }
    }
}

impl Keeper {
    /// What the dead had under way is over.
    fn forget_the_dead(&self) {
        self.nodes.lock().retain(|_, node| node.heard.elapsed() < self.times.lease());
    }

    /// The answer to come; the same for the same call, however often it is asked for.
    fn admit(
        &self,
        id: &str,
        node: &str,
        tokens: u64,
        within: u64,
    ) -> watch::Receiver<Option<Answer>> {
        let mut nodes = self.nodes.lock();
        let known = nodes.entry(node.to_owned()).or_insert_with(Known::new);
        known.heard = Instant::now();
        let begin = || Asked::begin(self.pacer.clone(), tokens, within);
        known.calls.entry(id.to_owned()).or_insert_with(begin).answer.clone()
    }

    fn done(&self, id: &str, used: Option<u64>) {
        for known in self.nodes.lock().values_mut() {
            if let Some(asked) = known.calls.remove(id) {
                let permit = asked.permit.lock().take();
                if let (Some(permit), Some(used)) = (permit, used) {
                    permit.used(used);
                }
            }
        }
    }

    /// Takes what somebody says they have under way for all that they have.
    fn under(&self, node: String, calls: Vec<(String, Under)>) {
        let mut nodes = self.nodes.lock();
        let known = nodes.entry(node).or_insert_with(Known::new);
        known.heard = Instant::now();
        // What was asked just now may be missing in what was said a moment before.
        let named = |id: &String| calls.iter().any(|(under, _)| under == id);
        known.calls.retain(|id, asked| named(id) || asked.since.elapsed() < self.times.report());
        for (id, under) in calls.into_iter().filter(|(_, under)| !under.waits) {
            known.calls.entry(id).or_insert_with(|| Asked::adopted(&self.pacer, under.tokens));
        }
    }
}

impl Known {
    fn new() -> Known {
        Known { heard: Instant::now(), calls: HashMap::new() }
    }
}

#[async_trait]
impl Answering for Keeper {
    async fn answer(&self, question: Value) -> Value {
        if !self.lease.holds() {
            return json!(Answer::NotHere);
        }
        let until =
            |(count, after): (u64, u64)| (count, Instant::now() + Duration::from_millis(after));
        match serde_json::from_value(question) {
            Ok(Said::Admit { id, node, tokens, within }) => {
                let mut answer = self.admit(&id, &node, tokens, within);
                let told = answer.wait_for(Option::is_some).await.ok().and_then(|told| *told);
                return json!(told.unwrap_or(Answer::NotHere));
            }
            Ok(Said::Done { id, used }) => self.done(&id, used),
            Ok(Said::Under { node, calls }) => self.under(node, calls),
            Ok(Said::Cool { wait }) => self.pacer.cool_down(Duration::from_millis(wait)),
            Ok(Said::Left { requests, tokens, own }) => {
                let (requests, tokens) = (requests.map(until), tokens.map(until));
                self.pacer.learn(Left { requests, tokens }, own);
            }
            Err(error) => tracing::warn!(%error, "a question about limits is not understood"),
        }
        Value::Null
    }
}

//! Rate limits of a provider for the whole cluster.
//!
//! One worker, called the coordinator of the rate limits, enforces the limits as a job from the queue. Every process
//! requests a permission from the coordinator before it calls the provider. If the coordinator dies, another worker
//! becomes the coordinator. A new coordinator has no record of the earlier calls. So it assumes that the calls of
//! the last minute have used up the limits, and waits until all processes have reported their calls in progress.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use assize_cluster::{
    ClusterClient, ClusterTimes, JobLease, LIMITS, QueuedJob, Requirements, RpcError, RpcHandler,
    SlotKind,
};
use assize_config::Provider;
use assize_gateway::choice::endpoint_in_use;
use assize_gateway::{CallPermit, HttpClient, RateLimit, RateLimiter, RemainingLimits};
use assize_run::StoreError;
use assize_types::Cancel;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::worker::{JobOutcome, WorkerContext};

/// Delay before a request for permission is repeated, if no worker is the coordinator of the rate limits at the moment.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

const MINUTE: Duration = Duration::from_secs(60);

/// RPC request to the coordinator of the rate limits.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LimitRequest {
    /// Requests the permission for a model call that can use up to `tokens` tokens. The caller waits at most `within`
    /// milliseconds for the permission.
    Admit { id: String, node: String, tokens: u64, within: u64 },
    /// Reports that a model call has ended, and the number of tokens that the call used.
    Done { id: String, used: Option<u64> },
    /// Reports all model calls of a node that are in progress or wait for permission.
    InProgress { node: String, calls: Vec<(String, CallState)> },
    /// Reports that the provider requires a pause of `wait` milliseconds before the next call.
    CoolDown { wait: u64 },
    /// Reports the number of requests and tokens that the provider still accepts, each with the number of milliseconds
    /// until the provider renews the quota. A response to a model call contains these numbers; `own` is the number of
    /// tokens of that call.
    QuotaLeft { requests: Option<(u64, u64)>, tokens: Option<(u64, u64)>, own: u64 },
}

/// State of a model call that is in progress or waits for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct CallState {
    tokens: u64,
    waits: bool,
}

/// Reply to a request for permission of a model call ([`LimitRequest::Admit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AdmitReply {
    Yes,
    /// The call cannot be permitted within the time that the caller waits. It could be permitted after this number of
    /// milliseconds.
    NotWithin(u64),
    /// The process that received the request no longer enforces the rate limits.
    NotHere,
}

fn name(provider: Provider) -> String {
    format!("{LIMITS}-{provider}")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Rate limiter for one provider. It requests a permission from the coordinator of the rate limits before each model
/// call.
#[derive(Debug)]
pub struct ClusterRateLimiter {
    shared: Arc<Shared>,
    /// Concurrency limit from the settings of this process. It is only an estimate: the coordinator of the rate
    /// limits may use a different limit.
    concurrency: usize,
    next: AtomicU64,
    /// Task that regularly reports this process's model calls in progress to the coordinator of the rate limits.
    _reporting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    member: Arc<ClusterClient>,
    provider: Provider,
    calls: Mutex<HashMap<String, CallState>>,
    /// Whether the coordinator of the rate limits replied to the last request.
    found: AtomicBool,
}

impl Shared {
    async fn send(&self, request: &LimitRequest) -> Result<Value, RpcError> {
        self.member.cluster.call(&name(self.provider), &json!(request)).await
    }

    /// Queues the job that enforces the rate limits, unless this job is already in the queue or a worker executes it.
    async fn ensure_coordinator(&self) -> Result<(), StoreError> {
        let about = self.provider.to_string();
        let queue = &self.member.queue;
        if queue.has(LIMITS, &about).await? {
            return Ok(());
        }
        let work = QueuedJob { kind: LIMITS.to_owned(), about, turn: 1, body: Value::Null };
        let needs = Requirements { place: SlotKind::RateLimits, ..Requirements::default() };
        queue.add_if_absent(&needs, &work).await
    }

    async fn report(&self) {
        let interval = self.member.cluster.times().report();
        loop {
            tokio::time::sleep(interval).await;
            let calls: Vec<(String, CallState)> =
                self.calls.lock().iter().map(|(id, call)| (id.clone(), *call)).collect();
            if calls.is_empty() {
                continue;
            }
            let request = LimitRequest::InProgress { node: self.member.id.clone(), calls };
            let _ = tokio::time::timeout(interval, self.send(&request)).await;
        }
    }
}

impl ClusterRateLimiter {
    pub fn new(
        member: &Arc<ClusterClient>,
        provider: Provider,
        concurrency: usize,
    ) -> ClusterRateLimiter {
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
        ClusterRateLimiter { shared, concurrency, next: AtomicU64::new(1), _reporting }
    }

    /// Sends a report to the coordinator of the rate limits, in the background, without waiting for the reply.
    fn send_report(&self, report: LimitRequest) {
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.send(&report).await });
    }
}

/// Model call that the rate limits permit, or that waits for permission. Dropping the value reports the end of the call
/// to the coordinator of the rate limits.
struct RemoteCall {
    shared: Arc<Shared>,
    id: String,
    used: Mutex<Option<u64>>,
}

impl CallPermit for RemoteCall {
    fn set_actual_tokens(&self, tokens: u64) {
        *self.used.lock() = Some(tokens);
    }
}

impl Drop for RemoteCall {
    fn drop(&mut self) {
        self.shared.calls.lock().remove(&self.id);
        let used = self.used.lock().take();
        let report = LimitRequest::Done { id: self.id.clone(), used };
        let shared = self.shared.clone();
        // If this message is lost, the next report of the calls in progress shows the coordinator that the call has
        // ended.
        tokio::spawn(async move { shared.send(&report).await });
    }
}

#[async_trait]
impl RateLimit for ClusterRateLimiter {
    async fn admit(
        self: Arc<Self>,
        tokens: u64,
        by: Instant,
        _: &(dyn Fn(Duration) + Send + Sync),
    ) -> Result<Box<dyn CallPermit>, Duration> {
        let node = self.shared.member.id.clone();
        let id = format!("{node}-{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.shared.calls.lock().insert(id.clone(), CallState { tokens, waits: true });
        let call =
            RemoteCall { shared: self.shared.clone(), id: id.clone(), used: Mutex::default() };
        let cluster = &self.shared.member.cluster;
        let before = cluster.away();
        // The time without a connection to the cluster does not count against the deadline.
        let left = || {
            let by = by + cluster.away().saturating_sub(before);
            by.saturating_duration_since(Instant::now())
        };
        loop {
            let provider = self.shared.provider;
            if !self.shared.found.load(Ordering::Relaxed)
                && let Err(error) = self.shared.ensure_coordinator().await
            {
                tracing::warn!(%error, %provider, "cannot queue the job that enforces rate limits");
            }
            let within = millis(left());
            let request =
                LimitRequest::Admit { id: id.clone(), node: node.clone(), tokens, within };
            let reply = self.shared.send(&request).await;
            let found = reply.is_ok();
            if !found {
                tracing::warn!(%provider, "no worker enforces the rate limits; waiting for a worker");
            }
            self.shared.found.store(found, Ordering::Relaxed);
            match reply.ok().and_then(|reply| serde_json::from_value(reply).ok()) {
                Some(AdmitReply::Yes) => {
                    self.shared.calls.lock().insert(id, CallState { tokens, waits: false });
                    return Ok(Box::new(call));
                }
                Some(AdmitReply::NotWithin(wait)) => return Err(Duration::from_millis(wait)),
                Some(AdmitReply::NotHere) | None if left().is_zero() => {
                    return Err(cluster.times().lease());
                }
                Some(AdmitReply::NotHere) | None => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    fn apply_remaining(&self, left: RemainingLimits, own: u64) {
        let until = |(count, at): (u64, Instant)| {
            (count, millis(at.saturating_duration_since(Instant::now())))
        };
        if left.requests.is_some() || left.tokens.is_some() {
            let (requests, tokens) = (left.requests.map(until), left.tokens.map(until));
            self.send_report(LimitRequest::QuotaLeft { requests, tokens, own });
        }
    }

    fn cool_down(&self, wait: Duration) {
        self.send_report(LimitRequest::CoolDown { wait: millis(wait) });
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}

/// Runs the coordinator of a provider's rate limits until the worker stops or loses the lease on the job.
pub(crate) async fn run_coordinator(
    host: &WorkerContext,
    work: &QueuedJob,
    tries: u64,
    lease: JobLease,
    stop: &Cancel,
) -> JobOutcome {
    let Ok(provider) = work.about.parse::<Provider>() else { return JobOutcome::Done };
    let client = HttpClient::new();
    let in_use = endpoint_in_use(&host.sandboxes.settings, &client, provider, false);
    let (_, limits) = in_use.await;
    let times = host.member.cluster.times();
    let coordinator = LimitCoordinator {
        rate_limiter: RateLimiter::new(limits),
        times,
        lease,
        nodes: Mutex::default(),
    };
    if tries > 1 {
        let rated = limits.requests_per_minute.or(limits.tokens_per_minute).is_some();
        coordinator.rate_limiter.cool_down(if rated { MINUTE } else { times.all_reported() });
    }
    let coordinator = Arc::new(coordinator);
    let Ok(_open) = host.member.cluster.serve_rpc(&name(provider), coordinator.clone()).await
    else {
        return JobOutcome::LeaseLost;
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(times.report()) => {}
            _ = stop.cancelled() => return JobOutcome::Paused,
        }
        if !coordinator.lease.is_valid() {
            return JobOutcome::LeaseLost;
        }
        coordinator.remove_dead_nodes();
    }
}

/// Coordinator of the rate limits: enforces the limits of one provider for the whole cluster.
struct LimitCoordinator {
    rate_limiter: Arc<RateLimiter>,
    times: ClusterTimes,
    lease: JobLease,
    nodes: Mutex<HashMap<String, NodeCalls>>,
}

/// Model calls of one node that are permitted or wait for permission.
struct NodeCalls {
    last_seen: Instant,
    calls: HashMap<String, AdmittedCall>,
}

/// Model call that the coordinator has permitted, or that waits for permission.
struct AdmittedCall {
    /// Reply to the request for permission; `None` until the rate limiter has decided.
    reply: watch::Receiver<Option<AdmitReply>>,
    /// Permit of the rate limiter; `None` until the call is permitted.
    permit: Arc<Mutex<Option<Box<dyn CallPermit>>>>,
    since: Instant,
    _waiting: Option<AbortOnDropHandle<()>>,
}

impl AdmittedCall {
    fn begin(rate_limiter: Arc<RateLimiter>, tokens: u64, within: u64) -> AdmittedCall {
        let (decided, reply) = watch::channel(None);
        let permit: Arc<Mutex<Option<Box<dyn CallPermit>>>> = Arc::default();
        let given = permit.clone();
        let waiting = tokio::spawn(async move {
            let by = Instant::now() + Duration::from_millis(within);
            let reply = match rate_limiter.admit(tokens, by, &|_| {}).await {
                Ok(admitted) => {
                    *given.lock() = Some(admitted);
                    AdmitReply::Yes
                }
                Err(wait) => AdmitReply::NotWithin(millis(wait)),
            };
            decided.send_replace(Some(reply));
        });
        let _waiting = Some(AbortOnDropHandle::new(waiting));
        AdmittedCall { reply, permit, since: Instant::now(), _waiting }
    }

    /// Registers a model call in progress that the previous coordinator has permitted.
    fn adopted(rate_limiter: &Arc<RateLimiter>, tokens: u64) -> AdmittedCall {
        let (_, reply) = watch::channel(Some(AdmitReply::Yes));
        let permit = Arc::new(Mutex::new(Some(rate_limiter.count_admitted(tokens))));
        AdmittedCall { reply, permit, since: Instant::now(), _waiting: None }
    }
}

impl LimitCoordinator {
    /// Removes the registered calls of every node that has sent no message for longer than the duration of a lease.
    fn remove_dead_nodes(&self) {
        self.nodes.lock().retain(|_, node| node.last_seen.elapsed() < self.times.lease());
    }

    /// Requests the permission for a model call, and returns a receiver of the reply. Repeated requests for the same
    /// call receive the same reply.
    fn admit(
        &self,
        id: &str,
        node: &str,
        tokens: u64,
        within: u64,
    ) -> watch::Receiver<Option<AdmitReply>> {
        let mut nodes = self.nodes.lock();
        let node = nodes.entry(node.to_owned()).or_insert_with(NodeCalls::new);
        node.last_seen = Instant::now();
        let begin = || AdmittedCall::begin(self.rate_limiter.clone(), tokens, within);
        node.calls.entry(id.to_owned()).or_insert_with(begin).reply.clone()
    }

    fn done(&self, id: &str, used: Option<u64>) {
        for node in self.nodes.lock().values_mut() {
            if let Some(call) = node.calls.remove(id) {
                let permit = call.permit.lock().take();
                if let (Some(permit), Some(used)) = (permit, used) {
                    permit.set_actual_tokens(used);
                }
            }
        }
    }

    /// Replaces the registered calls of a node by the calls that the node reports.
    fn replace_calls(&self, node: String, calls: Vec<(String, CallState)>) {
        let mut nodes = self.nodes.lock();
        let node = nodes.entry(node).or_insert_with(NodeCalls::new);
        node.last_seen = Instant::now();
        // Keep recent calls: the node may have sent the report before it requested them.
        let reported = |id: &String| calls.iter().any(|(call, _)| call == id);
        node.calls.retain(|id, call| reported(id) || call.since.elapsed() < self.times.report());
        for (id, call) in calls.into_iter().filter(|(_, call)| !call.waits) {
            node.calls
                .entry(id)
                .or_insert_with(|| AdmittedCall::adopted(&self.rate_limiter, call.tokens));
        }
    }
}

impl NodeCalls {
    fn new() -> NodeCalls {
        NodeCalls { last_seen: Instant::now(), calls: HashMap::new() }
    }
}

#[async_trait]
impl RpcHandler for LimitCoordinator {
    async fn handle(&self, question: Value) -> Value {
        if !self.lease.is_valid() {
            return json!(AdmitReply::NotHere);
        }
        let until =
            |(count, after): (u64, u64)| (count, Instant::now() + Duration::from_millis(after));
        match serde_json::from_value(question) {
            Ok(LimitRequest::Admit { id, node, tokens, within }) => {
                let mut reply = self.admit(&id, &node, tokens, within);
                let decided = reply.wait_for(Option::is_some).await.ok().and_then(|reply| *reply);
                return json!(decided.unwrap_or(AdmitReply::NotHere));
            }
            Ok(LimitRequest::Done { id, used }) => self.done(&id, used),
            Ok(LimitRequest::InProgress { node, calls }) => self.replace_calls(node, calls),
            Ok(LimitRequest::CoolDown { wait }) => {
                self.rate_limiter.cool_down(Duration::from_millis(wait))
            }
            Ok(LimitRequest::QuotaLeft { requests, tokens, own }) => {
                let (requests, tokens) = (requests.map(until), tokens.map(until));
                self.rate_limiter.apply_remaining(RemainingLimits { requests, tokens }, own);
            }
            Err(error) => tracing::warn!(%error, "received an invalid request about rate limits"),
        }
        Value::Null
    }
}

//! Worker: receives jobs from the queue and executes them.
//!
//! A worker has a fixed number of sandbox slots. A run that executes programs uses a sandbox slot, and so does each
//! debate. A run that only calls models and waits for its debates uses no sandbox slot, so it never prevents a debate
//! from starting.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use assize_cluster::{
    Capabilities, ClusterClient, ClusterNode, DEBATE, Delivery, LIMITS, MAX_DELIVERIES, NodeRole,
    RUN, Requirements, RunJobBody, SlotKind, VERSION, requirements_of,
};
use assize_config::{Isolation, RequestedIsolation, SettingKey, Settings};
use assize_consult::DebateSandboxes;
use assize_run::{
    AnyTrial, Dispatch, LeaseHolder, ResumeRequest, Role, Run, RunFilter, RunId, RunKind,
    RunStatus, Store, StoreError, count_progress, record_failure, record_panic, release,
};
use assize_sandbox::memory::meminfo;
use assize_sandbox::{SandboxFactory, SandboxSpec};
use assize_types::{Cancel, CancelReason, Failure, FailureKind, Reporter, unix_millis};
use async_trait::async_trait;
use scopeguard::guard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use crate::backend_cache::BackendCache;
use crate::debates::{self, QueuedDebate};
use crate::status::format_requirements;
use crate::{limits, live};

/// Default maximum number of samples that an evaluation processes concurrently.
pub const PARALLEL: u32 = 4;

/// Trait of the services that resume a run of any kind on behalf of a worker.
#[async_trait]
pub trait ResumeRuns: Send + Sync {
    /// Claims the lease on a run and prepares its execution with these settings. `parallel` is the maximum number of
    /// samples that an evaluation processes concurrently.
    async fn resume(
        &self,
        request: &ResumeRequest,
        settings: Settings,
        parallel: u32,
    ) -> Result<Box<dyn AnyTrial>, Failure>;
}

/// Maximum number of runs without a sandbox slot that a worker executes concurrently.
const MAX_RUNS: usize = 64;

/// Capacity and labels that a worker offers to the cluster.
#[derive(Debug, Clone)]
pub struct WorkerOffer {
    /// Maximum number of sandboxes that the worker runs concurrently.
    pub slots: u32,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

/// Worker: receives jobs from the queue and executes them.
#[derive(Debug)]
pub struct Worker {
    host: Arc<WorkerContext>,
    node: watch::Sender<ClusterNode>,
    /// Free sandbox slots.
    slots: Arc<Semaphore>,
    /// Free slots for runs that use no sandbox.
    runs: Arc<Semaphore>,
    /// Free slots for jobs that enforce the rate limits of a provider. There are more slots than providers, so these
    /// jobs never wait.
    rate_limit_slots: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled when the worker stops.
    stop: Cancel,
}

/// State that all jobs of a worker share.
pub(super) struct WorkerContext {
    pub(super) resume: Arc<dyn ResumeRuns>,
    pub(super) sandboxes: SandboxFactory,
    pub(super) reporter: Arc<dyn Reporter>,
    pub(super) member: Arc<ClusterClient>,
    pub(super) store: Arc<dyn Store>,
    capabilities: Capabilities,
    backends: BackendCache,
    /// Number of debates that this worker has started.
    pub(super) debates: AtomicU64,
}

impl std::fmt::Debug for WorkerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerContext").finish_non_exhaustive()
    }
}

/// Outcome of a job on this worker.
pub(super) enum JobOutcome {
    /// The job is done, or no longer needed.
    Done,
    /// This worker cannot execute the job, but another worker may be able to.
    CannotExecute { why: String },
    /// This worker is stopping. Another worker can continue the job at once.
    Paused,
    /// Another worker executes the job, or should execute it. `after` is the delay before the job is redelivered.
    RedeliverAfter { after: Duration },
    /// This worker already executes the run of the job. Either the run was queued twice, or the job was redelivered
    /// because the lease on the job was not renewed in time.
    AlreadyExecuting,
    /// This worker has lost the lease on the job or on its run. Another worker may already execute the job.
    LeaseLost,
    /// No worker can execute the job.
    DeadLetter { why: String },
}

impl WorkerContext {
    /// Returns why this worker must not execute a job with these requirements; `None` if this worker is allowed to
    /// execute the job. The check is needed because the requirements under which a message was queued can differ from
    /// those of the message's run.
    pub(super) fn check_requirements(&self, needs: &Requirements) -> Option<String> {
        (!self.capabilities.meet(needs)).then(|| {
            let needs = format_requirements(needs);
            format!("this worker does not meet the requirements: {needs}")
        })
    }

    /// Returns the sandbox backend for debates with this isolation and sandbox spec.
    pub(super) async fn backend_for(
        &self,
        isolation: Option<&str>,
        spec: &SandboxSpec,
    ) -> Result<Arc<DebateSandboxes>, Failure> {
        self.backends.get(&self.sandboxes, isolation, spec).await
    }

    /// Fills the warm pool of the default sandbox backend.
    async fn warm_up(self: Arc<Self>) {
        if let Some(shared) = &self.sandboxes.shared
            && let Err(failure) = shared.start(&self.sandboxes).await
        {
            tracing::warn!(
                error = failure.message(),
                "cannot fill the warm pool of idle sandboxes"
            );
        }
    }

    /// Removes all sandboxes of this worker.
    async fn close(&self) {
        self.backends.close().await;
        if let Some(shared) = &self.sandboxes.shared {
            shared.close().await;
        }
    }
}

impl Worker {
    /// Creates a worker that executes jobs in sandboxes of the factory `sandboxes`.
    pub fn new(
        member: Arc<ClusterClient>,
        sandboxes: SandboxFactory,
        isolations: &[Isolation],
        reporter: Arc<dyn Reporter>,
        resume: Arc<dyn ResumeRuns>,
        offer: &WorkerOffer,
    ) -> Worker {
        let node = describe(&member, offer, isolations);
        let host = WorkerContext {
            resume,
            sandboxes,
            reporter,
            store: member.store.clone(),
            capabilities: node.capabilities.clone(),
            backends: BackendCache::default(),
            debates: AtomicU64::new(0),
            member: member.clone(),
        };
        Worker {
            host: Arc::new(host),
            node: watch::Sender::new(node),
            slots: Arc::new(Semaphore::new(offer.slots as usize)),
            runs: Arc::new(Semaphore::new(MAX_RUNS)),
            rate_limit_slots: Arc::new(Semaphore::new(MAX_RUNS)),
            tasks: TaskTracker::new(),
            stop: Cancel::new(),
        }
    }

    /// Description of this worker that is sent in reply to status requests of other nodes.
    pub fn node(&self) -> ClusterNode {
        self.node.borrow().clone()
    }

    /// Executes jobs until `cancel` is cancelled. Other workers then resume the jobs in progress.
    pub async fn run(self, cancel: Cancel) -> Result<(), Failure> {
        let _announced = self.host.member.cluster.announce(self.node.subscribe()).await?;
        let worker = Arc::new(self);
        worker.tasks.spawn(worker.host.clone().warm_up());
        let ended = tokio::select! {
            ended = worker.clone().take_jobs(SlotKind::Sandbox) => ended,
            ended = worker.clone().take_jobs(SlotKind::Run) => ended,
            ended = worker.clone().take_jobs(SlotKind::RateLimits) => ended,
            ended = worker.sweep() => ended,
            _ = cancel.cancelled() => Ok(()),
        };
        worker.stop.cancel(CancelReason::ShuttingDown);
        worker.tasks.close();
        worker.tasks.wait().await;
        worker.host.close().await;
        Ok(ended?)
    }

    /// Repeatedly waits for a free slot of this kind, receives a job for such a slot from the queue, and executes the
    /// job in a separate task.
    async fn take_jobs(self: Arc<Self>, place: SlotKind) -> Result<(), StoreError> {
        let slots = match place {
            SlotKind::Sandbox => &self.slots,
            SlotKind::Run => &self.runs,
            SlotKind::RateLimits => &self.rate_limit_slots,
        };
        loop {
            let Ok(permit) = slots.clone().acquire_owned().await else { return Ok(()) };
            let capabilities = self.node.borrow().capabilities.clone();
            let delivery = self.host.member.queue.next_delivery(&capabilities, place).await?;
            let worker = self.clone();
            self.tasks.spawn(async move { worker.process(delivery, permit, place).await });
        }
    }

    async fn process(&self, delivery: Delivery, permit: OwnedSemaphorePermit, place: SlotKind) {
        // Announce to the cluster that a sandbox is in use, until the guard is dropped.
        let _busy = (place == SlotKind::Sandbox).then(|| {
            self.node.send_modify(|node| node.busy += 1);
            guard((), |()| self.node.send_modify(|node| node.busy -= 1))
        });
        let (job, tries) = (delivery.work.to_string(), delivery.deliveries);
        tracing::info!(work = job, tries, "job received");
        let outcome = match delivery.work.kind.as_str() {
            RUN => match delivery.body() {
                Ok(RunJobBody { run }) => self.execute_run(&run, tries, None).await,
                Err(why) => self.refuse_undecodable(&delivery, why).await,
            },
            DEBATE => match delivery.body::<QueuedDebate>() {
                Ok(work) => {
                    let (lease, stop) = (delivery.lease(), self.stop.child());
                    let debate = debates::execute_debate(&self.host, work, &stop);
                    tokio::pin!(debate);
                    tokio::select! {
                        outcome = &mut debate => outcome,
                        () = lease.expired() => {
                            stop.cancel(CancelReason::LeaseLost);
                            debate.await;
                            JobOutcome::LeaseLost
                        }
                    }
                }
                // The run's lease holder notices that the job was removed from the queue, and counts these removals.
                Err(why) => JobOutcome::DeadLetter { why },
            },
            LIMITS => {
                let lease = delivery.lease();
                let provider = delivery.work.about.clone();
                self.node.send_modify(|node| node.rate_limits.push(provider.clone()));
                let outcome =
                    limits::run_coordinator(&self.host, &delivery.work, tries, lease, &self.stop)
                        .await;
                self.node.send_modify(|node| node.rate_limits.retain(|kept| *kept != provider));
                outcome
            }
            other => {
                let why = format!("unknown kind of job `{other}`");
                if tries < MAX_DELIVERIES {
                    // A worker with a newer version may support this kind of job.
                    JobOutcome::CannotExecute { why }
                } else {
                    JobOutcome::DeadLetter { why }
                }
            }
        };
        match outcome {
            JobOutcome::Done => delivery.ack().await,
            JobOutcome::Paused => delivery.nack(Duration::ZERO).await,
            // Keep the job in the queue, in case the worker that executes it dies.
            JobOutcome::RedeliverAfter { after } => delivery.nack(after).await,
            JobOutcome::AlreadyExecuting => {
                drop(permit);
                let run = delivery.work.about.clone();
                let mut node = self.node.subscribe();
                let _ = node.wait_for(|node| !node.leases.contains(&run)).await;
                // The next worker that receives the job checks whether the run has ended.
                return delivery.nack(Duration::ZERO).await;
            }
            JobOutcome::CannotExecute { why } => {
                self.host.reporter.warn(&format!("{job} cannot run on this worker: {why}"));
                delivery.nack(self.host.member.cluster.times().retry()).await;
            }
            JobOutcome::DeadLetter { why } => {
                self.host.reporter.warn(&format!("{job} moved to the dead letters: {why}"));
                delivery.dead_letter(&why).await;
            }
            // Send neither ack nor nack: either would affect the worker that has the job now.
            JobOutcome::LeaseLost => drop(delivery),
        }
        drop(permit);
    }

    /// Handles a job that this worker cannot decode: returns the job to the queue, because another worker may be able
    /// to decode it. If no worker can decode the job, the run fails and the job becomes a dead letter. If the run has
    /// ended or is unknown, the job also becomes a dead letter.
    async fn refuse_undecodable(&self, delivery: &Delivery, why: String) -> JobOutcome {
        let Ok(id) = delivery.work.about.parse::<RunId>() else {
            return JobOutcome::DeadLetter { why };
        };
        let failure = Failure::new(FailureKind::Environment, why.clone())
            .hint("run the same version of assize on all machines of the cluster");
        match self.execute_run(&id, delivery.deliveries, Some(failure)).await {
            JobOutcome::Done => JobOutcome::DeadLetter { why },
            outcome => outcome,
        }
    }

    /// Executes a run, unless another worker holds its lease. If `cannot` is set, does not execute the run, and records
    /// that this worker cannot start the run, with `cannot` as the reason.
    async fn execute_run(&self, id: &RunId, tries: u64, cannot: Option<Failure>) -> JobOutcome {
        match self.try_execute_run(id, tries, cannot).await {
            Ok(outcome) => outcome,
            Err(StoreError::NoSuchRun(_) | StoreError::Done(_)) => JobOutcome::Done,
            Err(StoreError::Fenced(_)) => JobOutcome::LeaseLost,
            Err(error) => JobOutcome::CannotExecute { why: error.to_string() },
        }
    }

    async fn try_execute_run(
        &self,
        id: &RunId,
        tries: u64,
        cannot: Option<Failure>,
    ) -> Result<JobOutcome, StoreError> {
        let WorkerContext { sandboxes, member, store, .. } = &*self.host;
        let run = store.run(id).await?;
        if run.status != RunStatus::Running {
            return Ok(JobOutcome::Done);
        }
        if !is_for_workers(&run) {
            let why = "only the process that started the run can execute it".to_owned();
            return Ok(JobOutcome::DeadLetter { why });
        }
        // The sweep queues the run again, with its actual requirements, if it has no other job in the queue.
        if let Some(why) = self.host.check_requirements(&requirements_of(&run)) {
            return Ok(JobOutcome::DeadLetter { why });
        }
        let (last, waits) = (LeaseHolder::last(&run), LeaseHolder::is_waiting(&run));
        if !waits && self.is_held(&run).await? {
            // The run was queued twice, or its lease holder did not renew the lease on the job in time.
            let ours = self.node.borrow().leases.iter().any(|held| held == id.as_str());
            let after = member.cluster.times().lease();
            return Ok(if ours {
                JobOutcome::AlreadyExecuting
            } else {
                JobOutcome::RedeliverAfter { after }
            });
        }
        let refused = last.as_ref().map(|last| last.refused.clone()).unwrap_or_default();
        if refused.contains(&member.id)
            && member.others_for(&requirements_of(&run), &refused).await?
        {
            return Ok(JobOutcome::RedeliverAfter { after: member.cluster.times().retry() });
        }
        // Announce to the cluster that this worker executes the run, until the guard is dropped.
        self.node.send_modify(|node| node.leases.push(id.to_string()));
        let _holds = guard((), |()| {
            self.node.send_modify(|node| {
                let held = node.leases.iter().position(|run| run == id.as_str());
                held.map(|held| node.leases.swap_remove(held));
            });
        });
        let asked = last.clone().map(|last| last.asked).unwrap_or_default();
        let asked = asked.into_iter().map(|(key, value)| Ok((key.parse()?, value)));
        let asked: Result<Vec<(SettingKey, String)>, Failure> = asked.collect();
        let settings = match asked.and_then(|asked| sandboxes.settings.with_request(&asked)) {
            Ok(settings) => settings,
            Err(failure) => return self.refuse(id, failure, tries).await,
        };
        if run.epoch > 1 || !waits {
            let mut holder =
                last.unwrap_or_else(|| LeaseHolder::this_process(Role::Worker, Some(&member.id)));
            if !waits {
                // Count how many workers in a row died while they executed the run without progress.
                let records = count_progress(&store.records(id).await?);
                let progressed = holder.records.is_none_or(|before| records > before);
                holder.deaths = if progressed { 0 } else { holder.deaths + 1 };
            }
            let deaths = holder.deaths;
            // Claim the lease with a new epoch. This fences the old lease holder, in case it is still alive.
            let claim = store.claim(id, &holder.released().to_text(), Some(run.epoch)).await?;
            if deaths >= MAX_DELIVERIES {
                let why =
                    format!("{deaths} workers in a row stopped without making progress on the run");
                let failure = Failure::new(FailureKind::Environment, why);
                record_failure(&**store, id, Some(claim.epoch), &failure).await;
                return Ok(JobOutcome::Done);
            }
        }
        if let Some(failure) = cannot {
            return self.refuse(id, failure, tries).await;
        }
        let extra = self.extra_slots(&run);
        let parallel = u32::try_from(1 + extra.len()).unwrap_or(1);
        let request = ResumeRequest { run: id.to_string(), take_over: false };
        match self.host.resume.resume(&request, settings, parallel).await {
            Ok(trial) => Ok(self.execute(trial).await),
            Err(failure) => self.refuse(id, failure, tries).await,
        }
    }

    /// Records that this worker cannot start a run. After the maximum number of deliveries, the run fails if no other
    /// worker can execute it.
    async fn refuse(
        &self,
        id: &RunId,
        failure: Failure,
        tries: u64,
    ) -> Result<JobOutcome, StoreError> {
        let WorkerContext { member, store, .. } = &*self.host;
        let run = store.run(id).await?;
        let Some(mut holder) = LeaseHolder::last(&run).filter(|_| LeaseHolder::is_waiting(&run))
        else {
            // Another worker has started the run meanwhile.
            return Ok(JobOutcome::RedeliverAfter { after: member.cluster.times().lease() });
        };
        holder.refused.insert(member.id.clone());
        let given_up = tries >= MAX_DELIVERIES
            && member.no_worker_for(&requirements_of(&run), &holder.refused).await?;
        let claim = store.claim(id, &holder.to_text(), Some(run.epoch)).await?;
        if given_up {
            let failure = failure.within("no worker could start the run");
            record_failure(&**store, id, Some(claim.epoch), &failure).await;
            return Ok(JobOutcome::Done);
        }
        Ok(JobOutcome::CannotExecute { why: failure.message().to_owned() })
    }

    /// Whether the last lease holder of a run still executes the run. A lease holder can stop executing a run although
    /// its process stays alive.
    async fn is_held(&self, run: &Run) -> Result<bool, StoreError> {
        let Some(node) = LeaseHolder::last(run).and_then(|last| last.node) else {
            return Ok(false);
        };
        let ClusterClient { cluster, id, .. } = &*self.host.member;
        let (begun, reconnect) = (Instant::now(), cluster.times().reconnect());
        loop {
            if let Some(node) = cluster.node(&node).await? {
                return Ok(node.leases.iter().any(|held| held == run.id.as_str()));
            }
            // The lease holder or this worker may be reconnecting to another NATS server. Wait before deciding.
            if begun.elapsed() >= reconnect && cluster.is_there(id).await? {
                return Ok(false);
            }
            tokio::time::sleep(reconnect / 4).await;
        }
    }

    /// Acquires free sandbox slots for a run that can use several. The job of the run already has one slot.
    fn extra_slots(&self, run: &Run) -> Vec<OwnedSemaphorePermit> {
        let usable = if run.kind == RunKind::Eval { PARALLEL - 1 } else { 0 };
        (0..usable).map_while(|_| self.slots.clone().try_acquire_owned().ok()).collect()
    }

    async fn execute(&self, mut trial: Box<dyn AnyTrial>) -> JobOutcome {
        let WorkerContext { member, store, .. } = &*self.host;
        let (id, epoch) = (trial.run().id.clone(), trial.run().epoch);
        let _published = match trial.live_output() {
            Some(live) => live::show(member, &id, live.clone()).await.ok(),
            None => None,
        };
        let executed = std::panic::AssertUnwindSafe(trial.execute(self.stop.child()));
        let executed = futures_util::FutureExt::catch_unwind(executed).await;
        let paused = match executed {
            Ok(Ok(())) => return JobOutcome::Done,
            Ok(Err(run_failure)) if run_failure.is_paused => true,
            Ok(Err(run_failure)) => {
                tracing::info!(run = %id, why = run_failure.failure.message(), "run failed");
                false
            }
            Err(_) => {
                record_panic(&**store, &id).await;
                false
            }
        };
        match store.run(&id).await {
            Ok(run) if run.status != RunStatus::Running => JobOutcome::Done,
            Ok(run) if run.epoch != epoch => JobOutcome::LeaseLost,
            Ok(_) => {
                release(&**store, &id, epoch).await;
                if !paused {
                    let why = "the result of the run could not be stored".to_owned();
                    return JobOutcome::CannotExecute { why };
                }
                // Queue a new job. A redelivery of this job would count as a failed attempt.
                let queued = async { member.enqueue(&store.run(&id).await?).await };
                queued.await.map_or(JobOutcome::Paused, |()| JobOutcome::Done)
            }
            Err(StoreError::NoSuchRun(_)) => JobOutcome::Done,
            Err(error) => JobOutcome::CannotExecute { why: error.to_string() },
        }
    }

    /// Periodically queues abandoned runs: unfinished runs that have no job in the queue, for example because a process
    /// died before it queued the job.
    async fn sweep(&self) -> Result<(), StoreError> {
        let mut before: HashMap<RunId, u64> = HashMap::new();
        loop {
            // The interval is random, so that not all workers search for abandoned runs at the same time.
            let interval = self.host.member.cluster.times().sweep();
            tokio::time::sleep(interval.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            match self.sweep_once(&before).await {
                Ok(seen) => before = seen,
                Err(error @ StoreError::Newer { .. }) => return Err(error),
                Err(error) => tracing::warn!(%error, "cannot search for abandoned runs"),
            }
        }
    }

    /// Queues abandoned runs. Returns the unfinished runs with their epochs; `before` is the result of the previous
    /// call. A run is abandoned if it has the same epoch as in `before`, has no job in the queue, and is not executed
    /// by any process.
    async fn sweep_once(
        &self,
        before: &HashMap<RunId, u64>,
    ) -> Result<HashMap<RunId, u64>, StoreError> {
        let WorkerContext { member, store, .. } = &*self.host;
        // Check the version of the data format, because the cluster may have been upgraded.
        member.queue.check_version().await?;
        member.store.finish_removals().await?;
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let mut seen = HashMap::new();
        for run in store.runs(filter).await? {
            if !is_for_workers(&run) {
                continue;
            }
            seen.insert(run.id.clone(), run.epoch);
            if before.get(&run.id) != Some(&run.epoch)
                || member.queue.has(RUN, run.id.as_str()).await?
            {
                continue;
            }
            if LeaseHolder::is_waiting(&run) || !self.is_held(&run).await? {
                tracing::info!(run = %run.id, "queued an abandoned run again");
                member.enqueue(&run).await?;
            }
        }
        Ok(seen)
    }
}

/// Whether workers are allowed to execute a run. The check is needed because a message in the queue can contain the id
/// of any run of the store.
fn is_for_workers(run: &Run) -> bool {
    let of_cluster = LeaseHolder::last(run).is_some_and(|last| last.node.is_some());
    of_cluster && run.kind != RunKind::Work
}

/// Builds the description with which a worker announces itself to the cluster.
fn describe(member: &ClusterClient, offer: &WorkerOffer, isolations: &[Isolation]) -> ClusterNode {
    let memory = memory() / u64::from(offer.slots.max(1));
    let capabilities = Capabilities {
        isolations: isolations_met(isolations),
        memory,
        labels: offer.labels.clone(),
        region: offer.region.clone(),
    };
    node(member, NodeRole::Worker, offer.slots, capabilities)
}

/// Builds the description with which this process announces itself to the cluster.
pub fn node(
    member: &ClusterClient,
    role: NodeRole,
    slots: u32,
    capabilities: Capabilities,
) -> ClusterNode {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    ClusterNode {
        id: member.id.clone(),
        role,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        speaks: VERSION,
        host: host.trim().to_owned(),
        pid: std::process::id(),
        since: unix_millis(),
        slots,
        busy: 0,
        rate_limits: Vec::new(),
        leases: Vec::new(),
        capabilities,
    }
}

/// Memory of this machine in megabytes, or the memory limit of its container if that is lower.
fn memory() -> u64 {
    let limit = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.into_iter().filter_map(limit).min().unwrap_or(u64::MAX);
    meminfo("MemTotal").map_or(limit, |bytes| bytes.min(limit)) >> 20
}

/// Returns all values of the setting `sandbox.isolation` that a worker with these backends satisfies.
fn isolations_met(available: &[Isolation]) -> Vec<String> {
    let exactly = available.iter().map(|isolation| RequestedIsolation::Exactly(*isolation));
    let strongest = available.iter().max().copied();
    let at_least = Isolation::ALL.into_iter().filter(|floor| Some(*floor) <= strongest);
    exactly
        .chain(at_least.map(RequestedIsolation::AtLeast))
        .map(|value| value.to_string())
        .collect()
}

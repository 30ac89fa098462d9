//! Worker: takes jobs from the queue and executes them.
//!
//! A worker has a fixed number of sandbox slots. A run of a program and a single debate take one slot each. A run that
//! only calls models and waits for its debates takes none, so that these runs never block the debates of others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use assize_cluster::{
    Capabilities, ClusterClient, ClusterNode, DEBATE, Delivery, LIMITS, MOST_TRIES, NodeRole, RUN,
    RunJobBody, SlotKind, VERSION, needs_of,
};
use assize_config::{Isolation, RequestedIsolation, SettingKey, Settings};
use assize_consult::DebateSandboxes;
use assize_run::{
    AnyTrial, Dispatch, LeaseHolder, ResumeRequest, Role, Run, RunFilter, RunId, RunKind,
    RunStatus, Store, StoreError, fail, progress, record_panic, release,
};
use assize_sandbox::memory::meminfo;
use assize_sandbox::{SandboxFactory, SandboxSpec};
use assize_types::{Cancel, CancelReason, Failure, FailureKind, Reporter, unix_millis};
use async_trait::async_trait;
use scopeguard::guard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use crate::debates::{self, QueuedDebate};
use crate::grounds::BackendCache;
use crate::{limits, live};

/// Default number of problems of an evaluation that are solved concurrently.
pub const PARALLEL: u32 = 4;

/// Resumes runs of every kind.
#[async_trait]
pub trait ResumeRuns: Send + Sync {
    /// Claims a run with these settings. `parallel` is the number of problems of an evaluation to solve concurrently.
    async fn resume(
        &self,
        request: &ResumeRequest,
        settings: Settings,
        parallel: u32,
    ) -> Result<Box<dyn AnyTrial>, Failure>;
}

/// Maximum number of concurrent runs of a worker that take no sandbox.
const MAX_RUNS: usize = 64;

/// Capacity and labels that a worker offers to the cluster.
#[derive(Debug, Clone)]
pub struct WorkerOffer {
    /// Number of concurrent sandboxes.
    pub slots: u32,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

/// Worker: takes jobs from the queue and executes them.
#[derive(Debug)]
pub struct Worker {
    host: Arc<WorkerContext>,
    node: watch::Sender<ClusterNode>,
    /// Free sandbox slots.
    slots: Arc<Semaphore>,
    /// Free slots for runs that take no sandbox.
    runs: Arc<Semaphore>,
    /// Free slots for rate limit jobs; more than there are providers.
    keepers: Arc<Semaphore>,
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
    grounds: BackendCache,
    /// Number of debates that this worker has started.
    pub(super) debates: AtomicU64,
}

impl std::fmt::Debug for WorkerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// Outcome of a job on this worker.
pub(super) enum JobOutcome {
    /// The job is done, or no longer needed.
    Done,
    /// This worker cannot execute the job; another worker may.
    NotHere { why: String },
    /// This worker stops; another worker can continue at once.
    Paused,
    /// Another worker executes the job; it is redelivered after this time.
    Later { after: Duration },
    /// This worker executes the job already; it was redelivered because the lease was not renewed in time.
    Ours,
    /// The lease is lost: another worker has the job.
    Lost,
    /// No worker can run the job.
    DeadLetter { why: String },
}

impl WorkerContext {
    /// The sandbox backend for debates with these requirements.
    pub(super) async fn ground(
        &self,
        isolation: Option<&str>,
        spec: &SandboxSpec,
    ) -> Result<Arc<DebateSandboxes>, Failure> {
        self.grounds.get(&self.sandboxes, isolation, spec).await
    }

    /// Fills the warm pool of the default backend.
    async fn warm_up(self: Arc<Self>) {
        if let Some(shared) = &self.sandboxes.shared
            && let Err(failure) = shared.start(&self.sandboxes).await
        {
            tracing::warn!(error = failure.message(), "cannot fill the warm pool");
        }
    }

    /// Removes all sandboxes.
    async fn close(&self) {
        self.grounds.close().await;
        if let Some(shared) = &self.sandboxes.shared {
            shared.close().await;
        }
    }
}

impl Worker {
    /// Creates a worker that executes jobs in these sandboxes.
    pub fn new(
        member: Arc<ClusterClient>,
        sandboxes: SandboxFactory,
        isolations: &[Isolation],
        reporter: Arc<dyn Reporter>,
        resume: Arc<dyn ResumeRuns>,
        offer: &WorkerOffer,
    ) -> Worker {
        let host = WorkerContext {
            resume,
            sandboxes,
            reporter,
            store: member.store.clone(),
            grounds: BackendCache::default(),
            debates: AtomicU64::new(0),
            member: member.clone(),
        };
        Worker {
            host: Arc::new(host),
            node: watch::Sender::new(describe(&member, offer, isolations)),
            slots: Arc::new(Semaphore::new(offer.slots as usize)),
            runs: Arc::new(Semaphore::new(MAX_RUNS)),
            keepers: Arc::new(Semaphore::new(MAX_RUNS)),
            tasks: TaskTracker::new(),
            stop: Cancel::new(),
        }
    }

    /// This worker as the cluster sees it.
    pub fn node(&self) -> ClusterNode {
        self.node.borrow().clone()
    }

    /// Executes jobs until `cancel` fires. Other workers then resume the jobs in progress.
    pub async fn run(self, cancel: Cancel) -> Result<(), Failure> {
        let _announced = self.host.member.cluster.announce(self.node.subscribe()).await?;
        let worker = Arc::new(self);
        worker.tasks.spawn(worker.host.clone().warm_up());
        let ended = tokio::select! {
            ended = worker.clone().take_jobs(SlotKind::Sandbox) => ended,
            ended = worker.clone().take_jobs(SlotKind::Run) => ended,
            ended = worker.clone().take_jobs(SlotKind::Keeper) => ended,
            ended = worker.sweep() => ended,
            _ = cancel.cancelled() => Ok(()),
        };
        worker.stop.cancel(CancelReason::Paused);
        worker.tasks.close();
        worker.tasks.wait().await;
        worker.host.close().await;
        Ok(ended?)
    }

    /// Takes jobs for one kind of slot whenever a slot is free.
    async fn take_jobs(self: Arc<Self>, place: SlotKind) -> Result<(), StoreError> {
        let slots = match place {
            SlotKind::Sandbox => &self.slots,
            SlotKind::Run => &self.runs,
            SlotKind::Keeper => &self.keepers,
        };
        loop {
            let Ok(permit) = slots.clone().acquire_owned().await else { return Ok(()) };
            let abilities = self.node.borrow().abilities.clone();
            let delivery = self.host.member.queue.take(&abilities, place).await?;
            let worker = self.clone();
            self.tasks.spawn(async move { worker.process(delivery, permit, place).await });
        }
    }

    async fn process(&self, delivery: Delivery, permit: OwnedSemaphorePermit, place: SlotKind) {
        // Announces to the cluster that a sandbox is in use.
        let _busy = (place == SlotKind::Sandbox).then(|| {
            self.node.send_modify(|node| node.busy += 1);
            guard((), |()| self.node.send_modify(|node| node.busy -= 1))
        });
        let (job, tries) = (delivery.work.to_string(), delivery.tries);
        tracing::info!(work = job, tries, "job taken");
        let outcome = match delivery.work.kind.as_str() {
            RUN => match delivery.body() {
                Ok(RunJobBody { run }) => self.execute_run(&run, tries, None).await,
                Err(why) => self.refuse_undecodable(&delivery, why).await,
            },
            DEBATE => match delivery.body::<QueuedDebate>() {
                Ok(work) => {
                    let (lease, stop) = (delivery.lease(), self.stop.child());
                    let debate = debates::hold(&self.host, work, &stop);
                    tokio::pin!(debate);
                    tokio::select! {
                        outcome = &mut debate => outcome,
                        () = lease.lost() => {
                            stop.cancel(CancelReason::LeaseLost);
                            debate.await;
                            JobOutcome::Lost
                        }
                    }
                }
                // The lease holder of the run counts its jobs that are removed from the queue.
                Err(why) => JobOutcome::DeadLetter { why },
            },
            LIMITS => {
                let lease = delivery.lease();
                let provider = delivery.work.about.clone();
                self.node.send_modify(|node| node.keeps.push(provider.clone()));
                let outcome =
                    limits::keep(&self.host, &delivery.work, tries, lease, &self.stop).await;
                self.node.send_modify(|node| node.keeps.retain(|kept| *kept != provider));
                outcome
            }
            other => {
                let why = format!("unknown kind of job `{other}`");
                if tries < MOST_TRIES {
                    // A newer worker may know this kind.
                    JobOutcome::NotHere { why }
                } else {
                    JobOutcome::DeadLetter { why }
                }
            }
        };
        match outcome {
            JobOutcome::Done => delivery.done().await,
            JobOutcome::Paused => delivery.give_back(Duration::ZERO).await,
            // Keeps the job on the queue, in case the worker that executes it dies.
            JobOutcome::Later { after } => delivery.give_back(after).await,
            JobOutcome::Ours => {
                drop(permit);
                let run = delivery.work.about.clone();
                let mut node = self.node.subscribe();
                let _ = node.wait_for(|node| !node.holds.contains(&run)).await;
                // The next worker finds out whether the run has ended.
                return delivery.give_back(Duration::ZERO).await;
            }
            JobOutcome::NotHere { why } => {
                self.host.reporter.warn(&format!("{job} cannot run on this worker: {why}"));
                delivery.give_back(self.host.member.cluster.times().retry()).await;
            }
            JobOutcome::DeadLetter { why } => {
                self.host.reporter.warn(&format!("{job} moved to the dead letters: {why}"));
                delivery.dead_letter(&why).await;
            }
            // An ack or nack from here would affect the worker that has the job now.
            JobOutcome::Lost => drop(delivery),
        }
        drop(permit);
    }

    /// Refuses a job that this worker cannot decode, because another worker may. If no worker can, the run fails and
    /// the job becomes a dead letter, as does the job of a run that has ended or is unknown.
    async fn refuse_undecodable(&self, delivery: &Delivery, why: String) -> JobOutcome {
        let Ok(id) = delivery.work.about.parse::<RunId>() else {
            return JobOutcome::DeadLetter { why };
        };
        let failure = Failure::new(FailureKind::Environment, why.clone())
            .hint("run the same version of assize on all machines of the cluster");
        match self.execute_run(&id, delivery.tries, Some(failure)).await {
            JobOutcome::Done => JobOutcome::DeadLetter { why },
            outcome => outcome,
        }
    }

    /// Executes a run, unless another worker holds its lease. With `cannot`, records why this worker cannot start it.
    async fn execute_run(&self, id: &RunId, tries: u64, cannot: Option<Failure>) -> JobOutcome {
        match self.try_execute_run(id, tries, cannot).await {
            Ok(outcome) => outcome,
            Err(StoreError::NoSuchRun(_) | StoreError::Done(_)) => JobOutcome::Done,
            Err(StoreError::Fenced(_)) => JobOutcome::Lost,
            Err(error) => JobOutcome::NotHere { why: error.to_string() },
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
        let (last, waits) = (LeaseHolder::last(&run), LeaseHolder::is_waiting(&run));
        if !waits && self.is_held(&run).await? {
            // The run was queued twice, or its lease holder did not renew the job's lease for a while.
            let ours = self.node.borrow().holds.iter().any(|held| held == id.as_str());
            let after = member.cluster.times().lease();
            return Ok(if ours { JobOutcome::Ours } else { JobOutcome::Later { after } });
        }
        let refused = last.as_ref().map(|last| last.refused.clone()).unwrap_or_default();
        if refused.contains(&member.id) && member.others_for(&needs_of(&run), &refused).await? {
            return Ok(JobOutcome::Later { after: member.cluster.times().retry() });
        }
        // Announces to the cluster that this worker executes the run.
        self.node.send_modify(|node| node.holds.push(id.to_string()));
        let _holds = guard((), |()| {
            self.node.send_modify(|node| {
                let held = node.holds.iter().position(|run| run == id.as_str());
                held.map(|held| node.holds.swap_remove(held));
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
                // Only consecutive deaths without progress count.
                let records = progress(&store.records(id).await?);
                let progressed = holder.records.is_none_or(|before| records > before);
                holder.deaths = if progressed { 0 } else { holder.deaths + 1 };
            }
            let deaths = holder.deaths;
            // Fences the old lease holder, in case it is still alive.
            let claim = store.claim(id, &holder.released().to_text(), Some(run.epoch)).await?;
            if deaths >= MOST_TRIES {
                let why = format!("{deaths} workers in a row stopped without progress or an error");
                let failure = Failure::new(FailureKind::Environment, why);
                fail(&**store, id, Some(claim.epoch), &failure).await;
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

    /// Records that this worker cannot start a run. The run fails after the last delivery, if no other worker is there.
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
            // Another worker has started the run.
            return Ok(JobOutcome::Later { after: member.cluster.times().lease() });
        };
        holder.refused.insert(member.id.clone());
        let given_up =
            tries >= MOST_TRIES && member.no_worker_for(&needs_of(&run), &holder.refused).await?;
        let claim = store.claim(id, &holder.to_text(), Some(run.epoch)).await?;
        if given_up {
            let failure = failure.within("no worker could start the run");
            fail(&**store, id, Some(claim.epoch), &failure).await;
            return Ok(JobOutcome::Done);
        }
        Ok(JobOutcome::NotHere { why: failure.message().to_owned() })
    }

    /// Whether the last lease holder of a run still executes it. A node that is alive may have dropped the run.
    async fn is_held(&self, run: &Run) -> Result<bool, StoreError> {
        let Some(node) = LeaseHolder::last(run).and_then(|last| last.node) else {
            return Ok(false);
        };
        let ClusterClient { cluster, id, .. } = &*self.host.member;
        let (begun, reconnect) = (Instant::now(), cluster.times().reconnect());
        loop {
            if let Some(node) = cluster.node(&node).await? {
                return Ok(node.holds.iter().any(|held| held == run.id.as_str()));
            }
            // The holder or this worker may be reconnecting to another server.
            if begun.elapsed() >= reconnect && cluster.is_there(id).await? {
                return Ok(false);
            }
            tokio::time::sleep(reconnect / 4).await;
        }
    }

    /// Takes free sandbox slots in addition to the first, for a run that can use several.
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
            Ok(Err(broke)) if broke.is_paused => true,
            Ok(Err(broke)) => {
                tracing::info!(run = %id, why = broke.failure.message(), "run ended early");
                false
            }
            Err(_) => {
                record_panic(&**store, &id).await;
                false
            }
        };
        match store.run(&id).await {
            Ok(run) if run.status != RunStatus::Running => JobOutcome::Done,
            Ok(run) if run.epoch != epoch => JobOutcome::Lost,
            Ok(_) => {
                release(&**store, &id, epoch).await;
                if !paused {
                    let why = "cannot store how the run ended".to_owned();
                    return JobOutcome::NotHere { why };
                }
                // A new job, not a redelivery, which would count as a failed attempt.
                let queued = async { member.enqueue(&store.run(&id).await?).await };
                queued.await.map_or(JobOutcome::Paused, |()| JobOutcome::Done)
            }
            Err(StoreError::NoSuchRun(_)) => JobOutcome::Done,
            Err(error) => JobOutcome::NotHere { why: error.to_string() },
        }
    }

    /// Periodically queues abandoned runs, which have no job, for example because a process died before queueing it.
    async fn sweep(&self) -> Result<(), StoreError> {
        let mut before: HashMap<RunId, u64> = HashMap::new();
        loop {
            // Random, so that not all workers sweep at the same time.
            let interval = self.host.member.cluster.times().sweep();
            tokio::time::sleep(interval.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            match self.sweep_once(&before).await {
                Ok(seen) => before = seen,
                Err(error @ StoreError::Newer { .. }) => return Err(error),
                Err(error) => tracing::warn!(%error, "cannot look for abandoned runs"),
            }
        }
    }

    /// Returns unfinished runs with their epochs. Queues those also in `before`, if no process executes them.
    async fn sweep_once(
        &self,
        before: &HashMap<RunId, u64>,
    ) -> Result<HashMap<RunId, u64>, StoreError> {
        let WorkerContext { member, store, .. } = &*self.host;
        // The cluster may have been upgraded to another protocol version.
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
                tracing::info!(run = %run.id, "abandoned run queued again");
                member.enqueue(&run).await?;
            }
        }
        Ok(seen)
    }
}

/// Whether workers execute a run. A message on the queue can name any run of the store.
fn is_for_workers(run: &Run) -> bool {
    let of_cluster = LeaseHolder::last(run).is_some_and(|last| last.node.is_some());
    of_cluster && run.kind != RunKind::Work
}

/// Describes a worker to the cluster.
fn describe(member: &ClusterClient, offer: &WorkerOffer, isolations: &[Isolation]) -> ClusterNode {
    let memory = memory() / u64::from(offer.slots.max(1));
    let abilities = Capabilities {
        isolations: isolations_met(isolations),
        memory,
        labels: offer.labels.clone(),
        region: offer.region.clone(),
    };
    node(member, NodeRole::Worker, offer.slots, abilities)
}

/// Describes this process to the cluster.
pub fn node(
    member: &ClusterClient,
    role: NodeRole,
    slots: u32,
    abilities: Capabilities,
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
        keeps: Vec::new(),
        holds: Vec::new(),
        abilities,
    }
}

/// Memory of this machine or, if lower, the limit of its container, in megabytes.
fn memory() -> u64 {
    let limit = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.into_iter().filter_map(limit).min().unwrap_or(u64::MAX);
    meminfo("MemTotal").map_or(limit, |bytes| bytes.min(limit)) >> 20
}

/// All values of the isolation setting that a worker satisfies with the available backends.
fn isolations_met(available: &[Isolation]) -> Vec<String> {
    let exactly = available.iter().map(|isolation| RequestedIsolation::Exactly(*isolation));
    let strongest = available.iter().max().copied();
    let at_least = Isolation::ALL.into_iter().filter(|floor| Some(*floor) <= strongest);
    exactly
        .chain(at_least.map(RequestedIsolation::AtLeast))
        .map(|value| value.to_string())
        .collect()
}

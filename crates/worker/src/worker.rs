//! Worker: executes the jobs that other processes put on the queue.
//!
//! A worker has so many sandboxes at once. Runs of programs and single debates take one each; runs that only call
//! models and wait take none, so that debates of many runs never wait for each other's runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use assize_cluster::{
    Abilities, DEBATE, LIMITS, MOST_TRIES, Member, Node, NodeRole, Place, RUN, RunWork, Taken,
    VERSION, needs_of,
};
use assize_config::{Isolation, SettingKey, Settings, Wanted};
use assize_consult::Prepared;
use assize_run::{
    AnyTrial, Dispatch, LeaseHolder, ResumeRequest, Role, Run, RunFilter, RunId, RunKind,
    RunStatus, Store, StoreError, fail, progress, record_panic, release,
};
use assize_sandbox::memory::meminfo;
use assize_sandbox::{Sandboxes, Spec};
use assize_types::{Cancel, CancelReason, Failure, FailureKind, Reporter, unix_millis};
use async_trait::async_trait;
use scopeguard::guard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::TaskTracker;

use crate::debates::{self, DebateWork};
use crate::grounds::Grounds;
use crate::{limits, live};

/// How many problems of an evaluation are solved at once, unless the user says.
pub const PARALLEL: u32 = 4;

/// Resumes runs of every kind.
#[async_trait]
pub trait Resume: Send + Sync {
    /// Claims a run with these settings; of an evaluation, so many problems are solved at once.
    async fn resume(
        &self,
        request: &ResumeRequest,
        settings: Settings,
        parallel: u32,
    ) -> Result<Box<dyn AnyTrial>, Failure>;
}

/// The most runs that one worker holds at once which take no sandbox.
const MOST_RUNS: usize = 64;

/// What a worker offers.
#[derive(Debug, Clone)]
pub struct Offer {
    /// How many sandboxes it can have at once.
    pub slots: u32,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
}

/// Whoever does what others put on the queue.
#[derive(Debug)]
pub struct Worker {
    host: Arc<Host>,
    node: watch::Sender<Node>,
    /// Sandboxes that it can have.
    slots: Arc<Semaphore>,
    /// Runs that it can hold besides.
    runs: Arc<Semaphore>,
    /// Providers whose limits it can keep: all of them.
    keepers: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Cancelled when it is to stop.
    stop: Cancel,
}

/// What all that is done here shares.
pub(super) struct Host {
    pub(super) resume: Arc<dyn Resume>,
    pub(super) sandboxes: Sandboxes,
    pub(super) reporter: Arc<dyn Reporter>,
    pub(super) member: Arc<Member>,
    pub(super) store: Arc<dyn Store>,
    grounds: Grounds,
    /// How many debates were begun here.
    pub(super) debates: AtomicU64,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// How work ended here.
pub(super) enum Outcome {
    /// It is done, or nobody wants it any more.
    Done,
    /// It could not be done here; elsewhere it may be.
    NotHere { why: String },
    /// We are told to stop; somebody else can go on at once.
    Paused,
    /// Somebody else has it, or will do it.
    Later { after: Duration },
    /// It is under way here, and came back after we were silent for a while.
    Ours,
    /// Somebody else has taken it from us.
    Lost,
    /// No worker can run it.
    DeadLetter { why: String },
}

impl Host {
    /// What it takes to debate in such sandboxes.
    pub(super) async fn ground(
        &self,
        isolation: Option<&str>,
        spec: &Spec,
    ) -> Result<Arc<Prepared>, Failure> {
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
    /// A worker that executes jobs in these sandboxes.
    pub fn new(
        member: Arc<Member>,
        sandboxes: Sandboxes,
        isolations: &[Isolation],
        reporter: Arc<dyn Reporter>,
        resume: Arc<dyn Resume>,
        offer: &Offer,
    ) -> Worker {
        let host = Host {
            resume,
            sandboxes,
            reporter,
            store: member.store.clone(),
            grounds: Grounds::default(),
            debates: AtomicU64::new(0),
            member: member.clone(),
        };
        Worker {
            host: Arc::new(host),
            node: watch::Sender::new(describe(&member, offer, isolations)),
            slots: Arc::new(Semaphore::new(offer.slots as usize)),
            runs: Arc::new(Semaphore::new(MOST_RUNS)),
            keepers: Arc::new(Semaphore::new(MOST_RUNS)),
            tasks: TaskTracker::new(),
            stop: Cancel::new(),
        }
    }

    /// What it is to others.
    pub fn node(&self) -> Node {
        self.node.borrow().clone()
    }

    /// Does what there is to do, until it is told to stop. What is under way then goes on elsewhere.
    pub async fn run(self, cancel: Cancel) -> Result<(), Failure> {
        let _here = self.host.member.cluster.announce(self.node.subscribe()).await?;
        let worker = Arc::new(self);
        worker.tasks.spawn(worker.host.clone().warm_up());
        let ended = tokio::select! {
            ended = worker.clone().take_all(Place::Sandbox) => ended,
            ended = worker.clone().take_all(Place::Run) => ended,
            ended = worker.clone().take_all(Place::Keeper) => ended,
            ended = worker.sweep() => ended,
            _ = cancel.cancelled() => Ok(()),
        };
        worker.stop.cancel(CancelReason::Paused);
        worker.tasks.close();
        worker.tasks.wait().await;
        worker.host.close().await;
        Ok(ended?)
    }

    /// Takes what needs such a place, as long as there is one.
    async fn take_all(self: Arc<Self>, place: Place) -> Result<(), StoreError> {
        let room = match place {
            Place::Sandbox => &self.slots,
            Place::Run => &self.runs,
            Place::Keeper => &self.keepers,
        };
        loop {
            let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
            let abilities = self.node.borrow().abilities.clone();
            let taken = self.host.member.queue.take(&abilities, place).await?;
            let worker = self.clone();
            self.tasks.spawn(async move { worker.work(taken, permit, place).await });
        }
    }

    async fn work(&self, taken: Taken, permit: OwnedSemaphorePermit, place: Place) {
        // A sandbox that is in use, as others see it.
        let _busy = (place == Place::Sandbox).then(|| {
            self.node.send_modify(|node| node.busy += 1);
            guard((), |()| self.node.send_modify(|node| node.busy -= 1))
        });
        let (what, tries) = (taken.work.to_string(), taken.tries);
        tracing::info!(work = what, tries, "taken");
        let outcome = match taken.work.kind.as_str() {
            RUN => match taken.body() {
                Ok(RunWork { run }) => self.hold_run(&run, tries, None).await,
                Err(why) => self.refuse_undecodable(&taken, why).await,
            },
            DEBATE => match taken.body::<DebateWork>() {
                Ok(work) => {
                    let (lease, stop) = (taken.lease(), self.stop.child());
                    let held = debates::hold(&self.host, work, &stop);
                    tokio::pin!(held);
                    tokio::select! {
                        outcome = &mut held => outcome,
                        () = lease.lost() => {
                            stop.cancel(CancelReason::LeaseLost);
                            held.await;
                            Outcome::Lost
                        }
                    }
                }
                // The lease holder of the run counts its jobs that are removed from the queue.
                Err(why) => Outcome::DeadLetter { why },
            },
            LIMITS => {
                let lease = taken.lease();
                let about = taken.work.about.clone();
                self.node.send_modify(|node| node.keeps.push(about.clone()));
                let kept = limits::keep(&self.host, &taken.work, tries, lease, &self.stop).await;
                self.node.send_modify(|node| node.keeps.retain(|one| *one != about));
                kept
            }
            other => {
                let why = format!("unknown kind of job `{other}`");
                if tries < MOST_TRIES {
                    // A newer worker may know it.
                    Outcome::NotHere { why }
                } else {
                    Outcome::DeadLetter { why }
                }
            }
        };
        match outcome {
            Outcome::Done => taken.done().await,
            Outcome::Paused => taken.give_back(Duration::ZERO).await,
            // Should whoever has it die, it is there.
            Outcome::Later { after } => taken.give_back(after).await,
            Outcome::Ours => {
                drop(permit);
                let run = taken.work.about.clone();
                let mut node = self.node.subscribe();
                let _ = node.wait_for(|node| !node.holds.contains(&run)).await;
                // Whoever takes it sees whether there is more to be done.
                return taken.give_back(Duration::ZERO).await;
            }
            Outcome::NotHere { why } => {
                self.host.reporter.warn(&format!("{what} is not done here: {why}"));
                taken.give_back(self.host.member.cluster.times().retry()).await;
            }
            Outcome::DeadLetter { why } => {
                self.host.reporter.warn(&format!("{what} is a dead letter: {why}"));
                taken.dead_letter(&why).await;
            }
            // Our word would count for whoever has it.
            Outcome::Lost => drop(taken),
        }
        drop(permit);
    }

    /// Refuses a run whose job cannot be decoded here: another worker may decode it. The run fails once it was
    /// tried often and no other worker is there. The job then becomes a dead letter, and so does the job of a run
    /// that is over or unknown.
    async fn refuse_undecodable(&self, taken: &Taken, why: String) -> Outcome {
        let Ok(id) = taken.work.about.parse::<RunId>() else { return Outcome::DeadLetter { why } };
        let failure = Failure::new(FailureKind::Environment, why.clone())
            .hint("run the same version of assize on all machines of the cluster");
        match self.hold_run(&id, taken.tries, Some(failure)).await {
            Outcome::Done => Outcome::DeadLetter { why },
            outcome => outcome,
        }
    }

    /// Runs a run to its end, unless another worker holds its lease; or records why this worker cannot begin it.
    async fn hold_run(&self, id: &RunId, tries: u64, cannot: Option<Failure>) -> Outcome {
        match self.try_to_hold(id, tries, cannot).await {
            Ok(outcome) => outcome,
            Err(StoreError::NoSuchRun(_) | StoreError::Done(_)) => Outcome::Done,
            Err(StoreError::Fenced(_)) => Outcome::Lost,
            Err(error) => Outcome::NotHere { why: error.to_string() },
        }
    }

    async fn try_to_hold(
        &self,
        id: &RunId,
        tries: u64,
        cannot: Option<Failure>,
    ) -> Result<Outcome, StoreError> {
        let Host { sandboxes, member, store, .. } = &*self.host;
        let run = store.run(id).await?;
        if run.status != RunStatus::Running {
            return Ok(Outcome::Done);
        }
        let (last, waits) = (LeaseHolder::last(&run), LeaseHolder::is_waiting(&run));
        if !waits && self.is_held(&run).await? {
            // It was put on the queue twice, or whoever holds it was silent for a while.
            let ours = self.node.borrow().holds.iter().any(|held| held == id.as_str());
            let after = member.cluster.times().lease();
            return Ok(if ours { Outcome::Ours } else { Outcome::Later { after } });
        }
        let refused = last.as_ref().map(|last| last.refused.clone()).unwrap_or_default();
        if refused.contains(&member.id) && member.others_for(&needs_of(&run), &refused).await? {
            return Ok(Outcome::Later { after: member.cluster.times().retry() });
        }
        // A run that is held here, as others see it.
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
            let mut nobody =
                last.unwrap_or_else(|| LeaseHolder::this_process(Role::Worker, Some(&member.id)));
            if !waits {
                // Whoever gets on may die as often as they like.
                let records = progress(&store.records(id).await?);
                let got_on = nobody.records.is_none_or(|before| records > before);
                nobody.deaths = if got_on { 0 } else { nobody.deaths + 1 };
            }
            let deaths = nobody.deaths;
            // From here on whoever held it is told so, should they not be dead after all.
            let claim = store.claim(id, &nobody.released().to_text(), Some(run.epoch)).await?;
            if deaths >= MOST_TRIES {
                let why = format!(
                    "{deaths} workers have begun it, one after the other, and none got on with it or said why"
                );
                let failure = Failure::new(FailureKind::Environment, why);
                fail(&**store, id, Some(claim.epoch), &failure).await;
                return Ok(Outcome::Done);
            }
        }
        if let Some(failure) = cannot {
            return self.refuse(id, failure, tries).await;
        }
        let more = self.more_places(&run);
        let parallel = u32::try_from(1 + more.len()).unwrap_or(1);
        let request = ResumeRequest { run: id.to_string(), take_over: false };
        match self.host.resume.resume(&request, settings, parallel).await {
            Ok(trial) => Ok(self.hold(trial).await),
            Err(failure) => self.refuse(id, failure, tries).await,
        }
    }

    /// Notes that a run cannot be begun here. It has failed once it was tried often, and nobody else is there.
    async fn refuse(
        &self,
        id: &RunId,
        failure: Failure,
        tries: u64,
    ) -> Result<Outcome, StoreError> {
        let Host { member, store, .. } = &*self.host;
        let run = store.run(id).await?;
        let Some(mut nobody) = LeaseHolder::last(&run).filter(|_| LeaseHolder::is_waiting(&run))
        else {
            // Somebody else has begun it.
            return Ok(Outcome::Later { after: member.cluster.times().lease() });
        };
        nobody.refused.insert(member.id.clone());
        let given_up =
            tries >= MOST_TRIES && member.nobody_for(&needs_of(&run), &nobody.refused).await?;
        let claim = store.claim(id, &nobody.to_text(), Some(run.epoch)).await?;
        if given_up {
            let failure = failure.within("no worker could begin it");
            fail(&**store, id, Some(claim.epoch), &failure).await;
            return Ok(Outcome::Done);
        }
        Ok(Outcome::NotHere { why: failure.message().to_owned() })
    }

    /// Whether whoever took a run last still holds it: that they live is not enough.
    async fn is_held(&self, run: &Run) -> Result<bool, StoreError> {
        let Some(node) = LeaseHolder::last(run).and_then(|last| last.node) else {
            return Ok(false);
        };
        let Member { cluster, id, .. } = &*self.host.member;
        let (begun, reconnect) = (Instant::now(), cluster.times().reconnect());
        loop {
            if let Some(node) = cluster.node(&node).await? {
                return Ok(node.holds.iter().any(|held| held == run.id.as_str()));
            }
            // They may be on their way to another server, and so may we.
            if begun.elapsed() >= reconnect && cluster.is_there(id).await? {
                return Ok(false);
            }
            tokio::time::sleep(reconnect / 4).await;
        }
    }

    /// More sandboxes for what can use several at once, as far as they are free.
    fn more_places(&self, run: &Run) -> Vec<OwnedSemaphorePermit> {
        let wanted = if run.kind == RunKind::Eval { PARALLEL - 1 } else { 0 };
        (0..wanted).map_while(|_| self.slots.clone().try_acquire_owned().ok()).collect()
    }

    async fn hold(&self, mut trial: Box<dyn AnyTrial>) -> Outcome {
        let Host { member, store, .. } = &*self.host;
        let (id, life) = (trial.run().id.clone(), trial.run().epoch);
        let _watched = match trial.live_output() {
            Some(live) => live::show(member, &id, live.clone()).await.ok(),
            None => None,
        };
        let held = std::panic::AssertUnwindSafe(trial.execute(self.stop.child()));
        let held = futures_util::FutureExt::catch_unwind(held).await;
        let paused = match held {
            Ok(Ok(())) => return Outcome::Done,
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
            Ok(run) if run.status != RunStatus::Running => Outcome::Done,
            Ok(run) if run.epoch != life => Outcome::Lost,
            Ok(_) => {
                release(&**store, &id, life).await;
                if !paused {
                    let why = "its last word could not be written down".to_owned();
                    return Outcome::NotHere { why };
                }
                // Nobody failed: it is put on the queue anew, and not given back.
                let put = async { member.enqueue(&store.run(&id).await?).await };
                put.await.map_or(Outcome::Paused, |()| Outcome::Done)
            }
            Err(StoreError::NoSuchRun(_)) => Outcome::Done,
            Err(error) => Outcome::NotHere { why: error.to_string() },
        }
    }

    /// Puts on the queue what was left behind: by those who died before they had put it there, and the like.
    async fn sweep(&self) -> Result<(), StoreError> {
        let mut before: HashMap<RunId, u64> = HashMap::new();
        loop {
            // Not all at once.
            let interval = self.host.member.cluster.times().sweep();
            tokio::time::sleep(interval.mul_f64(0.75 + fastrand::f64() / 2.0)).await;
            match self.sweep_once(&before).await {
                Ok(seen) => before = seen,
                Err(error @ StoreError::Newer { .. }) => return Err(error),
                Err(error) => tracing::warn!(%error, "runs that were left behind were not found"),
            }
        }
    }

    /// The runs that are under way, each in its life: those that were before, and nobody has, are put on the queue.
    async fn sweep_once(
        &self,
        before: &HashMap<RunId, u64>,
    ) -> Result<HashMap<RunId, u64>, StoreError> {
        let Host { member, store, .. } = &*self.host;
        // Others may have been replaced by those who speak otherwise.
        member.queue.check_version().await?;
        member.store.finish_removals().await?;
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let mut seen = HashMap::new();
        for run in store.runs(filter).await? {
            let last = LeaseHolder::last(&run);
            let ours = last.as_ref().is_some_and(|last| last.node.is_some());
            if !ours || run.kind == RunKind::Work {
                continue;
            }
            seen.insert(run.id.clone(), run.epoch);
            if before.get(&run.id) != Some(&run.epoch)
                || member.queue.has(RUN, run.id.as_str()).await?
            {
                continue;
            }
            if LeaseHolder::is_waiting(&run) || !self.is_held(&run).await? {
                tracing::info!(run = %run.id, "put on the queue again");
                member.enqueue(&run).await?;
            }
        }
        Ok(seen)
    }
}

/// What a worker is to others.
fn describe(member: &Member, offer: &Offer, isolations: &[Isolation]) -> Node {
    let memory = memory() / u64::from(offer.slots.max(1));
    let abilities = Abilities {
        isolations: isolations_met(isolations),
        memory,
        labels: offer.labels.clone(),
        region: offer.region.clone(),
    };
    node(member, NodeRole::Worker, offer.slots, abilities)
}

/// This process as others see it.
pub fn node(member: &Member, role: NodeRole, slots: u32, abilities: Abilities) -> Node {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Node {
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

/// Memory of this machine, or of the container that this is, in megabytes.
fn memory() -> u64 {
    let limit = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.into_iter().filter_map(limit).min().unwrap_or(u64::MAX);
    meminfo("MemTotal").map_or(limit, |bytes| bytes.min(limit)) >> 20
}

/// The isolations that a worker meets, as they are asked for.
fn isolations_met(available: &[Isolation]) -> Vec<String> {
    let exactly = available.iter().map(|isolation| Wanted::Exactly(*isolation));
    let strongest = available.iter().max().copied();
    let at_least = Isolation::ALL.into_iter().filter(|floor| Some(*floor) <= strongest);
    exactly.chain(at_least.map(Wanted::AtLeast)).map(|wanted| wanted.to_string()).collect()
}

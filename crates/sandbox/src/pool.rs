//! Warm pool of idle sandboxes of one shape (image, layers and limits). All idle sandboxes, or only the first ones in
//! the queue, have a pre-started interpreter.
//!
//! A sandbox serves one execution and is then discarded, so no state carries over between runs. A sandbox that is
//! taken, or that dies while idle, is replaced in the background. After a period without requests the pool ends all its
//! sandboxes, and the next request waits until a new sandbox has started.

mod refill;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::channel::until;
use crate::error::SandboxError;
use crate::manager::SandboxCreator;
use crate::memory;
use crate::sandbox::Sandbox;
use crate::spec::SandboxSpec;

/// Maximum drift between the monotonic clock and the wall clock. A larger drift means that the wall clock was set or
/// the machine was suspended.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Options of a pool: size, idle timeout and memory reserve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    pub size: usize,
    /// Time without a request after which the idle sandboxes are ended; [`Duration::MAX`] for never.
    pub idle: Duration,
    /// Bytes of memory that must stay available on this machine. The pool is not refilled if less would be left.
    pub memory_reserve: u64,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions { size: 5, idle: Duration::from_secs(300), memory_reserve: 0 }
    }
}

/// Counters and current state of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PoolMetrics {
    /// Number of idle sandboxes in a full pool.
    pub size: usize,
    /// Current number of idle sandboxes.
    pub idle: usize,
    /// Number of requests that an idle sandbox served.
    pub hits: u64,
    /// Number of requests for which a sandbox had to be created.
    pub misses: u64,
    /// Whether the pool is full.
    pub ready: bool,
    /// Number of sandboxes that were created to fill the pool.
    pub refills: u64,
    /// Total duration of all refills, in microseconds.
    pub refill_micros: u64,
    /// Total time that requests waited for their sandbox, in microseconds.
    pub wait_micros: u64,
    /// Whether there is too little free memory to refill the pool.
    pub low_memory: bool,
}

impl PoolMetrics {
    /// Mean duration of a refill; `None` before the first refill.
    pub fn refill_time(&self) -> Option<Duration> {
        self.refill_micros.checked_div(self.refills).map(Duration::from_micros)
    }

    /// Adds the size of a pool and its number of idle sandboxes to these metrics.
    pub(crate) fn add_idle(&mut self, pool: &SandboxPool) {
        let (idle, low_memory) = pool.idle();
        self.size += pool.shared.options.size;
        self.idle += idle;
        self.ready = self.idle >= self.size;
        self.low_memory |= low_memory;
    }
}

/// Warm pool of idle sandboxes that all have the same shape (image, layers and limits).
#[derive(Debug)]
pub struct SandboxPool {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    creator: Arc<SandboxCreator>,
    spec: SandboxSpec,
    options: PoolOptions,
    state: Mutex<Lane>,
    /// Notifies waiting tasks when a sandbox is taken from the pool or added to it.
    changed: Notify,
    counters: Arc<PoolCounters>,
}

/// Monotonic counters of one pool, or of several pools whose metrics are reported together.
#[derive(Debug, Default)]
pub(crate) struct PoolCounters {
    hits: AtomicU64,
    misses: AtomicU64,
    wait_micros: AtomicU64,
    refills: AtomicU64,
    refill_micros: AtomicU64,
}

impl PoolCounters {
    /// Counts a miss: a request whose sandbox is created outside of all pools.
    pub(crate) fn count_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns metrics with the values of these counters and with no idle sandboxes.
    pub(crate) fn metrics(&self) -> PoolMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolMetrics {
            hits: read(&self.hits),
            misses: read(&self.misses),
            refills: read(&self.refills),
            refill_micros: read(&self.refill_micros),
            wait_micros: read(&self.wait_micros),
            ..PoolMetrics::default()
        }
    }
}

/// Mutable state of a pool.
#[derive(Debug)]
struct Lane {
    idle: VecDeque<Sandbox>,
    /// Time of the last request or refill, at which the idle timeout starts.
    used: Instant,
    /// Error of the last refill, if the refill failed. The pool is refilled again only after the next request.
    refill_error: Option<SandboxError>,
    /// Whether the pool should be filled; `false` after the idle timeout.
    should_fill: bool,
    /// Whether the idle timeout is disabled.
    idle_timeout_disabled: bool,
    /// Whether the sandboxes have no interpreter that could be pre-started.
    without_interpreter: bool,
    low_memory: bool,
    /// Readings of the monotonic clock and the wall clock when they were last compared.
    clocks: Clocks,
}

/// Readings of the monotonic clock, which stops while the machine is suspended, and of the wall clock.
type Clocks = (Instant, SystemTime);

impl Shared {
    fn state(&self) -> MutexGuard<'_, Lane> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SandboxPool {
    /// Starts a pool, which a background task fills.
    pub(crate) fn start(
        maker: Arc<SandboxCreator>,
        spec: SandboxSpec,
        options: PoolOptions,
        counters: Arc<PoolCounters>,
    ) -> SandboxPool {
        let shared = Arc::new(Shared::new(maker, spec, options, counters));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(refill::keep_filled(Arc::clone(&shared), stop.clone()));
        SandboxPool { shared, tasks, stop }
    }

    /// Disables the idle timeout of the pool.
    pub(crate) fn disable_idle_timeout(&self) {
        self.shared.state().idle_timeout_disabled = true;
        self.shared.changed.notify_waiters();
    }

    /// Returns an unused sandbox with the limits of the request. If the spec has the shape (image, layers and limits)
    /// of the pool and an idle sandbox is left, returns this idle sandbox, otherwise a new sandbox.
    pub async fn take(&self, spec: &SandboxSpec) -> Result<Sandbox, SandboxError> {
        let begun = Instant::now();
        let idle = if self.shared.fits(spec) { self.shared.take() } else { None };
        let (sandbox, counter) = match idle.and_then(|sandbox| sandbox.adapted(spec)) {
            Some(sandbox) => (Ok(sandbox), &self.shared.counters.hits),
            None => (self.make(spec).await, &self.shared.counters.misses),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.shared.counters.wait_micros.fetch_add(micros_since(begun), Ordering::Relaxed);
        sandbox
    }

    /// Creates a new sandbox, whose spec may differ from the spec of the pool. The metrics of the pool count the new
    /// sandbox neither as a hit nor as a miss.
    pub async fn make(&self, spec: &SandboxSpec) -> Result<Sandbox, SandboxError> {
        self.shared.creator.create(spec.clone()).await
    }

    /// Ends a used sandbox in the background.
    pub fn discard(&self, sandbox: Sandbox) {
        self.tasks.spawn(async move { sandbox.end().await });
    }

    pub fn metrics(&self) -> PoolMetrics {
        let mut metrics = self.shared.counters.metrics();
        metrics.add_idle(self);
        metrics
    }

    /// Number of idle sandboxes, and whether there is too little memory for more.
    fn idle(&self) -> (usize, bool) {
        let lane = self.shared.state();
        (lane.alive(), lane.low_memory)
    }

    /// Waits until the pool is full.
    pub async fn ready(&self) -> Result<(), SandboxError> {
        {
            // A call of `ready` counts as a request: a pool that the idle timeout has emptied is filled again.
            let mut lane = self.shared.state();
            lane.should_fill = true;
            lane.used = Instant::now();
        }
        self.shared.changed.notify_waiters();
        let filled = || {
            let lane = self.shared.state();
            let wants_interpreter = lane.first_without(self.shared.interpreters()).is_some();
            if lane.alive() >= self.shared.options.size && !wants_interpreter {
                return Some(Ok(()));
            }
            let low_memory = || {
                let reason = "too little free memory for idle sandboxes";
                SandboxError::failed("filling the warm pool", reason)
            };
            lane.refill_error.clone().or_else(|| lane.low_memory.then(low_memory)).map(Err)
        };
        tokio::select! {
            biased;
            filled = until(&self.shared.changed, filled) => filled,
            () = self.stop.cancelled() => Err(SandboxError::SandboxFailed("the warm pool is closed".to_owned())),
        }
    }

    /// Stops the refill task and ends all idle sandboxes.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let idle = std::mem::take(&mut self.shared.state().idle);
        for sandbox in idle {
            sandbox.end().await;
        }
    }
}

impl Drop for SandboxPool {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    fn new(
        creator: Arc<SandboxCreator>,
        spec: SandboxSpec,
        options: PoolOptions,
        counters: Arc<PoolCounters>,
    ) -> Shared {
        let lane = Lane {
            idle: VecDeque::new(),
            used: Instant::now(),
            refill_error: None,
            should_fill: true,
            idle_timeout_disabled: false,
            without_interpreter: false,
            low_memory: false,
            clocks: (Instant::now(), SystemTime::now()),
        };
        Shared { creator, spec, options, state: Mutex::new(lane), changed: Notify::new(), counters }
    }

    /// Time at which the idle timeout expires; `None` if it never expires.
    fn idle_end(&self) -> Option<Instant> {
        let lane = self.state();
        if lane.idle_timeout_disabled { None } else { lane.used.checked_add(self.options.idle) }
    }

    /// Whether an idle sandbox of this pool can serve the request.
    fn fits(&self, spec: &SandboxSpec) -> bool {
        let wall = spec.limits.wall == self.spec.limits.wall;
        spec.shape() == self.spec.shape()
            && (wall || !self.creator.backend().has_fixed_time_limit())
    }

    /// Removes and returns the first idle sandbox of the queue that is still alive. Dead sandboxes before it are
    /// removed too.
    fn take(&self) -> Option<Sandbox> {
        let mut lane = self.state();
        lane.used = Instant::now();
        lane.should_fill = true;
        lane.refill_error = None;
        lane.compare_clocks();
        let found = loop {
            match lane.idle.pop_front() {
                Some(sandbox) if sandbox.has_ended() => {}
                found => break found,
            }
        };
        drop(lane);
        self.changed.notify_waiters();
        found
    }

    /// Determines the next step that is necessary to fill the pool.
    fn next(&self) -> Next {
        let mut lane = self.state();
        if !lane.should_fill || lane.refill_error.is_some() {
            return Next::Nothing;
        }
        // The sandbox is removed from the queue while its interpreter starts, so that no request takes it too early.
        if let Some(index) = lane.first_without(self.interpreters())
            && let Some(sandbox) = lane.idle.remove(index)
        {
            return Next::Prepare(sandbox);
        }
        if lane.idle.len() < self.options.size { Next::Make } else { Next::Nothing }
    }

    /// Whether the pool lacks a sandbox or a pre-started interpreter, and should be filled.
    fn needs_refill(&self) -> bool {
        let lane = self.state();
        let few = lane.idle.len() < self.options.size;
        let wants = few || lane.first_without(self.interpreters()).is_some();
        lane.should_fill && lane.refill_error.is_none() && wants
    }

    /// Removes dead sandboxes from the queue and returns them.
    fn remove_dead(&self) -> VecDeque<Sandbox> {
        let mut lane = self.state();
        let (dead, alive) = lane.idle.drain(..).partition(Sandbox::has_ended);
        lane.idle = alive;
        dead
    }

    /// Whether there is enough memory for one more idle sandbox. Writes a log message when the result changes.
    fn has_memory(&self) -> bool {
        let needed =
            self.options.memory_reserve.saturating_add(self.creator.backend().idle_memory());
        let low = memory::available().is_some_and(|available| available < needed);
        let was_low = std::mem::replace(&mut self.state().low_memory, low);
        let isolation = self.creator.backend().isolation();
        match (was_low, low) {
            (false, true) => tracing::warn!(
                %isolation,
                needed_bytes = needed,
                "too little free memory, not refilling the warm pool"
            ),
            (true, false) => {
                tracing::info!(%isolation, "enough free memory again, refilling the warm pool")
            }
            _ => return !low,
        }
        self.changed.notify_waiters();
        !low
    }

    fn interpreters(&self) -> usize {
        self.creator.backend().max_prepared_interpreters()
    }
}

enum Next {
    Make,
    Prepare(Sandbox),
    Nothing,
}

impl Lane {
    fn alive(&self) -> usize {
        self.idle.iter().filter(|sandbox| !sandbox.has_ended()).count()
    }

    /// Ends all idle sandboxes if the clock was set or the machine was suspended. A microVM receives the time only when
    /// it starts, so the clock of an idle microVM would then be wrong.
    fn compare_clocks(&mut self) {
        let now = (Instant::now(), SystemTime::now());
        if clock_changed(std::mem::replace(&mut self.clocks, now), now) {
            tracing::info!(
                "the clock was set or the machine was suspended, replacing idle sandboxes"
            );
            self.idle.clear();
        }
    }

    /// Index of the first sandbox without a pre-started interpreter, among the first `interpreters` sandboxes of the
    /// queue.
    fn first_without(&self, interpreters: usize) -> Option<usize> {
        if self.without_interpreter {
            return None;
        }
        let first = self.idle.iter().take(interpreters);
        first.into_iter().position(|sandbox| !sandbox.is_prepared() && !sandbox.has_ended())
    }
}

fn clock_changed(before: Clocks, now: Clocks) -> bool {
    let expected = before.1 + now.0.duration_since(before.0);
    let off = expected.duration_since(now.1).unwrap_or_else(|error| error.duration());
    off > CLOCK_TOLERANCE
}

fn micros_since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jail::Jail;
    use crate::manager::SandboxManager;

    /// Creates the state of a pool without a refill task, and the manager and the temporary folder that the pool needs.
    async fn unfilled(options: PoolOptions) -> (Arc<Shared>, SandboxManager, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let backend = Arc::new(Jail::new(Vec::new()));
        let manager =
            SandboxManager::open(folder.path().join("makers"), backend, &[]).await.unwrap();
        let counters = Arc::default();
        let shared = Shared::new(manager.maker(), SandboxSpec::default(), options, counters);
        (Arc::new(shared), manager, folder)
    }

    #[tokio::test]
    async fn pool_does_not_return_a_dead_idle_sandbox() {
        let (shared, manager, _folder) = unfilled(PoolOptions::default()).await;
        let [dead, alive] =
            [manager.create(SandboxSpec::default()), manager.create(SandboxSpec::default())];
        let (dead, alive) = (dead.await.unwrap(), alive.await.unwrap());
        let id = alive.id().to_owned();
        dead.end().await;
        dead.ended().await;
        shared.state().idle.extend([dead, alive]);
        assert_eq!(shared.take().map(|sandbox| sandbox.id().to_owned()), Some(id));
        assert!(shared.take().is_none());
    }

    #[tokio::test]
    async fn idle_timeout_ends_sandboxes_even_when_memory_is_low() {
        let idle = Duration::from_millis(10);
        let (shared, manager, _folder) =
            unfilled(PoolOptions { size: 2, idle, memory_reserve: u64::MAX }).await;
        let sandbox = manager.create(SandboxSpec::default()).await.unwrap();
        let gone = sandbox.ended();
        shared.state().idle.push_back(sandbox);
        let stop = CancellationToken::new();
        let task = tokio::spawn(refill::keep_filled(Arc::clone(&shared), stop.clone()));
        gone.await;
        stop.cancel();
        task.await.unwrap();
        assert!(shared.state().low_memory && !shared.state().should_fill);
    }

    #[test]
    fn change_of_the_wall_clock_is_detected() {
        let before = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let after = |ran: u64, passed: i64| {
            let time = before.1.checked_add(Duration::from_secs(passed.unsigned_abs()));
            let earlier = before.1.checked_sub(Duration::from_secs(passed.unsigned_abs()));
            let time = if passed < 0 { earlier } else { time };
            (before.0 + Duration::from_secs(ran), time.unwrap())
        };
        assert!(!clock_changed(before, after(300, 300)));
        assert!(!clock_changed(before, after(300, 301)));
        // The machine was suspended for an hour; the wall clock was set back by a minute.
        assert!(clock_changed(before, after(5, 3605)));
        assert!(clock_changed(before, after(5, -60)));
    }
}

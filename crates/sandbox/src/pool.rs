//! Sandboxes that wait: built, an interpreter started in each or in the next to be taken, and nothing ever
//! run in them.
//!
//! One sandbox serves one execution and is thrown away, so nothing of one run is there in the next.
//! What is taken is replaced in the background; when nobody has taken any for a while they all go,
//! and the next to come starts cold.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::SandboxError;
use crate::manager::Maker;
use crate::sandbox::Sandbox;
use crate::spec::Spec;

/// A sandbox that was taken is replaced so much later: about as long as a short program runs.
const YIELD: Duration = Duration::from_millis(10);

/// A clock that is off by more was set, or stood still while this machine slept.
const OFF: Duration = Duration::from_secs(1);

/// How many sandboxes wait, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    pub size: usize,
    /// Nobody came for so long: none wait any more.
    pub idle: Duration,
}

impl Default for PoolOptions {
    fn default() -> PoolOptions {
        PoolOptions { size: 5, idle: Duration::from_secs(300) }
    }
}

/// How the pool has served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PoolMetrics {
    /// Taken from those that waited.
    pub hits: u64,
    /// Started on demand: none waited, or another kind was asked for.
    pub misses: u64,
    /// How many wait now.
    pub depth: usize,
    /// Whether as many wait as should.
    pub ready: bool,
    /// How long all who took one waited for it, together.
    pub wait_micros: u64,
}

impl PoolMetrics {
    /// The share of hits, if anything was taken.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more")]
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}

/// Keeps sandboxes of one kind waiting.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    maker: Arc<Maker>,
    spec: Spec,
    options: PoolOptions,
    lane: Mutex<Lane>,
    /// Something was taken, or came.
    changed: Notify,
    hits: AtomicU64,
    misses: AtomicU64,
    wait_micros: AtomicU64,
}

#[derive(Debug)]
struct Lane {
    waiting: VecDeque<Sandbox>,
    /// When one was taken last.
    used: Instant,
    /// Why the last that should have been made was not; not tried again before somebody asks.
    trouble: Option<SandboxError>,
    /// Whether there should be any.
    wanted: bool,
    /// There is none to wait.
    without_interpreter: bool,
    /// When both clocks were looked at last.
    clocks: Clocks,
}

/// The clock that only runs while this machine does, and the one that tells the time.
type Clocks = (Instant, SystemTime);

impl Shared {
    fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Begins at once to make sandboxes in the background.
    pub(crate) fn start(maker: Arc<Maker>, spec: Spec, options: PoolOptions) -> Pool {
        let lane = Lane {
            waiting: VecDeque::new(),
            used: Instant::now(),
            trouble: None,
            wanted: true,
            without_interpreter: false,
            clocks: (Instant::now(), SystemTime::now()),
        };
        let shared = Arc::new(Shared {
            maker,
            spec,
            options,
            lane: Mutex::new(lane),
            changed: Notify::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            wait_micros: AtomicU64::new(0),
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(keep_filled(Arc::clone(&shared), stop.clone()));
        Pool { shared, tasks, stop }
    }

    /// A sandbox in which nothing ever ran: one that waits, if it fits, and else a new one.
    ///
    /// # Errors
    /// When a new one is needed and cannot be made.
    pub async fn take(&self, spec: &Spec) -> Result<Sandbox, SandboxError> {
        let begun = Instant::now();
        let fits = spec.build() == self.shared.spec.build();
        let waiting = if fits { self.shared.take() } else { None };
        let (sandbox, counter) = match waiting {
            Some(sandbox) => (Ok(sandbox), &self.shared.hits),
            None => (self.shared.maker.make(spec.clone()).await, &self.shared.misses),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let waited = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.shared.wait_micros.fetch_add(waited, Ordering::Relaxed);
        sandbox
    }

    /// Throws a used sandbox away, in the background.
    pub fn discard(&self, sandbox: Sandbox) {
        self.tasks.spawn(async move { sandbox.end().await });
    }

    pub fn metrics(&self) -> PoolMetrics {
        let alive = |sandbox: &&Sandbox| !sandbox.is_gone();
        let depth = self.shared.lane().waiting.iter().filter(alive).count();
        PoolMetrics {
            hits: self.shared.hits.load(Ordering::Relaxed),
            misses: self.shared.misses.load(Ordering::Relaxed),
            depth,
            ready: depth >= self.shared.options.size,
            wait_micros: self.shared.wait_micros.load(Ordering::Relaxed),
        }
    }

    /// Waits until as many wait as should.
    ///
    /// # Errors
    /// When they cannot be made.
    pub async fn ready(&self) -> Result<(), SandboxError> {
        {
            // Whoever waits for them wants them.
            let mut lane = self.shared.lane();
            lane.wanted = true;
            lane.used = Instant::now();
        }
        self.shared.changed.notify_waiters();
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                if self.stop.is_cancelled() {
                    return Err(SandboxError::Broke("the pool is closed".to_owned()));
                }
                let lane = self.shared.lane();
                let wants_interpreter = lane.first_without(self.shared.interpreters()).is_some();
                if lane.waiting.len() >= self.shared.options.size && !wants_interpreter {
                    return Ok(());
                }
                if let Some(trouble) = &lane.trouble {
                    return Err(trouble.clone());
                }
            }
            changed.await;
        }
    }

    /// Ends all that wait, and all that is under way.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let waiting = std::mem::take(&mut self.shared.lane().waiting);
        for sandbox in waiting {
            sandbox.end().await;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    /// One that waits and is still there.
    fn take(&self) -> Option<Sandbox> {
        let mut lane = self.lane();
        lane.used = Instant::now();
        lane.wanted = true;
        lane.trouble = None;
        lane.look_at_the_clocks();
        let found = loop {
            match lane.waiting.pop_front() {
                Some(sandbox) if sandbox.is_gone() => {}
                found => break found,
            }
        };
        drop(lane);
        self.changed.notify_waiters();
        found
    }

    fn lacks(&self) -> bool {
        let lane = self.lane();
        let few = lane.waiting.len() < self.options.size;
        let wants = few || lane.first_without(self.interpreters()).is_some();
        lane.wanted && lane.trouble.is_none() && wants
    }

    /// What is to be done next for those who will come.
    fn next(&self) -> Next {
        let mut lane = self.lane();
        if !lane.wanted || lane.trouble.is_some() {
            return Next::Nothing;
        }
        // Taken out of the line meanwhile, so that nobody takes it half prepared.
        if let Some(index) = lane.first_without(self.interpreters())
            && let Some(sandbox) = lane.waiting.remove(index)
        {
            return Next::Prepare(sandbox);
        }
        if lane.waiting.len() < self.options.size { Next::Make } else { Next::Nothing }
    }

    fn interpreters(&self) -> usize {
        self.maker.backend().waiting_interpreters()
    }
}

enum Next {
    Make,
    Prepare(Sandbox),
    Nothing,
}

impl Lane {
    /// A machine that waits was told the time when it was made, and would tell a wrong one.
    fn look_at_the_clocks(&mut self) {
        let now = (Instant::now(), SystemTime::now());
        if is_off(std::mem::replace(&mut self.clocks, now), now) {
            tracing::info!("the clock has moved: sandboxes that waited are made anew");
            self.waiting.clear();
        }
    }

    /// The first in the line, among so many, in which an interpreter should wait and none does.
    fn first_without(&self, interpreters: usize) -> Option<usize> {
        if self.without_interpreter {
            return None;
        }
        let first = self.waiting.iter().take(interpreters);
        first.into_iter().position(|sandbox| !sandbox.is_prepared() && !sandbox.is_gone())
    }
}

fn is_off(before: Clocks, now: Clocks) -> bool {
    let expected = before.1 + now.0.duration_since(before.0);
    let off = expected.duration_since(now.1).unwrap_or_else(|error| error.duration());
    off > OFF
}

/// Makes one after the other while some are missing, and lets all go when nobody comes.
async fn keep_filled(shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let changed = shared.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let used = shared.lane().used;
        if shared.lacks() {
            tokio::select! {
                () = stop.cancelled() => return,
                // Whoever just took one goes first.
                () = tokio::time::sleep_until((used + YIELD).into()) => {}
            }
            let next = shared.next();
            let done = async {
                match next {
                    Next::Prepare(sandbox) => Some((prepare(&shared, sandbox).await, true)),
                    Next::Make => Some((make_waiting(&shared).await, false)),
                    Next::Nothing => None,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                done = done => {
                    if let Some((made, to_the_front)) = done {
                        add(&shared, made, to_the_front);
                    }
                }
            }
            continue;
        }
        let idle = used + shared.options.idle;
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed => {}
            () = tokio::time::sleep_until(idle.into()) => shrink(&shared, &stop).await,
        }
    }
}

async fn make_waiting(shared: &Shared) -> Result<Sandbox, SandboxError> {
    let sandbox = shared.maker.make(shared.spec.clone()).await?;
    let prepared = {
        let lane = shared.lane();
        lane.without_interpreter || lane.waiting.len() >= shared.interpreters()
    };
    if prepared { Ok(sandbox) } else { prepare(shared, sandbox).await }
}

async fn prepare(shared: &Shared, sandbox: Sandbox) -> Result<Sandbox, SandboxError> {
    match sandbox.prepare().await {
        Ok(()) => Ok(sandbox),
        // Without Python it still saves the building of the walls.
        Err(SandboxError::NoInterpreter(..)) => {
            shared.lane().without_interpreter = true;
            Ok(sandbox)
        }
        Err(error) => {
            sandbox.end().await;
            Err(error)
        }
    }
}

fn add(shared: &Shared, made: Result<Sandbox, SandboxError>, to_the_front: bool) {
    let mut lane = shared.lane();
    lane.look_at_the_clocks();
    match made {
        Ok(sandbox) => {
            if to_the_front {
                lane.waiting.push_front(sandbox);
            } else {
                lane.waiting.push_back(sandbox);
            }
            // However long it took, whoever waits for it is given time to come.
            lane.used = Instant::now();
        }
        Err(error) => {
            tracing::warn!(%error, "no sandbox could be made to wait");
            lane.trouble = Some(error);
        }
    }
    drop(lane);
    shared.changed.notify_waiters();
}

/// Scales to zero, unless somebody came just now.
async fn shrink(shared: &Shared, stop: &CancellationToken) {
    let waiting = {
        let mut lane = shared.lane();
        if lane.used.elapsed() < shared.options.idle {
            return;
        }
        lane.wanted = false;
        std::mem::take(&mut lane.waiting)
    };
    for sandbox in waiting {
        sandbox.end().await;
    }
    // Until somebody comes.
    tokio::select! {
        () = stop.cancelled() => {}
        () = wanted_again(shared) => {}
    }
}

async fn wanted_again(shared: &Shared) {
    loop {
        let changed = shared.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if shared.lane().wanted {
            return;
        }
        changed.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_moved_is_noticed() {
        let before = (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        let after = |ran: u64, passed: i64| {
            let time = before.1.checked_add(Duration::from_secs(passed.unsigned_abs()));
            let earlier = before.1.checked_sub(Duration::from_secs(passed.unsigned_abs()));
            let time = if passed < 0 { earlier } else { time };
            (before.0 + Duration::from_secs(ran), time.unwrap())
        };
        assert!(!is_off(before, after(300, 300)));
        assert!(!is_off(before, after(300, 301)));
        // It slept for an hour, or was set.
        assert!(is_off(before, after(5, 3605)));
        assert!(is_off(before, after(5, -60)));
    }
}

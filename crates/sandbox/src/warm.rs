//! Warm pools of a long-running process, shared by all its runs and requests.
//!
//! There is one [`SandboxPool`] for each backend and shape of sandbox (image, layers and limits). The pool of the
//! default shape is opened by the first request to its backend, or earlier by [`WarmPools::start`]. Pools of other
//! shapes are opened only for runs, which need several sandboxes each, and the number of these pools is limited. A
//! request whose shape has no pool counts as a miss.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use assize_config::Isolation;
use tokio_util::task::TaskTracker;

use crate::error::SandboxError;
use crate::manager::SandboxManager;
use crate::pool::{PoolCounters, PoolMetrics, PoolOptions, SandboxPool};
use crate::sandbox::Sandbox;
use crate::spec::SandboxSpec;

/// Maximum number of open pools whose sandboxes have a different shape (image, layers and limits) than the default
/// sandboxes. Before one more such pool is opened, the least recently used one is closed.
const MAX_OTHER_SHAPES: usize = 4;

/// Maximum number of idle sandboxes in a pool whose sandboxes have a different shape (image, layers and limits) than
/// the default sandboxes.
const OTHER_SHAPE_SIZE: usize = 2;

/// All warm pools of this process.
#[derive(Debug)]
pub struct WarmPools {
    /// Spec of the default sandboxes. Sandboxes with its image, layers and limits have the default shape.
    spec: SandboxSpec,
    /// Options of the pools of default sandboxes, such as the number of idle sandboxes.
    options: PoolOptions,
    state: Mutex<State>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    /// Counters by backend. They include closed pools and requests without a pool.
    counters: BTreeMap<Isolation, Arc<PoolCounters>>,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    manager: Arc<SandboxManager>,
    spec: SandboxSpec,
    pool: Arc<SandboxPool>,
    is_default: bool,
    used: Instant,
}

impl Entry {
    fn is_of(&self, manager: &Arc<SandboxManager>, spec: &SandboxSpec) -> bool {
        Arc::ptr_eq(&self.manager, manager) && self.spec.shape() == spec.shape()
    }
}

impl WarmPools {
    /// Creates warm pools. `spec` is the spec of default sandboxes, and `options` are the options of their pools.
    pub fn new(spec: SandboxSpec, options: PoolOptions) -> WarmPools {
        WarmPools { spec, options, state: Mutex::default(), tasks: TaskTracker::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the pool of the default shape and disables its idle timeout.
    pub fn start(&self, manager: &Arc<SandboxManager>) -> Arc<SandboxPool> {
        let pool = self.for_run(manager, &self.spec);
        pool.disable_idle_timeout();
        pool
    }

    /// Returns the pool for a run whose sandboxes have this spec, and opens the pool if necessary.
    pub fn for_run(&self, manager: &Arc<SandboxManager>, spec: &SandboxSpec) -> Arc<SandboxPool> {
        let mut state = self.state();
        if let Some(entry) = state.entries.iter_mut().find(|entry| entry.is_of(manager, spec)) {
            entry.used = Instant::now();
            return Arc::clone(&entry.pool);
        }
        let is_default = spec.shape() == self.spec.shape();
        let size = match (state.closed, is_default) {
            (true, _) => 0,
            (false, true) => self.options.size,
            (false, false) => self.options.size.min(OTHER_SHAPE_SIZE),
        };
        let (spec, options) = (spec.unlabelled(), PoolOptions { size, ..self.options.clone() });
        let counters = Arc::clone(state.counters.entry(manager.isolation()).or_default());
        let pool = Arc::new(manager.pool_with(spec.clone(), options, counters));
        let (manager, used) = (Arc::clone(manager), Instant::now());
        if !is_default {
            self.make_room(&mut state);
        }
        let entry = Entry { manager, spec, pool: Arc::clone(&pool), is_default, used };
        state.entries.push(entry);
        pool
    }

    /// Closes the least recently used pool of a non-default shape if [`MAX_OTHER_SHAPES`] such pools are open.
    fn make_room(&self, state: &mut State) {
        let others = state.entries.iter().filter(|entry| !entry.is_default);
        if others.count() < MAX_OTHER_SHAPES {
            return;
        }
        let others = state.entries.iter().enumerate().filter(|(_, entry)| !entry.is_default);
        if let Some((index, _)) = others.min_by_key(|(_, entry)| entry.used) {
            let entry = state.entries.swap_remove(index);
            self.tasks.spawn(async move { entry.pool.close().await });
        }
    }

    /// Returns the pool that serves requests with this spec, if there is one.
    pub fn for_request(
        &self,
        manager: &Arc<SandboxManager>,
        spec: &SandboxSpec,
    ) -> Option<Arc<SandboxPool>> {
        if spec.shape() == self.spec.shape() {
            return Some(self.for_run(manager, &self.spec));
        }
        let mut state = self.state();
        let entry = state.entries.iter_mut().find(|entry| entry.is_of(manager, spec))?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.pool))
    }

    /// Counts a miss: a request whose sandbox is created outside of all pools.
    pub fn count_miss(&self, isolation: Isolation) {
        self.state().counters.entry(isolation).or_default().count_miss();
    }

    /// Takes an idle sandbox for one request, or creates a new sandbox.
    pub async fn take(
        &self,
        manager: &Arc<SandboxManager>,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, SandboxError> {
        match self.for_request(manager, spec) {
            Some(pool) => pool.take(spec).await,
            None => {
                self.count_miss(manager.isolation());
                manager.create(spec.clone()).await
            }
        }
    }

    /// Ends a used sandbox in the background.
    pub fn discard(&self, sandbox: Sandbox) {
        self.tasks.spawn(async move { sandbox.end().await });
    }

    /// Metrics of each backend, summed over its pools.
    pub fn metrics(&self) -> BTreeMap<Isolation, PoolMetrics> {
        let state = self.state();
        let counted = state.counters.iter();
        let mut all: BTreeMap<Isolation, PoolMetrics> =
            counted.map(|(isolation, counters)| (*isolation, counters.metrics())).collect();
        for entry in &state.entries {
            all.entry(entry.manager.isolation()).or_default().add_idle(&entry.pool);
        }
        all
    }

    /// Ends all idle sandboxes and waits until all discarded sandboxes have ended. Every later request is a miss.
    pub async fn close(&self) {
        let pools: Vec<Arc<SandboxPool>> = {
            let mut state = self.state();
            state.closed = true;
            state.entries.iter().map(|entry| Arc::clone(&entry.pool)).collect()
        };
        futures_util::future::join_all(pools.iter().map(|pool| pool.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

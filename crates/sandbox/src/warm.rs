//! Warm pools of a long-running process, shared by everything that runs in it.
//!
//! There is one [`Pool`] for each backend and shape of sandbox. The pool of the default shape opens with the
//! first request to its backend, or before ([`WarmPools::start`]); pools of other shapes open for runs, which
//! take several sandboxes each, and their number is bounded. A request whose shape has no pool is a miss.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use assize_config::Isolation;
use tokio_util::task::TaskTracker;

use crate::error::SandboxError;
use crate::manager::Manager;
use crate::pool::{Pool, PoolCounters, PoolMetrics, PoolOptions};
use crate::sandbox::Sandbox;
use crate::spec::Spec;

/// Pools of other shapes than the default that are open at once; the one that was used least recently goes.
const MAX_OTHER_SHAPES: usize = 4;

/// Idle sandboxes of such a pool.
const OTHER_SHAPE_SIZE: usize = 2;

/// All warm pools of this process.
#[derive(Debug)]
pub struct WarmPools {
    /// The default shape, and the pool of it.
    spec: Spec,
    options: PoolOptions,
    state: Mutex<State>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    /// Counters of all pools of a backend, open or closed, and of requests that had none.
    counters: BTreeMap<Isolation, Arc<PoolCounters>>,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    manager: Arc<Manager>,
    spec: Spec,
    pool: Arc<Pool>,
    is_default: bool,
    used: Instant,
}

impl Entry {
    fn is_of(&self, manager: &Arc<Manager>, spec: &Spec) -> bool {
        Arc::ptr_eq(&self.manager, manager) && self.spec.shape() == spec.shape()
    }
}

impl WarmPools {
    /// Pools of which those of the default shape, which is that of this spec, have these options.
    pub fn new(spec: Spec, options: PoolOptions) -> WarmPools {
        WarmPools { spec, options, state: Mutex::default(), tasks: TaskTracker::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the pool of the default shape, which keeps its idle sandboxes however long no request comes.
    pub fn start(&self, manager: &Arc<Manager>) -> Arc<Pool> {
        let pool = self.for_run(manager, &self.spec);
        pool.stay();
        pool
    }

    /// The pool for a run that takes sandboxes of this spec.
    pub fn for_run(&self, manager: &Arc<Manager>, spec: &Spec) -> Arc<Pool> {
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
        let size = manager.backend().pool_size(size);
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

    /// Closes the pool of another shape that was used least recently, if there are as many as may be.
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

    /// The pool that serves requests of this spec, if there is one.
    pub fn for_request(&self, manager: &Arc<Manager>, spec: &Spec) -> Option<Arc<Pool>> {
        if spec.shape() == self.spec.shape() {
            return Some(self.for_run(manager, &self.spec));
        }
        let mut state = self.state();
        let entry = state.entries.iter_mut().find(|entry| entry.is_of(manager, spec))?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.pool))
    }

    /// Counts a request whose sandbox is made outside of all pools.
    pub fn count_miss(&self, isolation: Isolation) {
        self.state().counters.entry(isolation).or_default().count_miss();
    }

    /// A sandbox for one request: idle until now, or made for it.
    pub async fn take(&self, manager: &Arc<Manager>, spec: &Spec) -> Result<Sandbox, SandboxError> {
        match self.for_request(manager, spec) {
            Some(pool) => pool.take(spec).await,
            None => {
                self.count_miss(manager.isolation());
                manager.make(spec.clone()).await
            }
        }
    }

    /// Ends a used sandbox in the background.
    pub fn discard(&self, sandbox: Sandbox) {
        self.tasks.spawn(async move { sandbox.end().await });
    }

    /// The pools of each backend together.
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

    /// Ends all idle sandboxes, and waits for those that are being ended. From then on every request is a miss.
    pub async fn close(&self) {
        let pools: Vec<Arc<Pool>> = {
            let mut state = self.state();
            state.closed = true;
            state.entries.iter().map(|entry| Arc::clone(&entry.pool)).collect()
        };
        futures_util::future::join_all(pools.iter().map(|pool| pool.close())).await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

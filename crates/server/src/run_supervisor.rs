//! Run supervisor: starts, counts, cancels and pauses the runs that this server process executes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use assize_run::{
    AnyTrial, BudgetLedger, BudgetTotals, LeaseHolder, LiveOutput, ResumeRequest, Role, Run,
    RunFilter, RunId, RunInput, RunKind, RunStatus, Store, StoreError, record_panic, release,
};
use assize_service::{PARALLEL, Services};
use assize_types::{Cancel, CancelReason, FailureKind};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::problem::Problem;

/// Run that this server process is executing.
struct ActiveRun {
    cancel: Cancel,
    ledger: Arc<dyn BudgetLedger>,
    live: Option<Arc<LiveOutput>>,
}

#[derive(Default)]
struct State {
    active: BTreeMap<RunId, ActiveRun>,
    /// Number of execution slots that are reserved for runs about to start.
    starting: usize,
    /// Runs that are about to be resumed.
    resuming: BTreeSet<RunId>,
    /// Total usage of the runs that have ended in this process.
    finished_totals: BudgetTotals,
    started: BTreeMap<RunKind, u64>,
    ended: BTreeMap<(RunKind, &'static str), u64>,
    closed: bool,
}

/// Run supervisor: executes runs up to a concurrency limit, and counts the ended runs by their outcome.
pub(crate) struct RunSupervisor {
    max_running: usize,
    store: Arc<dyn Store>,
    state: Mutex<State>,
    tasks: TaskTracker,
}

impl std::fmt::Debug for RunSupervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunSupervisor").finish_non_exhaustive()
    }
}

/// Reservation of one execution slot. Dropping the value releases the slot.
pub(crate) struct RunSlot {
    supervisor: Arc<RunSupervisor>,
    /// Id of the run to resume; `None` for a new run.
    run: Option<RunId>,
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let mut state = self.supervisor.state.lock();
        state.starting -= 1;
        if let Some(run) = &self.run {
            state.resuming.remove(run);
        }
    }
}

/// Counters of the run supervisor, for `/metrics` and `/api/about`.
#[derive(Debug, Default)]
pub(crate) struct RunMetrics {
    pub(crate) running: usize,
    pub(crate) totals: BudgetTotals,
    pub(crate) begun: BTreeMap<RunKind, u64>,
    pub(crate) ended: BTreeMap<(RunKind, &'static str), u64>,
}

impl RunSupervisor {
    pub(crate) fn new(max_running: usize, store: Arc<dyn Store>) -> RunSupervisor {
        RunSupervisor { max_running, store, state: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// Reserves an execution slot for a new run, or for resuming `run`. Fails if the server is stopping, if no slot is
    /// free, or if this server already executes `run`.
    pub(crate) fn reserve_slot(self: &Arc<Self>, run: Option<&RunId>) -> Result<RunSlot, Problem> {
        use axum::http::StatusCode;
        let mut state = self.state.lock();
        if state.closed {
            let detail = "the server is stopping and starts no more runs or programs";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        if state.active.len() + state.starting >= self.max_running {
            let detail = format!("the limit of {} concurrent runs is reached", self.max_running);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            let hint = "wait until a run ends, or raise the setting `serve.max_running`";
            return Err(problem.hint(hint));
        }
        if let Some(run) = run
            && (state.active.contains_key(run) || !state.resuming.insert(run.clone()))
        {
            let detail = format!("the run `{run}` is already running on this server");
            return Err(Problem::conflict(detail));
        }
        state.starting += 1;
        Ok(RunSlot { supervisor: self.clone(), run: run.cloned() })
    }

    /// Executes a run to its end in a background task. The run continues even if the client that started it
    /// disconnects.
    pub(crate) fn execute_in_background(
        self: &Arc<Self>,
        mut trial: Box<dyn AnyTrial>,
        slot: RunSlot,
    ) -> Run {
        let run = trial.run().clone();
        let (id, kind, epoch) = (run.id.clone(), run.kind, run.epoch);
        let cancel = Cancel::new();
        let (ledger, live) = (trial.ledger(), trial.live_output().cloned());
        {
            let mut state = self.state.lock();
            // The server may have begun to stop since the slot was reserved.
            if state.closed {
                cancel.cancel(CancelReason::ShuttingDown);
            }
            let active = ActiveRun { cancel: cancel.clone(), ledger, live };
            state.active.insert(id.clone(), active);
            *state.started.entry(kind).or_default() += 1;
        }
        drop(slot);
        let supervisor = self.clone();
        self.tasks.spawn(async move {
            // A panic ends only this run. It is recorded as the failure of the run.
            let execution = std::panic::AssertUnwindSafe(trial.execute(cancel));
            let ended = futures_util::FutureExt::catch_unwind(execution).await;
            let how = match ended {
                Ok(Ok(())) => "done",
                Ok(Err(run_failure)) if run_failure.is_paused => "paused",
                Ok(Err(run_failure)) if run_failure.failure.kind == FailureKind::Interrupted => {
                    "cancelled"
                }
                Ok(Err(run_failure)) => {
                    tracing::info!(run = %id, why = run_failure.failure.message(), "run failed");
                    "failed"
                }
                Err(_) => {
                    record_panic(&*supervisor.store, &id).await;
                    "failed"
                }
            };
            release(&*supervisor.store, &id, epoch).await;
            let mut state = supervisor.state.lock();
            if let Some(active) = state.active.remove(&id) {
                state.finished_totals += &active.ledger.totals();
            }
            *state.ended.entry((kind, how)).or_default() += 1;
        });
        run
    }

    /// Spawns a task that completes even if the client of the request disconnects. A stopping server waits until the
    /// task has ended.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Whether this server executes the run, or is about to resume it.
    pub(crate) fn is_active(&self, id: &RunId) -> bool {
        let state = self.state.lock();
        state.active.contains_key(id) || state.resuming.contains(id)
    }

    /// Live output of the programs of a run that this server executes.
    pub(crate) fn live(&self, id: &RunId) -> Option<Arc<LiveOutput>> {
        self.state.lock().active.get(id)?.live.clone()
    }

    /// Cancels a run that this server executes; returns false if this server does not execute the run.
    pub(crate) fn cancel(&self, id: &RunId) -> bool {
        let state = self.state.lock();
        let active = state.active.get(id);
        active.inspect(|active| active.cancel.cancel(CancelReason::CancelledByUser)).is_some()
    }

    /// Maximum number of runs that this server executes at once.
    pub(crate) fn max_running(&self) -> usize {
        self.max_running
    }

    pub(crate) fn figures(&self) -> RunMetrics {
        let state = self.state.lock();
        let mut totals = state.finished_totals;
        for active in state.active.values() {
            totals += &active.ledger.totals();
        }
        RunMetrics {
            running: state.active.len(),
            totals,
            begun: state.started.clone(),
            ended: state.ended.clone(),
        }
    }

    /// Resumes the runs that were unfinished when an earlier server process stopped or was killed. Returns the number
    /// of resumed runs.
    ///
    /// `alone` means that no other server process used this store when this server started.
    pub(crate) async fn resume_unfinished(
        self: &Arc<Self>,
        services: &Services,
        roots: &[&Path],
        alone: bool,
    ) -> Result<usize, StoreError> {
        let running = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let mut count = 0;
        // The store returns the newest runs first. Resume the oldest runs first.
        for run in self.store.runs(running).await?.into_iter().rev() {
            // If a cluster node executed the run, the cluster resumes it.
            let ours = LeaseHolder::last(&run)
                .is_some_and(|last| last.role == Role::Server && last.node.is_none());
            let holder = LeaseHolder::of(&run);
            // This process cannot check whether a lease holder on another host or in another container is alive. If
            // `alone` is true, that holder is not alive, because no other server uses the store.
            let orphaned = holder.as_ref().is_none_or(|holder| alone && holder.is_elsewhere());
            if !ours || !orphaned {
                continue;
            }
            if let Err(why) = check_workspace_allowed(&run, roots) {
                services.reporter.warn(&format!("cannot resume `{}`: {why}", run.id));
                continue;
            }
            // Reserve the slot without `reserve_slot`, which would check the concurrency limit: the run passed that
            // check when it was started.
            self.state.lock().starting += 1;
            let slot = RunSlot { supervisor: self.clone(), run: None };
            let request = ResumeRequest { run: run.id.to_string(), take_over: holder.is_some() };
            match services.resume(&request, &self.store, PARALLEL).await {
                Ok(trial) => {
                    self.execute_in_background(trial, slot);
                    count += 1;
                }
                Err(failure) => {
                    let why = failure.message();
                    services.reporter.warn(&format!("cannot resume `{}`: {why}", run.id));
                }
            }
        }
        Ok(count)
    }

    /// Pauses all runs and waits until all spawned tasks end. The next server process resumes the paused runs.
    pub(crate) async fn close(&self) {
        {
            let mut state = self.state.lock();
            state.closed = true;
            state
                .active
                .values()
                .for_each(|active| active.cancel.cancel(CancelReason::ShuttingDown));
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Checks that the operator allowed the workspace of a run with `assize serve --root`. A run without a workspace is
/// always allowed.
pub(crate) fn check_workspace_allowed(run: &Run, roots: &[&Path]) -> Result<(), &'static str> {
    let workspace = RunInput::of(run).unwrap_or_default().workspace;
    match workspace.is_none_or(|workspace| roots.contains(&&*workspace)) {
        true => Ok(()),
        false => Err("the workspace of the run is not a folder that `assize serve --root` allows"),
    }
}

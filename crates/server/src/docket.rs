//! The trials that are being held here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use assize_run::{
    AnyTrial, LeaseHolder, Ledger, LiveOutput, ResumeRequest, Role, Run, RunFilter, RunId,
    RunInput, RunKind, RunStatus, Store, StoreError, Totals, record_panic, release,
};
use assize_service::{PARALLEL, Services};
use assize_types::{Cancel, CancelReason, FailureKind};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::problem::Problem;

struct Held {
    cancel: Cancel,
    ledger: Arc<dyn Ledger>,
    live: Option<Arc<LiveOutput>>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<RunId, Held>,
    /// Trials that are about to begin.
    opening: usize,
    /// Runs that are about to be taken up again.
    taking_up: BTreeSet<RunId>,
    /// What those took that are over.
    over: Totals,
    begun: BTreeMap<RunKind, u64>,
    ended: BTreeMap<(RunKind, &'static str), u64>,
    closed: bool,
}

/// The trials that are being held here, and what became of those that were.
pub(crate) struct Docket {
    most: usize,
    store: Arc<dyn Store>,
    state: Mutex<State>,
    tasks: TaskTracker,
}

impl std::fmt::Debug for Docket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Docket").finish_non_exhaustive()
    }
}

/// A place on the docket for a trial that is about to begin.
pub(crate) struct Place {
    docket: Arc<Docket>,
    /// The run that is taken up again, if it is one.
    run: Option<RunId>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.docket.state.lock();
        state.opening -= 1;
        if let Some(run) = &self.run {
            state.taking_up.remove(run);
        }
    }
}

/// Figures for those who look after the server.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) running: usize,
    pub(crate) totals: Totals,
    pub(crate) begun: BTreeMap<RunKind, u64>,
    pub(crate) ended: BTreeMap<(RunKind, &'static str), u64>,
}

impl Docket {
    pub(crate) fn new(most: usize, store: Arc<dyn Store>) -> Docket {
        Docket { most, store, state: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// A place for one more, if there is one; for a run only if it has none yet.
    pub(crate) fn place(self: &Arc<Self>, run: Option<&RunId>) -> Result<Place, Problem> {
        use axum::http::StatusCode;
        let mut state = self.state.lock();
        if state.closed {
            let detail = "the server is stopping";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        if state.held.len() + state.opening >= self.most {
            let detail = format!("{} trials are being held, which is as many as may be", self.most);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            return Err(problem.hint("wait for one of them, or raise `serve.most_running`"));
        }
        if let Some(run) = run
            && (state.held.contains_key(run) || !state.taking_up.insert(run.clone()))
        {
            return Err(Problem::conflict(format!("`{run}` is under way here")));
        }
        state.opening += 1;
        Ok(Place { docket: self.clone(), run: run.cloned() })
    }

    /// Holds a trial to its end, whoever still waits for it.
    pub(crate) fn enter(self: &Arc<Self>, mut trial: Box<dyn AnyTrial>, place: Place) -> Run {
        let run = trial.run().clone();
        let (id, kind, life) = (run.id.clone(), run.kind, run.epoch);
        let cancel = Cancel::new();
        let (ledger, live) = (trial.ledger(), trial.live_output().cloned());
        {
            let mut state = self.state.lock();
            // The server began to stop in the meantime.
            if state.closed {
                cancel.cancel(CancelReason::Paused);
            }
            let held = Held { cancel: cancel.clone(), ledger, live };
            state.held.insert(id.clone(), held);
            *state.begun.entry(kind).or_default() += 1;
        }
        drop(place);
        let docket = self.clone();
        self.tasks.spawn(async move {
            // A fault of ours ends the one trial, and is written down.
            let held = std::panic::AssertUnwindSafe(trial.execute(cancel));
            let ended = futures_util::FutureExt::catch_unwind(held).await;
            let how = match ended {
                Ok(Ok(())) => "done",
                Ok(Err(broke)) if broke.is_paused => "paused",
                Ok(Err(broke)) if broke.failure.kind == FailureKind::Interrupted => "cancelled",
                Ok(Err(broke)) => {
                    tracing::info!(run = %id, why = broke.failure.message(), "run ended early");
                    "failed"
                }
                Err(_) => {
                    record_panic(&*docket.store, &id).await;
                    "failed"
                }
            };
            release(&*docket.store, &id, life).await;
            let mut state = docket.state.lock();
            if let Some(held) = state.held.remove(&id) {
                state.over += &held.ledger.totals();
            }
            *state.ended.entry((kind, how)).or_default() += 1;
        });
        run
    }

    /// Begins something that goes on though nobody waits for it any more.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Whether it is being held here.
    pub(crate) fn holds(&self, id: &RunId) -> bool {
        let state = self.state.lock();
        state.held.contains_key(id) || state.taking_up.contains(id)
    }

    /// What the programs of a trial write while they run, if it is being held here.
    pub(crate) fn live(&self, id: &RunId) -> Option<Arc<LiveOutput>> {
        self.state.lock().held.get(id)?.live.clone()
    }

    /// Stops a trial; whether it was being held here.
    pub(crate) fn cancel(&self, id: &RunId) -> bool {
        let state = self.state.lock();
        let held = state.held.get(id);
        held.inspect(|held| held.cancel.cancel(CancelReason::Stopped)).is_some()
    }

    /// The most trials that are held at once.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn figures(&self) -> Figures {
        let state = self.state.lock();
        let mut totals = state.over;
        for held in state.held.values() {
            totals += &held.ledger.totals();
        }
        Figures {
            running: state.held.len(),
            totals,
            begun: state.begun.clone(),
            ended: state.ended.clone(),
        }
    }

    /// Goes on with what a server began here that is gone.
    ///
    /// `alone` says that no other server was at work on this store when this one began.
    pub(crate) async fn go_on(
        self: &Arc<Self>,
        services: &Services,
        roots: &[&Path],
        alone: bool,
    ) -> Result<usize, StoreError> {
        let running = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let mut count = 0;
        // The earliest first.
        for run in self.store.runs(running).await?.into_iter().rev() {
            // What others hold in a cluster is none of ours.
            let ours = LeaseHolder::last(&run)
                .is_some_and(|last| last.role == Role::Server && last.node.is_none());
            let held = LeaseHolder::of(&run);
            // Of a process elsewhere nobody knows whether it lives, but that no server does.
            let left = held.as_ref().is_none_or(|holder| alone && holder.is_elsewhere());
            if !ours || !left {
                continue;
            }
            if let Err(why) = allowed(&run, roots) {
                services.reporter.warn(&format!("`{}` cannot go on: {why}", run.id));
                continue;
            }
            // They were all let in once.
            self.state.lock().opening += 1;
            let place = Place { docket: self.clone(), run: None };
            let again = ResumeRequest { run: run.id.to_string(), take_over: held.is_some() };
            match services.resume(&again, &self.store, PARALLEL).await {
                Ok(trial) => {
                    self.enter(trial, place);
                    count += 1;
                }
                Err(failure) => {
                    let why = failure.message();
                    services.reporter.warn(&format!("`{}` cannot go on: {why}", run.id));
                }
            }
        }
        Ok(count)
    }

    /// Has all trials stop where they are, to go on later.
    pub(crate) async fn close(&self) {
        {
            let mut state = self.state.lock();
            state.closed = true;
            state.held.values().for_each(|held| held.cancel.cancel(CancelReason::Paused));
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Whether the files that a run changes are in a folder that whoever runs the server has allowed.
pub(crate) fn allowed(run: &Run, roots: &[&Path]) -> Result<(), &'static str> {
    let workspace = RunInput::of(run).unwrap_or_default().workspace;
    match workspace.is_none_or(|workspace| roots.contains(&&*workspace)) {
        true => Ok(()),
        false => Err("its workspace is no folder that was allowed on this server"),
    }
}

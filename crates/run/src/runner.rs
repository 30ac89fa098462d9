//! Runner: creates, claims, resumes, forks, executes and finishes runs of every kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_graph::{Fork, Journal, Observer, Record, RunOptions};
use assize_llm::{Caps, Ledger, Totals};
use assize_types::{Cancel, Failure, FailureKind, Reporter};
use async_trait::async_trait;

use crate::completion::{self, Finished, RunFailure};
use crate::error::StoreError;
use crate::input::RunInput;
use crate::job::{Execution, Job, Origin, Plan};
use crate::journal::RunJournal;
use crate::kind::RunKind;
use crate::lease::{LeaseHolder, Role};
use crate::ledger::{RunLedger, SpentBefore, progress};
use crate::output::LiveOutput;
use crate::remote::RemoteRun;
use crate::run::{IdempotencyKey, Lease, NewRun, Run};
use crate::state::{find, refuse_if_held};
use crate::store::Store;

/// Where runs are executed.
#[derive(Debug, Clone)]
pub enum Placement {
    /// In this process; in a worker, as this node of its cluster.
    Local { node: Option<String> },
    /// By a worker of the cluster.
    Cluster(Arc<dyn Dispatch>),
}

/// Hands runs to the workers of a cluster.
#[async_trait]
pub trait Dispatch: std::fmt::Debug + Send + Sync {
    /// Puts a run on the queue, once in each of its epochs.
    async fn enqueue(&self, run: &Run) -> Result<(), StoreError>;

    /// This process among the nodes of the cluster.
    fn node(&self) -> &str;

    /// The servers of the cluster, as `--cluster` takes them.
    fn servers(&self) -> String;
}

/// An earlier run that is to be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumeRequest {
    /// Its name, or a beginning of it.
    pub run: String,
    /// Even if another process holds its lease, or may.
    pub take_over: bool,
}

/// Starts runs: in one store, at one placement, with one budget.
#[derive(Debug, Clone)]
pub struct Runner {
    pub store: Arc<dyn Store>,
    pub placement: Placement,
    pub role: Role,
    pub reporter: Arc<dyn Reporter>,
    /// Budget of a run; of a resumed one the budget that it was started with, as far as none is set here.
    pub budget: Caps,
    /// Key under which a client asked for the run.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Labels that a worker must have to take the run.
    pub labels: BTreeMap<String, String>,
    /// Settings that were asked for now, and hold in the cluster until the run ends.
    pub overrides: BTreeMap<String, String>,
}

impl Runner {
    /// Finds the run of a kind that is to be resumed.
    pub async fn resumable(
        &self,
        request: &ResumeRequest,
        kind: RunKind,
    ) -> Result<(Run, Origin), Failure> {
        let run = find(&*self.store, &request.run).await?;
        if run.kind != kind {
            let message = format!("`{}` is of another kind: {}", run.id, run.kind);
            let hint = format!("`assize runs resume {}` knows how", run.id);
            return Err(Failure::new(FailureKind::Usage, message).hint(hint));
        }
        if !request.take_over {
            let instead = "wait for it, stop it, or take the run over with `--take-over`";
            refuse_if_held(&run, "taken up again", instead)?;
        }
        let origin = Origin::Resumed { run: Box::new(run.clone()), take_over: request.take_over };
        Ok((run, origin))
    }

    /// Finds the run of a kind that a new one starts from.
    pub async fn forkable(&self, name: &str, kind: RunKind) -> Result<(Run, Origin), Failure> {
        let parent = find(&*self.store, name).await?;
        if parent.kind != kind {
            let message =
                format!("`{}` is no {kind} but of another kind: {}", parent.id, parent.kind);
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let origin = Origin::Fork { parent: Box::new(parent.clone()) };
        Ok((parent, origin))
    }

    /// Plans a run, and stores nothing yet.
    pub async fn plan<J: Job>(
        &self,
        request: J::Request,
        origin: Origin,
    ) -> Result<Planned<J>, Failure> {
        let inherited = self.inherited::<J>(&request, &origin).await?;
        let ledger = match origin.resumed() {
            None => RunLedger::new(&self.store, self.budget),
            Some(run) => {
                let before = RunInput::of(run)?.budget();
                let budget = Caps {
                    cost: self.budget.cost.or(before.cost),
                    tokens: self.budget.tokens.or(before.tokens),
                };
                RunLedger::resumed(&self.store, &run.id, &inherited, budget).await?
            }
        };
        let ledger = Arc::new(ledger);
        let plan = Plan { origin: &origin, ledger: ledger.clone(), inherited: &inherited };
        let (job, new) = J::plan(request, &plan).await?;
        Ok(Planned { runner: self.clone(), job, origin, new, ledger, inherited })
    }

    /// Plans a run and opens its trial.
    pub async fn start<J: Job>(
        &self,
        request: J::Request,
        origin: Origin,
    ) -> Result<Trial<J>, Failure> {
        self.plan::<J>(request, origin).await?.open().await
    }

    /// Records that a run takes over from the one that it is, or was, forked from.
    async fn inherited<J: Job>(
        &self,
        request: &J::Request,
        origin: &Origin,
    ) -> Result<Vec<Record>, Failure> {
        let parent = match origin {
            Origin::New => None,
            Origin::Resumed { run, .. } => run.parent.as_ref(),
            Origin::Fork { parent } => Some(&parent.id),
        };
        let Some(parent) = parent else { return Ok(Vec::new()) };
        match self.store.records(parent).await {
            Ok(records) => Ok(records
                .into_iter()
                .filter(|record| J::inherits(request, origin, &record.key))
                .collect()),
            Err(StoreError::NoSuchRun(_)) => {
                self.reporter.warn(&format!("`{parent}`, which this was forked from, is gone"));
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Claims the run that is resumed, or creates one.
    async fn claim(
        &self,
        origin: &Origin,
        mut new: NewRun,
        holder: &LeaseHolder,
    ) -> Result<(Run, Lease), Failure> {
        let holder = holder.to_text();
        if let Origin::Resumed { run, take_over } = origin {
            // Only as it was when it was looked at, unless it is to be taken from its holder.
            let seen = (!take_over).then_some(run.epoch);
            let lease = self.store.claim(&run.id, &holder, seen).await?;
            return Ok((self.store.run(&run.id).await?, lease));
        }
        new.parent = origin.parent().map(|parent| parent.id.clone());
        new.once = self.idempotency_key.clone();
        RunInput::extend(&mut new.input, self.budget, &self.labels);
        Ok(self.store.create_run(new, &holder).await?)
    }

    /// Claims a run to execute it here.
    async fn claim_here(
        &self,
        origin: &Origin,
        new: NewRun,
        ledger: &RunLedger,
        node: Option<&str>,
    ) -> Result<(Run, Arc<RunJournal>), Failure> {
        let mut holder = LeaseHolder::this_process(self.role, node);
        if let (Some(run), Some(_)) = (origin.resumed(), node) {
            holder.records = Some(progress(&self.store.records(&run.id).await?));
            if let Some(last) = LeaseHolder::last(run) {
                (holder.asked, holder.deaths) = (last.asked, last.deaths);
            }
        }
        let (run, lease) = self.claim(origin, new, &holder).await?;
        ledger.begin(lease.clone()).await?;
        let journal = match origin {
            Origin::New | Origin::Fork { .. } => RunJournal::fresh(self.store.clone(), lease),
            Origin::Resumed { .. } => RunJournal::open(self.store.clone(), lease).await?,
        };
        Ok((run, Arc::new(journal)))
    }

    /// Creates or claims a run, and hands it to the workers.
    async fn hand_over(
        &self,
        origin: &Origin,
        new: NewRun,
        dispatch: &dyn Dispatch,
    ) -> Result<(Run, RemoteRun), Failure> {
        let after = match origin.resumed() {
            Some(run) if LeaseHolder::is_waiting(run) && !origin.takes_over() => {
                let message = format!("`{}` waits for a worker already", run.id);
                return Err(Failure::new(FailureKind::Usage, message)
                    .hint("`assize cluster status` shows who there is, and what waits for whom"));
            }
            Some(_) => self.store.last_event().await?,
            None => 0,
        };
        let mut holder = LeaseHolder::this_process(self.role, Some(dispatch.node())).released();
        holder.asked.clone_from(&self.overrides);
        let (run, _) = self.claim(origin, new, &holder).await?;
        // If this process dies here, workers find the run all the same.
        dispatch.enqueue(&run).await?;
        let (store, id) = (self.store.clone(), run.id.clone());
        Ok((run, RemoteRun { store, id, servers: dispatch.servers(), after }))
    }
}

/// A run that is planned: its models are chosen, and nothing is stored.
#[derive(Debug)]
pub struct Planned<J> {
    pub job: J,
    runner: Runner,
    origin: Origin,
    new: NewRun,
    ledger: Arc<RunLedger>,
    inherited: Vec<Record>,
}

impl<J: Job> Planned<J> {
    /// Whether it is a new run, and not one that is resumed.
    pub fn is_new(&self) -> bool {
        self.origin.resumed().is_none()
    }

    /// Creates or claims the run, and opens its trial.
    pub async fn open(self) -> Result<Trial<J>, Failure> {
        let Planned { mut job, runner, origin, new, ledger, inherited } = self;
        let (run, seat) = match &runner.placement {
            Placement::Cluster(dispatch) if !J::LOCAL_ONLY => {
                job.check_remote()?;
                let (run, remote) = runner.hand_over(&origin, new, &**dispatch).await?;
                (run, Seat::Remote(remote))
            }
            placement => {
                let node = match placement {
                    Placement::Local { node } => node.as_deref(),
                    Placement::Cluster(_) => None,
                };
                let local = Some(job.prepare().await?);
                let (run, journal) = runner.claim_here(&origin, new, &ledger, node).await?;
                (run, Seat::Here { journal, inherited, local })
            }
        };
        Ok(Trial { run, job, ledger, store: runner.store, seat })
    }
}

/// A run that is about to be executed: its lease is claimed, or it is on the queue.
#[derive(Debug)]
pub struct Trial<J: Job> {
    pub run: Run,
    pub job: J,
    pub ledger: Arc<RunLedger>,
    pub store: Arc<dyn Store>,
    seat: Seat<J::Local>,
}

/// Where a run is executed.
#[derive(Debug)]
enum Seat<L> {
    Here {
        journal: Arc<RunJournal>,
        /// What may be taken over from the run that it was forked from.
        inherited: Vec<Record>,
        /// Until it is executed.
        local: Option<L>,
    },
    Remote(RemoteRun),
}

impl<J: Job> Trial<J> {
    /// Whether a worker of the cluster executes it.
    pub fn is_remote(&self) -> bool {
        matches!(self.seat, Seat::Remote(_))
    }

    /// What is spent on it in this epoch.
    pub fn totals(&self) -> Totals {
        self.ledger.totals()
    }

    /// What was spent on it before it was resumed.
    pub fn spent_before(&self) -> SpentBefore {
        self.ledger.spent_before
    }

    /// Executes the run to its end, which is stored; or follows the worker that does.
    pub async fn execute(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Finished<J::Report>, RunFailure> {
        let Trial { run, job, ledger, store, seat } = self;
        let (journal, inherited, local) = match seat {
            Seat::Here { journal, inherited, local } => {
                (journal, std::mem::take(inherited), local.take())
            }
            Seat::Remote(remote) => {
                let done = remote.follow(observer, &**ledger, cancel).await?;
                let records = store.records(&done.id).await.map_err(Failure::from)?;
                return Ok(Finished { report: job.report(&done, &records)?, stored: Ok(()) });
            }
        };
        let graph_journal: Arc<dyn Journal> = match run.parent {
            Some(_) => Arc::new(Fork::new(journal.clone(), inherited)),
            None => journal.clone(),
        };
        let options =
            RunOptions { journal: Some(graph_journal), observer, cancel, ..RunOptions::default() };
        let twice = || Failure::new(FailureKind::Internal, "a run is executed once in each epoch");
        let local = local.ok_or_else(twice)?;
        match job.execute(local, Execution { run, store, options }).await {
            Ok(report) => {
                let stored = completion::done(journal, J::result(&report)).await;
                Ok(Finished { report, stored })
            }
            Err(error) => Err(completion::ended_early(journal, error, run, J::explain).await),
        }
    }
}

/// A trial of any kind, for processes that hold many at once.
#[async_trait]
pub trait AnyTrial: Send {
    fn run(&self) -> &Run;

    /// Accounts for its calls.
    fn ledger(&self) -> Arc<dyn Ledger>;

    /// What its programs write while they run, if it runs any.
    fn live_output(&self) -> Option<&Arc<LiveOutput>>;

    /// Executes it to its end, which is stored.
    async fn execute(&mut self, cancel: Cancel) -> Result<(), RunFailure>;
}

#[async_trait]
impl<J: Job> AnyTrial for Trial<J> {
    fn run(&self) -> &Run {
        &self.run
    }

    fn ledger(&self) -> Arc<dyn Ledger> {
        self.ledger.clone()
    }

    fn live_output(&self) -> Option<&Arc<LiveOutput>> {
        self.job.live_output()
    }

    async fn execute(&mut self, cancel: Cancel) -> Result<(), RunFailure> {
        // A report that could not be stored is as if the run had not ended: it can be resumed.
        let finished = Trial::execute(self, None, cancel).await?;
        finished.stored.map_err(|error| Failure::from(error).into())
    }
}

//! Runner: creates, claims, resumes, forks, executes and finishes runs of every kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_graph::{EffectRecord, ForkJournal, Journal, RunObserver, RunOptions};
use assize_llm::{BudgetLedger, BudgetLimits, BudgetTotals};
use assize_types::{Cancel, Failure, FailureKind, Reporter};
use async_trait::async_trait;

use crate::completion::{self, CompletedRun, RunFailure};
use crate::error::StoreError;
use crate::input::{RunInput, store_budget, with_current_budget};
use crate::job::{ExecutionContext, Job, PlanContext, RunOrigin};
use crate::journal::RunJournal;
use crate::kind::RunKind;
use crate::lease::{LeaseHolder, Role};
use crate::ledger::{RunLedger, SpentBefore, count_progress};
use crate::output::LiveOutput;
use crate::remote::RemoteRun;
use crate::run::{IdempotencyKey, Lease, NewRun, Run};
use crate::state::{find, refuse_if_held};
use crate::store::Store;

/// Where a runner executes runs.
#[derive(Debug, Clone)]
pub enum Placement {
    /// The runner executes runs in this process. In a worker, `node` is the name of its cluster node.
    Local { node: Option<String> },
    /// The runner puts runs on the queue of a cluster, and a worker executes them.
    Cluster(Arc<dyn Dispatch>),
}

/// Queue through which runs are sent to the workers of a cluster.
#[async_trait]
pub trait Dispatch: std::fmt::Debug + Send + Sync {
    /// Puts a run on the queue of the cluster, at most once for each epoch of the run.
    async fn enqueue(&self, run: &Run) -> Result<(), StoreError>;

    /// Node name of this process in the cluster.
    fn node(&self) -> &str;

    /// Addresses of the cluster's NATS servers, in the format of the option `--cluster`.
    fn servers(&self) -> String;
}

/// Request to resume an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumeRequest {
    /// Id of the run to resume, or a unique prefix of the id.
    pub run: String,
    /// Whether to resume the run even if another process holds, or may hold, its lease.
    pub take_over: bool,
}

/// Runner: starts, resumes and forks runs in one store. `placement` determines where the runs are executed.
#[derive(Debug, Clone)]
pub struct Runner {
    pub store: Arc<dyn Store>,
    pub placement: Placement,
    pub role: Role,
    pub reporter: Arc<dyn Reporter>,
    /// Budget of each run that this runner starts or resumes. If this field sets no cost limit, a resumed run keeps its
    /// current cost limit. The same rule applies to the token limit.
    pub budget: BudgetLimits,
    /// Idempotency key of the client's request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Labels that a worker must have to execute the run.
    pub labels: BTreeMap<String, String>,
    /// Settings that the user set for this request. In a cluster, they apply until the run ends.
    pub overrides: BTreeMap<String, String>,
}

impl Runner {
    /// Finds the run to resume, and checks that it has the given kind and that no other process holds its lease.
    pub async fn resumable(
        &self,
        request: &ResumeRequest,
        kind: RunKind,
    ) -> Result<(Run, RunOrigin), Failure> {
        let run = find(&*self.store, &request.run).await?;
        if run.kind != kind {
            let message = format!("`{}` is a run of kind `{}`, not `{kind}`", run.id, run.kind);
            let hint = format!("resume the run with `assize runs resume {}`", run.id);
            return Err(Failure::new(FailureKind::Usage, message).hint(hint));
        }
        if !request.take_over {
            let instead = "wait for the end of the process that holds the lease, stop that process, or \
                           add `--take-over`";
            refuse_if_held(&run, "resumed", instead)?;
        }
        let origin =
            RunOrigin::Resumed { run: Box::new(run.clone()), take_over: request.take_over };
        Ok((run, origin))
    }

    /// Finds the run to fork, and checks that it has the given kind.
    pub async fn forkable(&self, name: &str, kind: RunKind) -> Result<(Run, RunOrigin), Failure> {
        let parent = find(&*self.store, name).await?;
        if parent.kind != kind {
            let message =
                format!("`{}` is a run of kind `{}`, not `{kind}`", parent.id, parent.kind);
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let origin = RunOrigin::Fork { parent: Box::new(parent.clone()) };
        Ok((parent, origin))
    }

    /// Plans a run without storing anything.
    pub async fn plan<J: Job>(
        &self,
        request: J::Request,
        origin: RunOrigin,
    ) -> Result<PlannedRun<J>, Failure> {
        let inherited = self.inherited::<J>(&request, &origin).await?;
        let (ledger, new_budget) = match origin.resumed() {
            None => (RunLedger::new(&self.store, self.budget), None),
            Some(run) => {
                let run = with_current_budget(&*self.store, run.clone()).await?;
                let before = RunInput::of(&run)?.budget();
                let budget = BudgetLimits {
                    cost: self.budget.cost.or(before.cost),
                    tokens: self.budget.tokens.or(before.tokens),
                };
                let ledger = RunLedger::resumed(&self.store, &run.id, &inherited, budget).await?;
                (ledger, (budget != before).then_some(budget))
            }
        };
        let ledger = Arc::new(ledger);
        let plan = PlanContext { origin: &origin, ledger: ledger.clone(), inherited: &inherited };
        let (job, new) = J::plan(request, &plan).await?;
        Ok(PlannedRun { runner: self.clone(), job, origin, new, ledger, inherited, new_budget })
    }

    /// Plans a run, and then creates it in the store, or claims the run that is resumed.
    pub async fn start<J: Job>(
        &self,
        request: J::Request,
        origin: RunOrigin,
    ) -> Result<Trial<J>, Failure> {
        self.plan::<J>(request, origin).await?.open().await
    }

    /// Reads the journal records that a fork inherits from its parent run; none if the run is not a fork.
    async fn inherited<J: Job>(
        &self,
        request: &J::Request,
        origin: &RunOrigin,
    ) -> Result<Vec<EffectRecord>, Failure> {
        let parent = match origin {
            RunOrigin::New => None,
            RunOrigin::Resumed { run, .. } => run.parent.as_ref(),
            RunOrigin::Fork { parent } => Some(&parent.id),
        };
        let Some(parent) = parent else { return Ok(Vec::new()) };
        match self.store.records(parent).await {
            Ok(records) => Ok(records
                .into_iter()
                .filter(|record| J::inherits(request, origin, &record.key))
                .collect()),
            Err(StoreError::NoSuchRun(_)) => {
                self.reporter.warn(&format!(
                    "the parent run `{parent}` no longer exists; none of its answers are reused"
                ));
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Claims the run that is resumed, or creates a new run in the store.
    async fn claim(
        &self,
        origin: &RunOrigin,
        mut new: NewRun,
        holder: &LeaseHolder,
    ) -> Result<(Run, Lease), Failure> {
        let holder = holder.to_text();
        if let RunOrigin::Resumed { run, take_over } = origin {
            // The claim fails if another process has claimed the run since `run` was read, unless `take_over` is set.
            let seen = (!take_over).then_some(run.epoch);
            let lease = self.store.claim(&run.id, &holder, seen).await?;
            return Ok((self.store.run(&run.id).await?, lease));
        }
        new.parent = origin.parent().map(|parent| parent.id.clone());
        new.idempotency_key = self.idempotency_key.clone();
        RunInput::extend(&mut new.input, self.budget, &self.labels);
        Ok(self.store.create_run(new, &holder).await?)
    }

    /// Creates or claims a run that this process executes, and opens its journal.
    async fn claim_locally(
        &self,
        origin: &RunOrigin,
        new: NewRun,
        ledger: &RunLedger,
        node: Option<&str>,
    ) -> Result<(Run, Arc<RunJournal>), Failure> {
        let mut holder = LeaseHolder::this_process(self.role, node);
        if let (Some(run), Some(_)) = (origin.resumed(), node) {
            holder.records = Some(count_progress(&self.store.records(&run.id).await?));
            if let Some(last) = LeaseHolder::last(run) {
                (holder.asked, holder.deaths) = (last.asked, last.deaths);
            }
        }
        let (run, lease) = self.claim(origin, new, &holder).await?;
        ledger.begin(lease.clone()).await?;
        let journal = match origin {
            RunOrigin::New | RunOrigin::Fork { .. } => RunJournal::new(self.store.clone(), lease),
            RunOrigin::Resumed { .. } => RunJournal::open(self.store.clone(), lease).await?,
        };
        Ok((run, Arc::new(journal)))
    }

    /// Creates or claims a run, and puts it on the queue for the workers of the cluster.
    async fn enqueue(
        &self,
        origin: &RunOrigin,
        new: NewRun,
        new_budget: Option<BudgetLimits>,
        dispatch: &dyn Dispatch,
    ) -> Result<(Run, RemoteRun), Failure> {
        let after = match origin.resumed() {
            Some(run) if LeaseHolder::is_waiting(run) && !origin.takes_over() => {
                let message = format!("`{}` is already queued for a worker", run.id);
                return Err(Failure::new(FailureKind::Usage, message)
                    .hint("`assize cluster status` shows the workers and the queue"));
            }
            Some(_) => self.store.last_event().await?,
            None => 0,
        };
        let mut holder = LeaseHolder::this_process(self.role, Some(dispatch.node())).released();
        holder.asked.clone_from(&self.overrides);
        let (run, _) = self.claim(origin, new, &holder).await?;
        // Before the run is queued, because a worker reads the budget when it receives the run.
        if let Some(budget) = new_budget {
            store_budget(&*self.store, &run.id, budget).await?;
        }
        // If this process dies before the run is queued, a worker still finds the run: workers regularly search the
        // store for runs that should be queued but are not.
        dispatch.enqueue(&run).await?;
        let (store, id) = (self.store.clone(), run.id.clone());
        Ok((run, RemoteRun { store, id, servers: dispatch.servers(), after }))
    }
}

/// A planned run: its models are chosen, but nothing is stored yet.
#[derive(Debug)]
pub struct PlannedRun<J> {
    pub job: J,
    runner: Runner,
    origin: RunOrigin,
    new: NewRun,
    ledger: Arc<RunLedger>,
    inherited: Vec<EffectRecord>,
    /// New budget of a resumed run; `None` if the run is not resumed or keeps its budget.
    new_budget: Option<BudgetLimits>,
}

impl<J: Job> PlannedRun<J> {
    /// Whether the run is new or a fork, and not resumed.
    pub fn is_new(&self) -> bool {
        self.origin.resumed().is_none()
    }

    /// Creates a new run in the store, or claims the run that is resumed. The returned trial is ready to be executed.
    pub async fn open(self) -> Result<Trial<J>, Failure> {
        let PlannedRun { mut job, runner, origin, new, ledger, inherited, new_budget } = self;
        let (run, executor) = match &runner.placement {
            Placement::Cluster(dispatch) if !J::LOCAL_ONLY => {
                job.check_remote()?;
                let (run, remote) = runner.enqueue(&origin, new, new_budget, &**dispatch).await?;
                (run, Executor::Remote(remote))
            }
            placement => {
                let node = match placement {
                    Placement::Local { node } => node.as_deref(),
                    Placement::Cluster(_) => None,
                };
                // A worker repeats the checks of the sender, because a message on the queue can name any run.
                if node.is_some() {
                    if J::LOCAL_ONLY {
                        let message =
                            format!("workers do not execute runs of kind `{}`", J::KIND.name());
                        return Err(Failure::new(FailureKind::Usage, message));
                    }
                    job.check_remote()?;
                }
                let local = Some(job.prepare().await?);
                let (run, journal) = runner.claim_locally(&origin, new, &ledger, node).await?;
                if let Some(budget) = new_budget {
                    store_budget(&*runner.store, &run.id, budget).await?;
                }
                (run, Executor::Local { journal, inherited, local })
            }
        };
        Ok(Trial { run, job, ledger, store: runner.store, executor })
    }
}

/// A run that is ready to be executed: this process holds its lease, or the run is on the queue of the cluster.
#[derive(Debug)]
pub struct Trial<J: Job> {
    pub run: Run,
    pub job: J,
    pub ledger: Arc<RunLedger>,
    pub store: Arc<dyn Store>,
    executor: Executor<J::Local>,
}

/// The executor of a trial: this process or a worker of the cluster.
#[derive(Debug)]
enum Executor<L> {
    Local {
        journal: Arc<RunJournal>,
        /// Journal records inherited from the parent run, if the run is a fork.
        inherited: Vec<EffectRecord>,
        /// Resources that the job prepared in this process; `None` after the execution has started.
        local: Option<L>,
    },
    Remote(RemoteRun),
}

impl<J: Job> Trial<J> {
    /// Whether a worker of the cluster executes the run.
    pub fn is_remote(&self) -> bool {
        matches!(self.executor, Executor::Remote(_))
    }

    /// Totals of the model calls that the run made in this epoch.
    pub fn totals(&self) -> BudgetTotals {
        self.ledger.totals()
    }

    /// Cost and tokens that the run had spent before it was resumed.
    pub fn spent_before(&self) -> SpentBefore {
        self.ledger.spent_before
    }

    /// Executes the run and stores how the run ended. If a worker of the cluster executes the run, waits for its end.
    pub async fn execute(
        &mut self,
        observer: Option<RunObserver>,
        cancel: Cancel,
    ) -> Result<CompletedRun<J::Report>, RunFailure> {
        let Trial { run, job, ledger, store, executor } = self;
        let (journal, inherited, local) = match executor {
            Executor::Local { journal, inherited, local } => {
                (journal, std::mem::take(inherited), local.take())
            }
            Executor::Remote(remote) => {
                let done = remote.follow(observer, &**ledger, cancel).await?;
                let records = store.records(&done.id).await.map_err(Failure::from)?;
                return Ok(CompletedRun { report: job.report(&done, &records)?, stored: Ok(()) });
            }
        };
        let graph_journal: Arc<dyn Journal> = match run.parent {
            Some(_) => Arc::new(ForkJournal::new(journal.clone(), inherited)),
            None => journal.clone(),
        };
        let options =
            RunOptions { journal: Some(graph_journal), observer, cancel, ..RunOptions::default() };
        let twice = || Failure::new(FailureKind::Internal, "this run was already executed");
        let local = local.ok_or_else(twice)?;
        match job.execute(local, ExecutionContext { run, store, options }).await {
            Ok(report) => {
                let stored = completion::store_result(journal, J::result(&report)).await;
                Ok(CompletedRun { report, stored })
            }
            Err(error) => {
                Err(completion::store_early_end(journal, error, run, J::to_node_failure).await)
            }
        }
    }
}

/// A trial of any kind of run, for processes that execute many trials at once.
#[async_trait]
pub trait AnyTrial: Send {
    fn run(&self) -> &Run;

    /// Ledger that accounts for the run's model calls.
    fn ledger(&self) -> Arc<dyn BudgetLedger>;

    /// Live output of the run's programs; `None` if the run has no programs.
    fn live_output(&self) -> Option<&Arc<LiveOutput>>;

    /// Executes the run and stores how the run ended.
    async fn execute(&mut self, cancel: Cancel) -> Result<(), RunFailure>;
}

#[async_trait]
impl<J: Job> AnyTrial for Trial<J> {
    fn run(&self) -> &Run {
        &self.run
    }

    fn ledger(&self) -> Arc<dyn BudgetLedger> {
        self.ledger.clone()
    }

    fn live_output(&self) -> Option<&Arc<LiveOutput>> {
        self.job.live_output()
    }

    async fn execute(&mut self, cancel: Cancel) -> Result<(), RunFailure> {
        // If the report cannot be stored, this returns a failure: the stored run has not ended and can be resumed.
        let finished = Trial::execute(self, None, cancel).await?;
        finished.stored.map_err(|error| Failure::from(error).into())
    }
}

//! Jobs: the part of a run's lifecycle that differs between the kinds of runs.

use std::sync::Arc;

use assize_graph::{EffectKey, EffectRecord, RunOptions};
use assize_llm::BudgetLedger;
use assize_types::Failure;
use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::completion::{ExecuteError, NodeFailure, NodeSource};
use crate::kind::RunKind;
use crate::output::LiveOutput;
use crate::run::{NewRun, Run};
use crate::store::Store;

/// The code that executes one kind of run: a code run, an evaluation, a debate, a consultation, or file edits. The
/// [`Runner`](crate::Runner) does everything that is the same for all kinds of runs.
#[async_trait]
pub trait Job: Sized + Send + Sync + 'static {
    const KIND: RunKind;

    /// Whether the job needs resources of this machine, so that no worker of a cluster can execute it.
    const LOCAL_ONLY: bool = false;

    /// The user's request, either new or restored from a stored run, with the services that the job needs.
    type Request: Send + Sync;

    /// Resources that the executing process must provide for the run, such as sandboxes.
    type Local: Send + Sync;

    /// Result of a completed run.
    type Report: Serialize + DeserializeOwned + Send;

    /// Chooses the models for the request. Returns the job, and the run that the runner then stores.
    async fn plan(
        request: Self::Request,
        plan: &PlanContext<'_>,
    ) -> Result<(Self, NewRun), Failure>;

    /// Returns an error if the job needs a resource that a worker of a cluster cannot access.
    fn check_remote(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Prepares the resources that the run needs in this process, such as sandboxes. The runner calls this function
    /// before claiming the lease of the run.
    async fn prepare(&mut self) -> Result<Self::Local, Failure>;

    /// Executes the run in this process, and returns the report of the completed run.
    async fn execute(
        &mut self,
        local: Self::Local,
        execution: ExecutionContext<'_>,
    ) -> Result<Self::Report, ExecuteError>;

    /// Converts a report to the JSON value that is stored as the result of the run.
    fn result(report: &Self::Report) -> Value {
        json!(report)
    }

    /// Reads the report of a completed run that another process executed.
    fn report(&mut self, run: &Run, _records: &[EffectRecord]) -> Result<Self::Report, Failure> {
        run.read_result()
    }

    /// Converts an error of one of the job's graph nodes to a failure. Returns unknown errors unchanged as `Err`.
    fn to_node_failure(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        Err(source)
    }

    /// Whether a fork inherits the journal record with this key from its parent run.
    fn inherits(_request: &Self::Request, _origin: &RunOrigin, _key: &EffectKey) -> bool {
        true
    }

    /// Live output of the programs that the job runs; `None` if the job runs no programs.
    fn live_output(&self) -> Option<&Arc<LiveOutput>> {
        None
    }
}

/// Text that a run's summary shows if a worker of the cluster executed the run.
pub const EXECUTED_BY_WORKER: &str = "executed by a worker of the cluster";

/// Origin of a run: new, resumed or forked.
#[derive(Debug, Clone)]
pub enum RunOrigin {
    New,
    /// An earlier run that is resumed. With `take_over`, the run is resumed even if another process holds its lease.
    Resumed {
        run: Box<Run>,
        take_over: bool,
    },
    /// A new run that starts from the records of an earlier run, its parent.
    Fork {
        parent: Box<Run>,
    },
}

impl RunOrigin {
    /// The run that is resumed; `None` if the run is new or a fork.
    pub fn resumed(&self) -> Option<&Run> {
        match self {
            RunOrigin::Resumed { run, .. } => Some(run),
            RunOrigin::New | RunOrigin::Fork { .. } => None,
        }
    }

    /// Whether to resume the run even if another process holds its lease.
    pub fn takes_over(&self) -> bool {
        matches!(self, RunOrigin::Resumed { take_over: true, .. })
    }

    /// The run that a fork starts from; `None` if the run is not a fork.
    pub fn parent(&self) -> Option<&Run> {
        match self {
            RunOrigin::Fork { parent } => Some(parent),
            RunOrigin::New | RunOrigin::Resumed { .. } => None,
        }
    }
}

/// Input of [`Job::plan`].
#[derive(Debug)]
pub struct PlanContext<'a> {
    pub origin: &'a RunOrigin,
    /// Ledger that accounts for the cost and tokens of all model calls of the run.
    pub ledger: Arc<dyn BudgetLedger>,
    /// Journal records that a fork inherits from its parent run.
    pub inherited: &'a [EffectRecord],
}

/// Input of [`Job::execute`].
#[derive(Debug)]
pub struct ExecutionContext<'a> {
    pub run: &'a Run,
    pub store: &'a Arc<dyn Store>,
    /// Options of the graph that the job executes: the journal, the observer and the cancellation token.
    pub options: RunOptions,
}

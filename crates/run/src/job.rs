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

/// A job of one kind: a program, an evaluation, a debate, a consultation, or file edits. The [`Runner`](crate::Runner)
/// does everything that all kinds share.
#[async_trait]
pub trait Job: Sized + Send + Sync + 'static {
    const KIND: RunKind;

    /// Whether the job needs resources of this machine, so that no worker of a cluster can execute it.
    const LOCAL_ONLY: bool = false;

    /// The user's request, new or restored from a stored run, with the services that the job needs.
    type Request: Send + Sync;

    /// Resources that the executing process must provide, such as sandboxes.
    type Local: Send + Sync;

    /// Result of a completed run.
    type Report: Serialize + DeserializeOwned + Send;

    /// Chooses the models, and returns the job with the run to be stored.
    async fn plan(
        request: Self::Request,
        plan: &PlanContext<'_>,
    ) -> Result<(Self, NewRun), Failure>;

    /// Fails if the job needs something that a worker of a cluster cannot access.
    fn check_remote(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Prepares the resources that the run needs in this process, such as sandboxes. Called before the run is claimed.
    async fn prepare(&mut self) -> Result<Self::Local, Failure>;

    /// Executes the run in this process, and returns its report.
    async fn execute(
        &mut self,
        local: Self::Local,
        execution: ExecutionContext<'_>,
    ) -> Result<Self::Report, ExecuteError>;

    /// The stored form of a report.
    fn result(report: &Self::Report) -> Value {
        json!(report)
    }

    /// Reads the report of a completed run that another process executed.
    fn report(&mut self, run: &Run, _records: &[EffectRecord]) -> Result<Self::Report, Failure> {
        run.read_result()
    }

    /// Converts an error of one of the job's nodes to a failure; returns unknown errors as `Err`.
    fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        Err(source)
    }

    /// Whether a fork inherits the record with this key from its parent run.
    fn inherits(_request: &Self::Request, _origin: &RunOrigin, _key: &EffectKey) -> bool {
        true
    }

    /// Live output of the job's programs, if it runs any.
    fn live_output(&self) -> Option<&Arc<LiveOutput>> {
        None
    }
}

/// Placement shown to users for a run that a worker executes.
pub const REMOTE: &str = "by a worker of the cluster";

/// Origin of a run: new, resumed or forked.
#[derive(Debug, Clone)]
pub enum RunOrigin {
    New,
    /// An earlier run that is resumed; with `take_over` even if another process holds its lease.
    Resumed {
        run: Box<Run>,
        take_over: bool,
    },
    /// A new run that starts from an earlier one.
    Fork {
        parent: Box<Run>,
    },
}

impl RunOrigin {
    /// The run that is resumed.
    pub fn resumed(&self) -> Option<&Run> {
        match self {
            RunOrigin::Resumed { run, .. } => Some(run),
            RunOrigin::New | RunOrigin::Fork { .. } => None,
        }
    }

    /// Whether the lease may be taken from another process.
    pub fn takes_over(&self) -> bool {
        matches!(self, RunOrigin::Resumed { take_over: true, .. })
    }

    /// The run that a fork starts from.
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
    /// Accounts for all calls of the run.
    pub ledger: Arc<dyn BudgetLedger>,
    /// Records that a fork inherits from its parent.
    pub inherited: &'a [EffectRecord],
}

/// Input of [`Job::execute`].
#[derive(Debug)]
pub struct ExecutionContext<'a> {
    pub run: &'a Run,
    pub store: &'a Arc<dyn Store>,
    /// Journal, observer and cancellation of the run's graph.
    pub options: RunOptions,
}

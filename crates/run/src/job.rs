//! What a job is: the part of a run's lifecycle that differs between the kinds of runs.

use std::sync::Arc;

use assize_graph::{Key, Record, RunOptions};
use assize_llm::Ledger;
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
/// does all the rest.
#[async_trait]
pub trait Job: Sized + Send + Sync + 'static {
    const KIND: RunKind;

    /// Whether the job needs what only this machine has, so that no worker of a cluster can take it.
    const LOCAL_ONLY: bool = false;

    /// What a user asks for, or what was stored of that, with the services that the job needs.
    type Request: Send + Sync;

    /// What it needs in the process that executes it, such as sandboxes.
    type Local: Send + Sync;

    /// What the run comes to.
    type Report: Serialize + DeserializeOwned + Send;

    /// Chooses the models, and gives what is stored with a new run.
    async fn plan(request: Self::Request, plan: &Plan<'_>) -> Result<(Self, NewRun), Failure>;

    /// Refuses what a worker of a cluster could not get at.
    fn check_remote(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Makes ready what the run needs in this process, such as sandboxes, before it is claimed.
    async fn prepare(&mut self) -> Result<Self::Local, Failure>;

    /// Executes the run in this process, to its report.
    async fn execute(
        &mut self,
        local: Self::Local,
        execution: Execution<'_>,
    ) -> Result<Self::Report, ExecuteError>;

    /// What is stored of a report.
    fn result(report: &Self::Report) -> Value {
        json!(report)
    }

    /// Reads the report of a run that is done, which another process executed.
    fn report(&mut self, run: &Run, _records: &[Record]) -> Result<Self::Report, Failure> {
        run.read_result()
    }

    /// Explains an error of one of its nodes, if it knows it.
    fn explain(source: NodeSource) -> Result<NodeFailure, NodeSource> {
        Err(source)
    }

    /// Whether a fork takes the record under this key over from the run that it starts from.
    fn inherits(_request: &Self::Request, _origin: &Origin, _key: &Key) -> bool {
        true
    }

    /// What its programs write while they run, if it runs any.
    fn live_output(&self) -> Option<&Arc<LiveOutput>> {
        None
    }
}

/// Where a run is executed that a worker of the cluster takes, as users read it.
pub const REMOTE: &str = "by a worker of the cluster";

/// Where a run comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    New,
    /// An earlier run that goes on; `take_over` even if another process holds its lease.
    Resumed {
        run: Box<Run>,
        take_over: bool,
    },
    /// A new run that starts from an earlier one.
    Fork {
        parent: Box<Run>,
    },
}

impl Origin {
    /// The run that is resumed.
    pub fn resumed(&self) -> Option<&Run> {
        match self {
            Origin::Resumed { run, .. } => Some(run),
            Origin::New | Origin::Fork { .. } => None,
        }
    }

    /// Whether the lease is taken from another process.
    pub fn takes_over(&self) -> bool {
        matches!(self, Origin::Resumed { take_over: true, .. })
    }

    /// The run that a fork starts from.
    pub fn parent(&self) -> Option<&Run> {
        match self {
            Origin::Fork { parent } => Some(parent),
            Origin::New | Origin::Resumed { .. } => None,
        }
    }
}

/// What a job is planned with.
#[derive(Debug)]
pub struct Plan<'a> {
    pub origin: &'a Origin,
    /// Accounts for all calls of the run.
    pub ledger: Arc<dyn Ledger>,
    /// Records that a fork takes over.
    pub inherited: &'a [Record],
}

/// What a job is executed with.
#[derive(Debug)]
pub struct Execution<'a> {
    pub run: &'a Run,
    pub store: &'a Arc<dyn Store>,
    /// Journal, observer and cancellation of the run's graph.
    pub options: RunOptions,
}

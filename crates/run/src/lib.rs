//! Runs of every kind and their lifecycle, independent of the database that stores them.
//!
//! A [`Run`] has a [`RunKind`], an input, a [`RunStatus`] and a [`Lease`]. Only the holder of the lease may write to
//! the run. A [`Store`] stores runs with their journals ([`RunJournal`]), events, artifacts and the audit log. Calls to
//! models are effects of a run ([`JournaledModel`]). The [`Runner`] starts, resumes and forks runs.

mod artifact;
mod audit;
mod call;
mod completion;
mod error;
mod event;
mod input;
mod job;
mod journal;
mod journaled_model;
mod kind;
mod lease;
mod ledger;
mod output;
mod remote;
mod run;
mod runner;
mod state;
mod store;

pub use assize_graph::{
    EffectKey, EffectOutcome, EffectRecord, EffectStage, GraphEvent, RunObserver, Signal,
};
pub use assize_llm::{BudgetLedger, BudgetLimits, BudgetTotals};

pub use artifact::{ArtifactId, ArtifactUse};
pub use audit::{AuditEntry, AuditQuery, AuditVerdict, NewAuditEntry};
pub use call::{CallState, StoredCall};
pub use completion::{
    CompletedRun, ExecuteError, NodeFailure, NodeSource, RunFailure, cancel, record_failure,
    record_panic,
};
pub use error::StoreError;
pub use event::{ConsultLayer, LayerStatus, NamedConsultLayer, RoundStatus, RoundStep, RunEvent};
pub use input::{RunInput, with_current_budget};
pub use job::{EXECUTED_BY_WORKER, ExecutionContext, Job, PlanContext, RunOrigin};
pub use journal::RunJournal;
pub use journaled_model::{JournaledModel, refusal_error};
pub use kind::{RunKind, UnknownRunKind};
pub use lease::{LeaseHolder, Role, release};
pub use ledger::{
    RunLedger, SpentBefore, count_progress, model_response, parent_records,
    totals_of_answered_calls,
};
pub use output::{LiveOutput, OutputChunk, OutputStream, ProgramId};
pub use run::{
    Ending, IdempotencyKey, InvalidRunId, Lease, NewRun, Run, RunFilter, RunId, RunStatus,
    read_result,
};
pub use runner::{AnyTrial, Dispatch, Placement, PlannedRun, ResumeRequest, Runner, Trial};
pub use state::{RunState, find, how_to_resume, no_such_run, refuse_if_held};
pub use store::{EventQuery, Store, StoreLog, StoredEvent};

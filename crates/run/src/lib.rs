//! Runs of every kind and their lifecycle, independent of the database that stores them.
//!
//! A [`Run`] has a [`RunKind`], an input, a [`RunStatus`] and a [`Lease`]. Only the holder of the lease may write to
//! the run. A [`Store`] stores runs with their journals ([`RunJournal`]), events, artifacts and the audit log. Calls to
//! models are effects of a run ([`JournaledModel`]). The [`Runner`] starts, resumes and forks runs.

mod artifact;
mod audit;
mod call;
mod calls;
mod completion;
mod error;
mod event;
mod input;
mod job;
mod journal;
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
pub use calls::{JournaledModel, declined};
pub use completion::{
    CompletedRun, ExecuteError, NodeFailure, NodeSource, RunFailure, cancel, fail, record_panic,
};
pub use error::StoreError;
pub use event::{ConsultLayer, LayerStatus, NamedConsultLayer, RoundStatus, RoundStep, RunEvent};
pub use input::RunInput;
pub use job::{ExecutionContext, Job, PlanContext, REMOTE, RunOrigin};
pub use journal::RunJournal;
pub use kind::{RunKind, UnknownRunKind};
pub use lease::{LeaseHolder, Role, release};
pub use ledger::{RunLedger, SpentBefore, answer, answered, inherited, progress};
pub use output::{LiveOutput, OutputChunk, OutputStream, ProgramId};
pub use run::{
    Ending, IdempotencyKey, InvalidRunId, Lease, NewRun, Run, RunFilter, RunId, RunStatus,
    read_result,
};
pub use runner::{AnyTrial, Dispatch, Placement, PlannedRun, ResumeRequest, Runner, Trial};
pub use state::{RunState, find, how_to_resume, no_such_run, refuse_if_held};
pub use store::{EventQuery, Store, StoreLog, StoredEvent};

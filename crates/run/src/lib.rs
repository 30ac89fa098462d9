//! What a run is, whichever trial it is of and whichever store keeps it.
//!
//! A [`Run`] has a [`RunKind`], an input, a [`RunStatus`] and a [`Lease`] that says who may write to it. A [`Store`]
//! keeps runs with their journals ([`RunJournal`]), events, artifacts and the audit log. Calls to models are effects
//! of a run ([`Asking`]).

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

pub use assize_graph::{EffectStage, Event, Key, Observer, Outcome, Record, Signal};
pub use assize_llm::{Caps, Ledger, Totals};

pub use artifact::{ArtifactId, ArtifactUse};
pub use audit::{AuditEntry, AuditQuery, AuditVerdict, NewAuditEntry};
pub use call::{CallState, Noted};
pub use calls::{Asking, declined};
pub use completion::{
    ExecuteError, Finished, NodeFailure, NodeSource, RunFailure, cancel, fail, record_panic,
};
pub use error::StoreError;
pub use event::{Layer, LayerStatus, NamedLayer, RoundStatus, RoundStep, RunEvent};
pub use input::RunInput;
pub use job::{Execution, Job, Origin, Plan, REMOTE};
pub use journal::RunJournal;
pub use kind::{RunKind, UnknownRunKind};
pub use lease::{LeaseHolder, Role, release};
pub use ledger::{RunLedger, SpentBefore, answer, answered, inherited, progress};
pub use output::{LiveOutput, OutputStream, ProgramId, Wrote};
pub use run::{
    BadRunId, Ending, IdempotencyKey, Lease, NewRun, Run, RunFilter, RunId, RunStatus, read_result,
};
pub use runner::{AnyTrial, Dispatch, Placement, Planned, ResumeRequest, Runner, Trial};
pub use state::{RunState, find, how_to_resume, no_such_run, refuse_if_held};
pub use store::{EventQuery, Log, Store, StoredEvent};

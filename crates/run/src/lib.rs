//! What a run is, whichever trial it is of and whichever store keeps it.
//!
//! A [`Run`] has a [`RunKind`], an input, a [`RunStatus`] and a [`Lease`] that says who may write to it. A [`Store`]
//! keeps runs with their journals ([`RunJournal`]), events, artifacts and the audit log. Calls to models are effects
//! of a run ([`Asking`]).

mod artifact;
mod audit;
mod call;
mod calls;
mod error;
mod event;
mod journal;
mod kind;
mod run;
mod store;

pub use artifact::{ArtifactId, ArtifactUse};
pub use audit::{AuditEntry, AuditQuery, AuditVerdict, NewAuditEntry};
pub use call::{CallState, Noted};
pub use calls::{Asking, declined};
pub use error::StoreError;
pub use event::{Layer, LayerStatus, NamedLayer, RoundStatus, RoundStep, RunEvent};
pub use journal::RunJournal;
pub use kind::{RunKind, UnknownRunKind};
pub use run::{BadRunId, Ending, IdempotencyKey, Lease, NewRun, Run, RunFilter, RunId, RunStatus};
pub use store::{EventQuery, Log, Store, StoredEvent};

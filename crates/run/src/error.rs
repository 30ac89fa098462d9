//! Errors of the store of runs.

use assize_types::{Failure, FailureKind};
use std::path::PathBuf;

use crate::kind::RunKind;
use crate::run::RunId;

/// Error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no run `{0}`")]
    NoSuchRun(RunId),
    #[error("there is no artifact `{0}`")]
    NoSuchArtifact(String),
    #[error("another process has taken over the run `{0}`")]
    Fenced(RunId),
    #[error("the run `{0}` is done")]
    Done(RunId),
    /// The idempotency key was used before, for the same request (`same` is true) or for a different request.
    #[error("this idempotency key was already used, for the run `{run}`")]
    IdempotencyKeyUsed { run: RunId, same: bool },
    #[error("cannot open the store `{path}`: {reason}")]
    CannotOpen { path: PathBuf, reason: String },
    /// The store file exists, but nothing was ever written to it.
    #[error("the store `{path}` is empty")]
    Empty { path: PathBuf },
    #[error("`{path}` is not a store: {reason}")]
    NotAStore { path: PathBuf, reason: String },
    /// The store was created by a later version of assize.
    #[error("the store `{path}` has format {found}, but this version of assize supports {known}")]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("the store `{path}` is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("no space left for the store `{path}`")]
    Full { path: PathBuf },
    #[error("the store `{path}` is not writable")]
    ReadOnly { path: PathBuf },
    #[error("timed out waiting for the store `{path}`: another process uses it")]
    Busy { path: PathBuf },
    #[error("the store `{path}` failed: {reason}")]
    Failed { path: PathBuf, reason: String },
}

impl StoreError {
    /// Hint for the user: how to resolve the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StoreError::NotAStore { .. } => {
                Some("set `store.path` to another file; the current file was not changed")
            }
            StoreError::Newer { .. } => Some(
                "use the newer version of assize that created the store, or set `store.path` to \
                 another file",
            ),
            StoreError::Damaged { .. } => Some(
                "keep a copy of the store file; `sqlite3 FILE .recover` may recover its content. \
                 To continue, move the file away or set `store.path` to another file",
            ),
            StoreError::Full { .. } => {
                Some("free some disk space and try again; runs already in the store are kept")
            }
            StoreError::ReadOnly { .. } => Some(
                "make the store file and its folder writable, or set XDG_STATE_HOME to another folder",
            ),
            StoreError::Busy { .. } => {
                Some("wait for the end of the process that uses the store, or stop that process")
            }
            _ => None,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let kind = match &error {
            StoreError::NoSuchRun(_)
            | StoreError::NoSuchArtifact(_)
            | StoreError::IdempotencyKeyUsed { .. }
            | StoreError::Done(_) => FailureKind::Usage,
            StoreError::NotAStore { .. } | StoreError::Newer { .. } => FailureKind::Settings,
            StoreError::Fenced(_)
            | StoreError::CannotOpen { .. }
            | StoreError::Empty { .. }
            | StoreError::Damaged { .. }
            | StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Busy { .. }
            | StoreError::Failed { .. } => FailureKind::Environment,
        };
        let hint = match &error {
            StoreError::Done(id) => Some(match id.kind().is_some_and(RunKind::can_be_forked) {
                true => format!(
                    "`assize runs show {id}` prints the result of the run; `assize runs fork {id}` \
                     starts a new run that repeats the failed calls"
                ),
                false => format!("`assize runs show {id}` prints the result of the run"),
            }),
            error => error.hint().map(str::to_owned),
        };
        Failure::new(kind, error.to_string()).with_optional_hint(hint.as_deref())
    }
}

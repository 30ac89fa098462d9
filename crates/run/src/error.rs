//! Why the store could not do something.

use assize_types::{Failure, FailureKind};
use std::path::PathBuf;

use crate::kind::RunKind;
use crate::run::RunId;

/// A store that failed, or refused.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no run `{0}`")]
    NoSuchRun(RunId),
    #[error("there is no artifact `{0}`")]
    NoSuchArtifact(String),
    #[error("another process has taken the run `{0}` over")]
    Fenced(RunId),
    #[error("the run `{0}` is done")]
    Done(RunId),
    /// A run was asked for under this key before: for the same, or for something else.
    #[error("the run `{run}` was asked for under this key before")]
    AskedBefore { run: RunId, same: bool },
    #[error("the store `{path}` cannot be opened: {reason}")]
    Unopened { path: PathBuf, reason: String },
    /// It was made, and nothing was ever kept in it.
    #[error("the store `{path}` is empty")]
    Empty { path: PathBuf },
    #[error("`{path}` is not a store: {reason}")]
    NotAStore { path: PathBuf, reason: String },
    /// It was made by a later version.
    #[error("the store `{path}` has format {found}, and this version of assize knows {known}")]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("the store `{path}` is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("there is no room left for the store `{path}`")]
    Full { path: PathBuf },
    #[error("the store `{path}` cannot be written to")]
    ReadOnly { path: PathBuf },
    #[error("the store `{path}` is in use by another process, and did not become free in time")]
    Busy { path: PathBuf },
    #[error("the store `{path}` failed: {reason}")]
    Failed { path: PathBuf, reason: String },
}

impl StoreError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            StoreError::NotAStore { .. } => {
                Some("name another file with the setting `store.path`; this one was left as it is")
            }
            StoreError::Newer { .. } => {
                Some("use the newer assize that wrote it, or another store")
            }
            StoreError::Damaged { .. } => Some(
                "keep a copy of the file; `sqlite3 FILE .recover` may save what is in it. Move it \
                 away, or name another with `store.path`, to go on",
            ),
            StoreError::Full { .. } => Some(
                "make room on the disk and try again; runs that are in the store already are kept",
            ),
            StoreError::ReadOnly { .. } => {
                Some("make the file and its folder writable, or name another with `store.path`")
            }
            StoreError::Busy { .. } => Some("wait for the other process, or stop it"),
            _ => None,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let kind = match &error {
            StoreError::NoSuchRun(_)
            | StoreError::NoSuchArtifact(_)
            | StoreError::AskedBefore { .. }
            | StoreError::Done(_) => FailureKind::Usage,
            StoreError::NotAStore { .. } | StoreError::Newer { .. } => FailureKind::Settings,
            StoreError::Fenced(_)
            | StoreError::Unopened { .. }
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
                    "`assize runs show {id}` shows its result, `assize runs fork {id}` makes calls again that failed"
                ),
                false => format!("`assize runs show {id}` shows its result"),
            }),
            error => error.hint().map(str::to_owned),
        };
        Failure::new(kind, error.to_string()).maybe_hint(hint.as_deref())
    }
}

//! The draft service of a workspace: what it is set up with, and what can be read without its lock.
//!
//! Several processes may serve one workspace. Every change is made in a [`Transaction`](crate::transaction).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_gate::{
    BadGlob, BadPattern, BadTaskId, Contract, ContractError, Diff, Policy, Verification, Verifier,
};
use assize_run::{AuditEntry, Store, StoreError};
use assize_types::{Failure, FailureKind, Fingerprint};
use assize_workspace::{
    Copies, DRAFTS, FileError, Folder, GitSettings, HANDOFF, Lock, Wait, Workspace,
};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::ledger::{Known, Ledger, Mirror, TRANSITIONS};
use crate::state::{DraftState, Proposed};

/// The actor of what the gate decides by itself.
pub const GATE: &str = "gate";

/// What a draft service is set up with.
#[derive(Debug, Clone)]
pub struct Options {
    /// By the settings; a contract may tighten it.
    pub policy: Policy,
    /// Git's settings of the user.
    pub git: GitSettings,
    /// The sandbox of verifications.
    pub verifier: Option<Arc<dyn Verifier>>,
    /// How long a worker waits for the verdict; it is told later otherwise.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        let patience = Duration::from_secs(25);
        Options { policy: Policy::default(), git: GitSettings::default(), verifier: None, patience }
    }
}

/// Why a call was not done. The message is for the caller, and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// A path that is not allowed; the refusal is in the audit log.
    #[error("{0}")]
    Refused(String),
    /// Something that cannot be done like this.
    #[error("{0}")]
    Wrong(String),
    #[error(transparent)]
    Task(#[from] BadTaskId),
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error("a pattern in the settings is not right: {0}")]
    Pattern(#[from] BadGlob),
    #[error("the gate stays closed: {0}; this is a bug in assize, please report it")]
    Scanner(#[from] BadPattern),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("`{what}`: {error}")]
    File { what: String, error: FileError },
    /// A reviewer's decision that the files do not allow.
    #[error("{0}")]
    Conflict(String),
    /// A change that was begun, and that the disk does not let finish for now.
    #[error("{0}")]
    Unfinished(String),
}

impl From<DraftError> for Failure {
    fn from(error: DraftError) -> Failure {
        let kind = match error {
            DraftError::Store(error) => return error.into(),
            DraftError::Scanner(_) | DraftError::File { .. } | DraftError::Unfinished(_) => {
                FailureKind::Environment
            }
            DraftError::Refused(_) | DraftError::Wrong(_) | DraftError::Task(_) => {
                FailureKind::Usage
            }
            DraftError::Contract(_) | DraftError::Pattern(_) => FailureKind::Settings,
            DraftError::Conflict(_) => FailureKind::Verdict,
        };
        Failure::from_error(kind, &error)
    }
}

pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(FileError) -> DraftError {
    let what = what.into();
    move |error| DraftError::File { what, error }
}

/// The error of a call that cannot be done like this.
pub(crate) fn wrong(why: impl std::fmt::Display) -> DraftError {
    DraftError::Wrong(why.to_string())
}

/// Draft service of one workspace.
#[derive(Debug)]
pub struct DraftService {
    pub(crate) workspace: Workspace,
    pub(crate) options: Options,
    pub(crate) copies: Copies,
    /// Decisions under way.
    pub(crate) deciding: TaskTracker,
    pub(crate) ledger: Ledger,
    /// What is kept of this workspace, outside it: locks, copies, and copies that are verified.
    pub(crate) folder: Arc<Folder>,
    /// The same, as a path.
    pub(crate) folder_path: PathBuf,
    pub(crate) known: Arc<Mutex<Known>>,
    pub(crate) verification: Verification,
}

impl DraftService {
    /// Opens the draft service of a workspace; what is kept outside it is kept in `state`.
    pub fn open(
        workspace: &Path,
        state: &Path,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Arc<DraftService>, DraftError> {
        let shown = workspace.display().to_string();
        let workspace =
            Workspace::open(workspace).map_err(|error| file(&shown)(FileError::Io(error)))?;
        let hash = Fingerprint::of(workspace.path().as_os_str().as_encoded_bytes()).to_string();
        let folder_path = state.join(&hash[..16]);
        let shown = || file(folder_path.display().to_string());
        let folder = Folder::at(&folder_path).map_err(shown())?;
        let copies = folder.folder("copies").map_err(shown())?;
        let subject = workspace.path().to_string_lossy().into_owned();
        Ok(Arc::new(DraftService {
            ledger: Ledger { store, subject },
            copies: Copies::new(copies),
            deciding: TaskTracker::new(),
            folder: Arc::new(folder),
            known: Arc::default(),
            verification: Verification::new(
                workspace.path(),
                &folder_path,
                options.verifier.clone(),
            ),
            folder_path,
            workspace,
            options,
        }))
    }

    /// What its entries in the log of all workspaces are about.
    pub fn subject(&self) -> &str {
        &self.ledger.subject
    }

    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// The current state, read without the lock.
    pub async fn state(&self) -> Result<DraftState, DraftError> {
        let mut known = self.known.lock().await;
        known.catch_up(&self.ledger).await?;
        Ok(known.state.clone())
    }

    /// All entries about this workspace.
    pub async fn entries(&self) -> Result<Vec<AuditEntry>, DraftError> {
        Ok(self.ledger.entries(0).await?)
    }

    /// Compares the log in the workspace with the store.
    pub async fn compare_logs(&self) -> Result<Mirror, DraftError> {
        let entries = self.ledger.entries(0).await?;
        let handoff = match self.workspace.root().existing(HANDOFF) {
            Err(FileError::Missing) if entries.is_empty() => return Ok(Mirror::Same),
            Err(FileError::Missing) => return Ok(Mirror::Short { lines: 0 }),
            found => found.map_err(file(HANDOFF))?,
        };
        Ok(Mirror::of(&handoff, &entries).map_err(file(TRANSITIONS))?.0)
    }

    /// The contract that is in force, if there is one.
    pub fn contract(&self) -> Result<Option<Contract>, DraftError> {
        match self.workspace.root().existing(HANDOFF) {
            Ok(handoff) => Ok(Contract::read(&handoff)?),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(file(HANDOFF)(error)),
        }
    }

    /// What was kept of a file's content.
    pub fn copy(&self, hash: Fingerprint) -> Result<Vec<u8>, DraftError> {
        self.copies.get(hash).map_err(|error| match error {
            FileError::Missing => {
                wrong("what it was is not kept any more (setting `draft.keep_days`)")
            }
            error => file(hash.to_string())(error),
        })
    }

    /// What was kept of a file before a change; empty for a new file.
    pub(crate) fn base(&self, before: Option<Fingerprint>) -> Result<Vec<u8>, DraftError> {
        before.map_or(Ok(Vec::new()), |hash| self.copy(hash))
    }

    /// Keeps a copy of a file's content.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Result<Fingerprint, DraftError> {
        self.copies.keep(bytes).map_err(file("copies"))
    }

    /// What is in the workspace now under a path; `None` if nothing is.
    pub fn current(&self, path: &str) -> Result<Option<Vec<u8>>, DraftError> {
        let inside = self.workspace.inside(path).map_err(wrong)?;
        let found = self.workspace.find(&inside, u64::MAX - 1).map_err(file(path))?;
        Ok(found.map(|original| original.bytes))
    }

    /// A draft as it is now.
    pub fn draft(&self, name: &str) -> Result<Vec<u8>, DraftError> {
        let read =
            || self.workspace.root().existing(HANDOFF)?.existing(DRAFTS)?.read(name, 1 << 30);
        read().map_err(file(name))
    }

    /// A submission as one unified diff.
    pub async fn patch(&self, id: u64) -> Result<String, DraftError> {
        let state = self.state().await?;
        let submission = state.submissions.get(&id);
        let unknown = || wrong(format!("no submission {id} in this workspace"));
        let files = &submission.ok_or_else(unknown)?.files;
        let diff = |file: &Proposed| {
            let (base, draft) = self.sides(file)?;
            Ok(Diff::unified(&file.path, &base, &draft))
        };
        files.iter().map(diff).collect()
    }

    /// A file as it was and as it is to be.
    pub fn sides(&self, file: &Proposed) -> Result<(String, String), DraftError> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((text(self.base(file.before)?), text(self.copy(file.after)?)))
    }

    /// A lock of this workspace; `None` while another holder has it.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<Lock>, DraftError> {
        self.folder.lock(name, Wait::No).map_err(file("lock"))
    }

    /// Waits for a lock of this workspace.
    pub(crate) async fn lock(&self, name: String) -> Result<Lock, DraftError> {
        if let Some(lock) = self.try_lock(&name)? {
            return Ok(lock);
        }
        let folder = self.folder.clone();
        let waited = tokio::task::spawn_blocking(move || folder.lock(&name, Wait::Yes)).await;
        let lost = || wrong("the wait for a lock was given up");
        waited.map_err(|_| lost())?.map_err(file("lock"))?.ok_or_else(lost)
    }
}

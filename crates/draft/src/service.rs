//! The draft service of a workspace: its options, and read operations that need no lock.
//!
//! Several processes can serve the same workspace. Every change is made in a [`Transaction`](crate::transaction).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_gate::{
    Contract, ContractError, Diff, InvalidGlob, InvalidPattern, InvalidTaskId, Policy,
    Verification, Verifier,
};
use assize_run::{AuditEntry, Store, StoreError};
use assize_types::{Failure, FailureKind, Fingerprint};
use assize_workspace::{
    ContentStore, DRAFTS, FileError, FolderHandle, FolderLock, GitSettings, HANDOFF, LockWait,
    Workspace,
};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::state::{DraftState, ProposedFile};
use crate::workspace_log::{LogCache, LogComparison, TRANSITIONS, WorkspaceLog};

/// Actor name of the gate in the log.
pub const GATE: &str = "gate";

/// Options of a draft service.
#[derive(Debug, Clone)]
pub struct DraftOptions {
    /// Policy from the settings; the contract of the workspace may tighten it.
    pub policy: Policy,
    /// The user's git settings.
    pub git: GitSettings,
    /// Verifier that runs the tests of the project in a sandbox.
    pub verifier: Option<Arc<dyn Verifier>>,
    /// Maximum time that a submit call waits for the verdict. If the verdict takes longer, a later response delivers
    /// it.
    pub verdict_timeout: Duration,
}

impl Default for DraftOptions {
    fn default() -> DraftOptions {
        let patience = Duration::from_secs(25);
        DraftOptions {
            policy: Policy::default(),
            git: GitSettings::default(),
            verifier: None,
            verdict_timeout: patience,
        }
    }
}

/// Error of a draft operation. The message includes what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// A path is not allowed; the refusal is recorded in the audit log.
    #[error("{0}")]
    PathRefused(String),
    /// The request is invalid.
    #[error("{0}")]
    InvalidRequest(String),
    #[error(transparent)]
    Task(#[from] InvalidTaskId),
    #[error(transparent)]
    Contract(#[from] ContractError),
    #[error("invalid pattern in the settings: {0}")]
    Pattern(#[from] InvalidGlob),
    #[error("the gate cannot start: {0}; this is a bug in assize, please report it")]
    Scanner(#[from] InvalidPattern),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot access `{what}`: {error}")]
    File { what: String, error: FileError },
    /// A reviewer's decision cannot be executed with the current content of the files.
    #[error("{0}")]
    Conflict(String),
    /// A change of files was started, but cannot be finished for now because of an I/O error.
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
            DraftError::PathRefused(_) | DraftError::InvalidRequest(_) | DraftError::Task(_) => {
                FailureKind::Usage
            }
            DraftError::Contract(_) | DraftError::Pattern(_) => FailureKind::Settings,
            DraftError::Conflict(_) => FailureKind::Verdict,
        };
        Failure::from_error(kind, &error)
    }
}

/// Returns a function that adds a file's name to a file error.
pub(crate) fn file_error(what: impl Into<String>) -> impl FnOnce(FileError) -> DraftError {
    let what = what.into();
    move |error| DraftError::File { what, error }
}

/// Creates the error for an invalid request.
pub(crate) fn invalid_request(why: impl std::fmt::Display) -> DraftError {
    DraftError::InvalidRequest(why.to_string())
}

/// Draft service of one workspace.
#[derive(Debug)]
pub struct DraftService {
    pub(crate) workspace: Workspace,
    pub(crate) options: DraftOptions,
    pub(crate) contents: ContentStore,
    /// Background tasks that decide on submissions.
    pub(crate) decision_tasks: TaskTracker,
    pub(crate) log: WorkspaceLog,
    /// State folder outside the workspace: locks, copies of file contents, and workspace copies for verifications.
    pub(crate) state_folder: Arc<FolderHandle>,
    /// Path of the state folder.
    pub(crate) state_folder_path: PathBuf,
    pub(crate) log_cache: Arc<Mutex<LogCache>>,
    pub(crate) verification: Verification,
}

impl DraftService {
    /// Opens the draft service of a workspace. `state` is the folder that contains the state folders of all workspaces.
    pub fn open(
        workspace: &Path,
        state: &Path,
        store: Arc<dyn Store>,
        options: DraftOptions,
    ) -> Result<Arc<DraftService>, DraftError> {
        let shown = workspace.display().to_string();
        let workspace =
            Workspace::open(workspace).map_err(|error| file_error(&shown)(FileError::Io(error)))?;
        let hash = Fingerprint::of(workspace.path().as_os_str().as_encoded_bytes()).to_string();
        let folder_path = state.join(&hash[..16]);
        let shown = || file_error(folder_path.display().to_string());
        let folder = FolderHandle::open_or_create_at(&folder_path).map_err(shown())?;
        let copies = folder.open_or_create("copies").map_err(shown())?;
        let subject = workspace.path().to_string_lossy().into_owned();
        Ok(Arc::new(DraftService {
            log: WorkspaceLog { store, subject },
            contents: ContentStore::new(copies),
            decision_tasks: TaskTracker::new(),
            state_folder: Arc::new(folder),
            log_cache: Arc::default(),
            verification: Verification::new(
                workspace.path(),
                &folder_path,
                options.verifier.clone(),
            ),
            state_folder_path: folder_path,
            workspace,
            options,
        }))
    }

    /// Path of the workspace. The audit log entries of the workspace have this path as their subject.
    pub fn subject(&self) -> &str {
        &self.log.subject
    }

    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// Reads the current state of the drafts, without acquiring the workspace lock.
    pub async fn state(&self) -> Result<DraftState, DraftError> {
        let mut known = self.log_cache.lock().await;
        known.catch_up(&self.log).await?;
        Ok(known.state.clone())
    }

    /// Reads all audit log entries of this workspace.
    pub async fn entries(&self) -> Result<Vec<AuditEntry>, DraftError> {
        Ok(self.log.entries(0).await?)
    }

    /// Compares the log file in the workspace with the audit log of the store.
    pub async fn compare_logs(&self) -> Result<LogComparison, DraftError> {
        let entries = self.log.entries(0).await?;
        let handoff = match self.workspace.root().existing(HANDOFF) {
            Err(FileError::Missing) if entries.is_empty() => return Ok(LogComparison::Same),
            Err(FileError::Missing) => return Ok(LogComparison::Short { lines: 0 }),
            found => found.map_err(file_error(HANDOFF))?,
        };
        Ok(LogComparison::of(&handoff, &entries).map_err(file_error(TRANSITIONS))?.0)
    }

    /// Reads the contract of the workspace, if there is one.
    pub fn contract(&self) -> Result<Option<Contract>, DraftError> {
        match self.workspace.root().existing(HANDOFF) {
            Ok(handoff) => Ok(Contract::read(&handoff)?),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(file_error(HANDOFF)(error)),
        }
    }

    /// Reads the stored file content with the given hash.
    pub fn stored_content(&self, hash: Fingerprint) -> Result<Vec<u8>, DraftError> {
        self.contents.get(hash).map_err(|error| match error {
            FileError::Missing => {
                invalid_request("the stored file content was deleted (setting `draft.keep_days`)")
            }
            error => file_error(hash.to_string())(error),
        })
    }

    /// Reads the stored content that a file had before a change, given its hash; empty for a new file.
    pub(crate) fn old_content(&self, before: Option<Fingerprint>) -> Result<Vec<u8>, DraftError> {
        before.map_or(Ok(Vec::new()), |hash| self.stored_content(hash))
    }

    /// Stores a copy of a file's content; returns its hash.
    pub(crate) fn store_content(&self, bytes: &[u8]) -> Result<Fingerprint, DraftError> {
        self.contents.put(bytes).map_err(file_error("copies folder"))
    }

    /// Reads the current content of a file of the workspace; `None` if the file does not exist.
    pub fn current(&self, path: &str) -> Result<Option<Vec<u8>>, DraftError> {
        let inside = self.workspace.parse_path(path).map_err(invalid_request)?;
        let found = self.workspace.find(&inside, u64::MAX - 1).map_err(file_error(path))?;
        Ok(found.map(|original| original.bytes))
    }

    /// Reads the current content of a draft.
    pub fn draft(&self, name: &str) -> Result<Vec<u8>, DraftError> {
        let read =
            || self.workspace.root().existing(HANDOFF)?.existing(DRAFTS)?.read(name, 1 << 30);
        read().map_err(file_error(name))
    }

    /// Returns all changes of a submission as one unified diff.
    pub async fn patch(&self, id: u64) -> Result<String, DraftError> {
        let state = self.state().await?;
        let submission = state.submissions.get(&id);
        let unknown = || invalid_request(format!("no submission {id} in this workspace"));
        let files = &submission.ok_or_else(unknown)?.files;
        let diff = |file: &ProposedFile| {
            let (base, draft) = self.old_and_new_text(file)?;
            Ok(Diff::unified(&file.path, &base, &draft))
        };
        files.iter().map(diff).collect()
    }

    /// Reads the old and the proposed content of a file of a submission.
    pub fn old_and_new_text(&self, file: &ProposedFile) -> Result<(String, String), DraftError> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((text(self.old_content(file.before)?), text(self.stored_content(file.after)?)))
    }

    /// Tries to acquire a lock of this workspace by its name; returns `None` if the lock is already held.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<FolderLock>, DraftError> {
        self.state_folder.lock(name, LockWait::No).map_err(file_error("lock file"))
    }

    /// Acquires a lock of this workspace by its name; waits while the lock is held.
    pub(crate) async fn lock(&self, name: String) -> Result<FolderLock, DraftError> {
        if let Some(lock) = self.try_lock(&name)? {
            return Ok(lock);
        }
        let folder = self.state_folder.clone();
        let waited = tokio::task::spawn_blocking(move || folder.lock(&name, LockWait::Yes)).await;
        let lost = || invalid_request("cannot acquire a lock of the workspace");
        waited.map_err(|_| lost())?.map_err(file_error("lock file"))?.ok_or_else(lost)
    }
}

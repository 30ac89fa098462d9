//! The desk of a workspace: where workers get copies of files, write drafts and hand them in, and where what
//! becomes of them is decided and done.
//!
//! Several processes may sit at one desk. Whoever changes anything holds its lock, knows all that was written
//! down before, and first finishes what a process that died had begun.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_gate::{
    BadGlob, BadPattern, BadTaskId, Contract, ContractError, Places, Policy, TaskId, Verification,
    Verifier,
};
use assize_store::{AuditEntry, Store, StoreError};
use assize_types::Fingerprint;
use assize_workspace::{
    Copies, DRAFTS, FileError, Folder, GitSettings, HANDOFF, Lock, Wait, Workspace,
};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

use crate::ledger::{self, Ledger, Mirror, TRANSITIONS};
use crate::state::{DraftState, Message, Step, Submission};

/// The actor of what the gate decides by itself.
pub const GATE: &str = "gate";

/// What a desk is set up with.
#[derive(Clone)]
pub struct Options {
    /// By the settings; a contract may tighten it.
    pub policy: Policy,
    /// Git's settings of the user.
    pub git: GitSettings,
    /// Whoever can run a verification.
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

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Why something at the desk was not done. The words are for whoever asked, and say what to do.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// A path that leads where nobody may go; it is in the audit log.
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
    /// A person's decision that the files do not allow.
    #[error("{0}")]
    Conflict(String),
    /// Something that was begun, and that the disk lets nobody finish for now.
    #[error("{0}")]
    Unfinished(String),
}

pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(FileError) -> DraftError {
    let what = what.into();
    move |error| DraftError::File { what, error }
}

/// The desk of one workspace.
#[derive(Debug)]
pub struct DraftService {
    pub(crate) workspace: Workspace,
    pub(crate) options: Options,
    pub(crate) copies: Copies,
    /// Decisions under way.
    pub(crate) deciding: TaskTracker,
    ledger: Ledger,
    /// Of this workspace, outside it.
    pub(crate) state: Arc<Folder>,
    own: PathBuf,
    held: Mutex<Remembered>,
    pub(crate) verification: Verification,
}

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    pub(crate) book: DraftState,
    /// How long the log in the workspace should be; `None` until it was looked at.
    log_length: Option<u64>,
}

impl DraftService {
    /// Sits down at the desk of a workspace; what is kept outside it is kept in `state`.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn open(
        workspace: &Path,
        state: &Path,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Arc<DraftService>, DraftError> {
        let shown = workspace.display().to_string();
        let workspace =
            Workspace::open(workspace).map_err(|error| file(&shown)(FileError::Io(error)))?;
        let own = state.join(name_of(workspace.path()));
        let state = Folder::at(&own).map_err(file(own.display().to_string()))?;
        let copies = state.folder("copies").map_err(file(own.display().to_string()))?;
        let subject = workspace.path().to_string_lossy().into_owned();
        Ok(Arc::new(DraftService {
            ledger: Ledger::new(store, subject),
            copies: Copies::new(copies),
            deciding: TaskTracker::new(),
            state: Arc::new(state),
            held: Mutex::default(),
            verification: Verification::new(workspace.path(), &own, options.verifier.clone()),
            own,
            workspace,
            options,
        }))
    }

    /// What its entries in the log of all workspaces are about.
    pub fn subject(&self) -> &str {
        self.ledger.subject()
    }

    pub fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// Where what is kept of this workspace is, outside it.
    pub(crate) fn own_folder(&self) -> &Path {
        &self.own
    }

    /// How things stand, without a promise that they still do.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn state(&self) -> Result<DraftState, DraftError> {
        let mut held = self.held.lock().await;
        self.catch_up(&mut held).await?;
        Ok(held.book.clone())
    }

    async fn catch_up(&self, held: &mut Remembered) -> Result<(), DraftError> {
        let more = self.ledger.catch_up(&mut held.book).await?;
        held.log_length = held.log_length.map(|length| length + more);
        Ok(())
    }

    /// All entries about this workspace.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn entries(&self) -> Result<Vec<AuditEntry>, DraftError> {
        Ok(self.ledger.entries(0).await?)
    }

    /// Compares the log in the workspace with the store.
    ///
    /// # Errors
    /// When either cannot be read.
    pub async fn compare_logs(&self) -> Result<Mirror, DraftError> {
        let entries = self.ledger.entries(0).await?;
        let handoff = match Folder::existing_handoff(&self.workspace) {
            Err(FileError::Missing) if entries.is_empty() => return Ok(Mirror::Same),
            Err(FileError::Missing) => return Ok(Mirror::Short { lines: 0 }),
            found => found.map_err(file(HANDOFF))?,
        };
        Ok(Mirror::of(&handoff, &entries).map_err(file(TRANSITIONS))?.0)
    }

    /// The contract that is in force, if there is one.
    ///
    /// # Errors
    /// When it is not right.
    pub fn contract(&self) -> Result<Option<Contract>, DraftError> {
        match Folder::existing_handoff(&self.workspace) {
            Ok(handoff) => Ok(Contract::read(&handoff)?),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(file(HANDOFF)(error)),
        }
    }

    /// What was kept of a file's content.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn copy(&self, hash: Fingerprint) -> Result<Vec<u8>, DraftError> {
        self.copies.get(hash).map_err(|error| match error {
            FileError::Missing => DraftError::Wrong(
                "what it was is not kept any more (setting `draft.keep_days`)".to_owned(),
            ),
            error => file(hash.to_string())(error),
        })
    }

    /// What is in the workspace now under a path; `None` if nothing is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn current(&self, path: &str) -> Result<Option<Vec<u8>>, DraftError> {
        let inside = self.workspace.inside(path).map_err(|e| DraftError::Wrong(e.to_string()))?;
        let found = self.workspace.find(&inside, u64::MAX - 1).map_err(file(path))?;
        Ok(found.map(|original| original.bytes))
    }

    /// A draft as it is now.
    ///
    /// # Errors
    /// When it is not there.
    pub fn draft(&self, name: &str) -> Result<Vec<u8>, DraftError> {
        let read =
            || Folder::existing_handoff(&self.workspace)?.existing(DRAFTS)?.read(name, 1 << 30);
        read().map_err(file(name))
    }

    /// Takes the desk's lock: from then on nobody else changes anything.
    pub(crate) async fn hold(&self) -> Result<Transaction<'_>, DraftError> {
        let mut remembered = self.held.lock().await;
        let lock = match self.state.lock("lock", Wait::No).map_err(file("lock"))? {
            Some(lock) => lock,
            None => self.wait_for_lock().await?,
        };
        tracing::trace!(target: "assize_draft::lock", workspace = self.subject());
        self.catch_up(&mut remembered).await?;
        let handoff = Folder::handoff(&self.workspace).map_err(file(HANDOFF))?;
        let drafts = handoff.folder(DRAFTS).map_err(file(format!("{HANDOFF}/{DRAFTS}")))?;
        let mut held = Transaction { _lock: lock, desk: self, remembered, handoff, drafts };
        held.mend_log().await?;
        held.finish_what_was_begun().await?;
        Ok(held)
    }

    async fn wait_for_lock(&self) -> Result<Lock, DraftError> {
        let state = self.state.clone();
        let wait = move || state.lock("lock", Wait::Yes);
        let lost = || DraftError::Wrong("the wait for the desk was given up".to_owned());
        let lock = tokio::task::spawn_blocking(wait).await.map_err(|_| lost())?;
        lock.map_err(file("lock"))?.ok_or_else(lost)
    }

    /// Switches the tools on or off; whether that changed anything.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn switch(&self, by: &str, on: bool) -> Result<bool, DraftError> {
        let mut held = self.hold().await?;
        if held.state().off != on {
            return Ok(false);
        }
        held.note(by, Step::Switched { on }).await?;
        Ok(true)
    }
}

/// What a workspace's own folder is called.
fn name_of(workspace: &Path) -> PathBuf {
    let hash = Fingerprint::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    PathBuf::from(&hash[..16])
}

/// The desk, with its lock, which goes first so that others here need not wait for it.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    _lock: Lock,
    pub(crate) desk: &'a DraftService,
    remembered: MutexGuard<'a, Remembered>,
    pub(crate) handoff: Folder,
    pub(crate) drafts: Folder,
}

impl Transaction<'_> {
    pub(crate) fn state(&self) -> &DraftState {
        &self.remembered.book
    }

    /// Writes a step down, in the store and in the workspace.
    pub(crate) async fn note(&mut self, by: &str, step: Step) -> Result<u64, DraftError> {
        // Whoever waits may stop waiting after it is in the store and before it is in the workspace: as long as
        // both are not done, the copy is not what it should be, and is mended by whoever comes next.
        let length = self.remembered.log_length.take();
        let entry = self.desk.ledger.note(by, &step).await?;
        // What they had asked for may have been written down only now, before this.
        let mut lines = String::new();
        for entry in self.desk.ledger.entries(self.remembered.book.last).await? {
            self.remembered.book.take(&entry);
            lines.push_str(&ledger::line(&entry));
        }
        match self.handoff.append(TRANSITIONS, lines.as_bytes()) {
            Ok(()) => {
                self.remembered.log_length = length.map(|length| length + lines.len() as u64);
            }
            // It is written down where it counts.
            Err(error) => {
                tracing::warn!(%error, "the log in the workspace cannot be written to");
            }
        }
        Ok(entry.id)
    }

    /// Completes the log in the workspace where it is not as long as it should be: a process may have died
    /// before it wrote to it, or somebody cleaned up.
    async fn mend_log(&mut self) -> Result<(), DraftError> {
        let there = self.handoff.stat(TRANSITIONS).map_err(file(TRANSITIONS))?;
        let length = there.map_or(0, |(length, _)| length);
        if self.remembered.log_length == Some(length) {
            return Ok(());
        }
        let entries = self.desk.ledger.entries(0).await?;
        let mended = Mirror::mend(&self.handoff, &entries).map_err(file(TRANSITIONS))?;
        let there = self.handoff.stat(TRANSITIONS).map_err(file(TRANSITIONS))?;
        self.remembered.log_length = Some(there.map_or(0, |(length, _)| length));
        if let Some(step) = mended {
            self.note(GATE, step).await?;
        }
        self.remove_left_drafts()
    }

    /// The policy of now: the settings under the contract.
    pub(crate) fn policy(&self) -> Result<(Policy, Places), DraftError> {
        let policy = self.desk.options.policy.under(Contract::read(&self.handoff)?);
        let places = policy.places()?;
        Ok((policy, places))
    }

    pub(crate) fn submission(&self, id: u64) -> Result<&Submission, DraftError> {
        let found = self.state().submissions.get(&id);
        found.ok_or_else(|| DraftError::Wrong(format!("there is no submission {id} here")))
    }

    pub(crate) fn refuse_if_off(&self) -> Result<(), DraftError> {
        match self.state().off {
            false => Ok(()),
            true => Err(DraftError::Wrong(
                "the draft tools are switched off in this workspace; stop, and tell the person you work for"
                    .to_owned(),
            )),
        }
    }

    /// Refuses a path: logs it as a security event and records it in the audit log.
    pub(crate) async fn refuse(
        &mut self,
        by: &str,
        tool: &str,
        task: Option<&str>,
        path: &str,
        why: String,
    ) -> DraftError {
        let short = |text: &str| assize_types::text::shorten(text, 200);
        tracing::error!(
            worker = by,
            tool,
            workspace = %self.desk.workspace.path().display(),
            path = %short(path).escape_debug(),
            "SECURITY: path refused: {}",
            short(&why).escape_debug(),
        );
        let step = Step::Refused {
            tool: tool.to_owned(),
            task: task.map(short),
            path: short(path),
            why: assize_types::text::shorten(&why, 400),
        };
        match self.note(by, step).await {
            Ok(_) => DraftError::Refused(why),
            Err(error) => error,
        }
    }

    /// What the worker of a task has not been told yet; it is, by this.
    pub(crate) async fn messages(&mut self, task: &TaskId) -> Result<Vec<Message>, DraftError> {
        let of_task = |message: &&Message| message.task_id == *task;
        let messages: Vec<Message> =
            self.state().pending.values().filter(of_task).cloned().collect();
        let last = self.state().pending.iter().rev().find(|(_, message)| message.task_id == *task);
        if let Some(up_to) = last.map(|(id, _)| *id) {
            self.note(GATE, Step::Told { task: task.clone(), up_to }).await?;
        }
        Ok(messages)
    }
}

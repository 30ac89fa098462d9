//! The desk of a workspace: where workers get copies of files, write drafts and hand them in, and where what
//! becomes of them is decided and done.
//!
//! Several processes may sit at one desk. Whoever changes anything holds its lock, knows all that was written
//! down before, and first finishes what a process that died had begun.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_store::{AuditEntry, Store, StoreError};
use assize_types::Fingerprint;
use tokio::sync::{Mutex, MutexGuard};

use crate::apply::{Applier, ApplyError};
use crate::book::{Book, Message, Stage, Step, Submission, message_id};
use crate::contract::{Contract, ContractError};
use crate::copies::Copies;
use crate::folder::{DRAFTS, Folder, HANDOFF, Lock, Wait};
use crate::gate::{Effect, Reason, Verdict};
use crate::globs::BadGlob;
use crate::ledger::{self, Ledger, Mirror, TRANSITIONS};
use crate::policy::{Places, Policy};
use crate::task::{BadTaskId, TaskId};
use crate::verify::Verifier;
use crate::workspace::{FileError, Workspace};

/// The actor of what the gate decides by itself.
pub const GATE: &str = "gate";

/// Where what is to come is staged, below the folder of everything that is handed over.
const STAGING: &str = "staging";

/// What a desk is set up with.
#[derive(Clone)]
pub struct Options {
    /// By the settings; a contract may tighten it.
    pub policy: Policy,
    /// Whoever can run a verification.
    pub verifier: Option<Arc<dyn Verifier>>,
    /// How long a worker waits for the verdict; it is told later otherwise.
    pub patience: Duration,
    /// How long what is settled can be shown and undone.
    pub keep: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            policy: Policy::default(),
            verifier: None,
            patience: Duration::from_secs(25),
            keep: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Why something at the desk was not done. The words are for whoever asked, and say what to do.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
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
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("`{what}`: {source}")]
    File { what: String, source: FileError },
    /// A person's decision that the files do not allow.
    #[error("{0}")]
    Conflict(String),
}

pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(FileError) -> DeskError {
    let what = what.into();
    move |source| DeskError::File { what, source }
}

/// The desk of one workspace.
#[derive(Debug)]
pub struct Desk {
    pub(crate) workspace: Workspace,
    pub(crate) options: Options,
    pub(crate) copies: Copies,
    ledger: Ledger,
    /// Of this workspace, outside it.
    state: Arc<Folder>,
    own: PathBuf,
    held: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    book: Book,
    /// Whether the log in the workspace was looked at.
    log_seen: bool,
}

impl Desk {
    /// Sits down at the desk of a workspace; what is kept outside it is kept in `state`.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn open(
        workspace: &Path,
        state: &Path,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Arc<Desk>, DeskError> {
        let shown = workspace.display().to_string();
        let workspace =
            Workspace::open(workspace).map_err(|error| file(&shown)(FileError::Io(error)))?;
        let own = state.join(name_of(workspace.path()));
        let state = Folder::at(&own).map_err(file(own.display().to_string()))?;
        let copies = state.folder("copies").map_err(file(own.display().to_string()))?;
        let subject = workspace.path().to_string_lossy().into_owned();
        Ok(Arc::new(Desk {
            ledger: Ledger::new(store, subject),
            copies: Copies::new(copies),
            state: Arc::new(state),
            held: Mutex::default(),
            own,
            workspace,
            options,
        }))
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
    pub async fn book(&self) -> Result<Book, DeskError> {
        let mut held = self.held.lock().await;
        self.ledger.catch_up(&mut held.book).await?;
        Ok(held.book.clone())
    }

    /// All entries about this workspace.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn entries(&self) -> Result<Vec<AuditEntry>, DeskError> {
        Ok(self.ledger.entries(0).await?)
    }

    /// Compares the log in the workspace with the store.
    ///
    /// # Errors
    /// When either cannot be read.
    pub async fn compare_logs(&self) -> Result<Mirror, DeskError> {
        let entries = self.ledger.entries(0).await?;
        let handoff = match Folder::existing_handoff(&self.workspace) {
            Err(FileError::Missing) if entries.is_empty() => return Ok(Mirror::Same),
            Err(FileError::Missing) => return Ok(Mirror::Short { lines: 0 }),
            found => found.map_err(file(HANDOFF))?,
        };
        Ok(Mirror::of(&handoff, &entries).map_err(file(TRANSITIONS))?.0)
    }

    /// What was kept of a file's content.
    ///
    /// # Errors
    /// When it is not there any more.
    pub fn copy(&self, hash: Fingerprint) -> Result<Vec<u8>, DeskError> {
        self.copies.get(hash).map_err(|error| match error {
            FileError::Missing => DeskError::Wrong(
                "what it was is not kept any more (setting `draft.keep_days`)".to_owned(),
            ),
            error => file(hash.to_string())(error),
        })
    }

    /// What is in the workspace now under a path; `None` if nothing is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn current(&self, path: &str) -> Result<Option<Vec<u8>>, DeskError> {
        let inside = self.workspace.inside(path).map_err(|e| DeskError::Wrong(e.to_string()))?;
        match self.workspace.read(&inside, u64::MAX - 1) {
            Ok(original) => Ok(Some(original.bytes)),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(file(path)(error)),
        }
    }

    /// A draft as it is now.
    ///
    /// # Errors
    /// When it is not there.
    pub fn draft(&self, name: &str) -> Result<Vec<u8>, DeskError> {
        let read =
            || Folder::existing_handoff(&self.workspace)?.existing(DRAFTS)?.read(name, 1 << 30);
        read().map_err(file(name))
    }

    /// Takes the desk's lock: from then on nobody else changes anything.
    pub(crate) async fn hold(&self) -> Result<Held<'_>, DeskError> {
        let mut remembered = self.held.lock().await;
        let lock = match self.state.lock("lock", Wait::No).map_err(file("lock"))? {
            Some(lock) => lock,
            None => self.wait_for_lock().await?,
        };
        self.ledger.catch_up(&mut remembered.book).await?;
        let handoff = Folder::handoff(&self.workspace).map_err(file(HANDOFF))?;
        let drafts = handoff.folder(DRAFTS).map_err(file(format!("{HANDOFF}/{DRAFTS}")))?;
        let mut held = Held { desk: self, remembered, handoff, drafts, _lock: lock };
        held.complete_log().await?;
        held.finish_what_was_begun().await?;
        Ok(held)
    }

    async fn wait_for_lock(&self) -> Result<Lock, DeskError> {
        let state = self.state.clone();
        let wait = move || state.lock("lock", Wait::Yes);
        let lost = || DeskError::Wrong("the wait for the desk was given up".to_owned());
        let lock = tokio::task::spawn_blocking(wait).await.map_err(|_| lost())?;
        lock.map_err(file("lock"))?.ok_or_else(lost)
    }

    /// The right to decide on a submission; `None` where another process does.
    pub(crate) fn right_to_decide(&self, id: u64) -> Result<Option<Lock>, DeskError> {
        self.state.lock(&format!("deciding-{id}"), Wait::No).map_err(file("lock"))
    }

    pub(crate) fn forget_right(&self, id: u64) {
        // What stays is an empty file.
        let _ = self.state.remove(&format!("deciding-{id}"));
    }

    /// Switches the tools on or off; whether that changed anything.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub async fn switch(&self, by: &str, on: bool) -> Result<bool, DeskError> {
        let mut held = self.hold().await?;
        if held.book().off != on {
            return Ok(false);
        }
        held.note(by, Step::Switched { on }).await?;
        Ok(true)
    }

    /// Puts away what has been settled, or lain about, for longer than it is kept. Gives how many submissions,
    /// drafts and copies.
    ///
    /// # Errors
    /// When something cannot be put away.
    pub async fn sweep(&self, by: &str, now: u64, keep: Duration) -> Result<Cleared, DeskError> {
        let mut held = self.hold().await?;
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let old = |at: u64| at.saturating_add(keep) <= now;
        let settled =
            |stage: Stage| matches!(stage, Stage::Accepted | Stage::Rejected | Stage::Undone);
        let book = held.book();
        let abandoned: Vec<(String, TaskId)> = book
            .drafts
            .values()
            .filter(|draft| draft.submission.is_none() && old(draft.since))
            .map(|draft| (draft.name.clone(), draft.task.clone()))
            .collect();
        let submissions: Vec<u64> = book
            .submissions
            .values()
            .filter(|s| !s.swept && settled(s.stage) && old(s.settled))
            .map(|s| s.id)
            .collect();
        for (draft, task) in &abandoned {
            held.note(by, Step::Expired { draft: draft.clone(), task: task.clone() }).await?;
            held.drafts.remove(draft).map_err(file(draft))?;
        }
        let wanted: BTreeSet<Fingerprint> = held
            .book()
            .submissions
            .values()
            .filter(|s| !s.swept && !submissions.contains(&s.id))
            .flat_map(|s| {
                let proposed = s.files.iter().flat_map(|f| [f.before, Some(f.after)]);
                let replaced = s.replaced.iter().flat_map(|f| [f.before, f.after]);
                proposed.chain(replaced).flatten()
            })
            .chain(held.book().drafts.values().filter_map(|draft| draft.before))
            .collect();
        let copies = self.copies.sweep(&wanted).map_err(file("copies"))?;
        let cleared = Cleared { submissions: submissions.len(), drafts: abandoned.len(), copies };
        if !submissions.is_empty() || copies > 0 {
            held.note(by, Step::Swept { submissions, copies }).await?;
        }
        Ok(cleared)
    }
}

/// What was put away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Cleared {
    pub submissions: usize,
    pub drafts: usize,
    pub copies: usize,
}

/// What a workspace's own folder is called.
fn name_of(workspace: &Path) -> PathBuf {
    let hash = Fingerprint::of(workspace.as_os_str().as_encoded_bytes()).to_string();
    PathBuf::from(&hash[..16])
}

/// The desk, with its lock.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) desk: &'a Desk,
    remembered: MutexGuard<'a, Remembered>,
    pub(crate) handoff: Folder,
    pub(crate) drafts: Folder,
    _lock: Lock,
}

impl Held<'_> {
    pub(crate) fn book(&self) -> &Book {
        &self.remembered.book
    }

    /// Writes a step down, in the store and in the workspace.
    pub(crate) async fn note(&mut self, by: &str, step: Step) -> Result<u64, DeskError> {
        let entry = self.desk.ledger.note(by, &step).await?;
        self.remembered.book.take(&entry);
        let line = ledger::line(&entry);
        self.handoff.append(TRANSITIONS, line.as_bytes()).map_err(file(TRANSITIONS))?;
        Ok(entry.id)
    }

    /// Completes the log in the workspace where it ends too early, once in a process's life.
    async fn complete_log(&mut self) -> Result<(), DeskError> {
        if self.remembered.log_seen {
            return Ok(());
        }
        let entries = self.desk.ledger.entries(0).await?;
        let completed = Mirror::complete(&self.handoff, &entries).map_err(file(TRANSITIONS))?;
        self.remembered.log_seen = true;
        if let Some((lines_there, lines_added)) = completed {
            self.note(GATE, Step::LogCompleted { lines_there, lines_added }).await?;
        }
        self.remove_left_drafts()
    }

    /// Takes away drafts of what was settled, where a crash came between the entry and the drafts.
    fn remove_left_drafts(&self) -> Result<(), DeskError> {
        let names = self.drafts.names().map_err(file(DRAFTS))?;
        let left = |submission: &&Submission| {
            let settled = matches!(submission.stage, Stage::Accepted | Stage::Rejected);
            let is_left =
                |draft: &String| names.contains(draft) && !self.book().drafts.contains_key(draft);
            settled && submission.files.iter().any(|file| is_left(&file.draft))
        };
        self.book().submissions.values().filter(left).try_for_each(|left| self.remove_drafts(left))
    }

    /// The policy of now: the settings under the contract.
    pub(crate) fn policy(&self) -> Result<(Policy, Places), DeskError> {
        let policy = self.desk.options.policy.under(Contract::read(&self.handoff)?);
        let places = policy.places()?;
        Ok((policy, places))
    }

    pub(crate) fn submission(&self, id: u64) -> Result<&Submission, DeskError> {
        let found = self.book().submissions.get(&id);
        found.ok_or_else(|| DeskError::Wrong(format!("there is no submission {id} here")))
    }

    /// Refuses a path, which is written down.
    pub(crate) async fn refuse(
        &mut self,
        by: &str,
        tool: &str,
        task: Option<&str>,
        path: &str,
        why: String,
    ) -> DeskError {
        let short = |text: &str| assize_types::text::shorten(text, 200);
        let step = Step::Refused {
            tool: tool.to_owned(),
            task: task.map(short),
            path: short(path),
            why: why.clone(),
        };
        match self.note(by, step).await {
            Ok(_) => DeskError::Refused(why),
            Err(error) => error,
        }
    }

    /// What the worker of a task has not been told yet; it is, by this.
    pub(crate) async fn messages(&mut self, task: &TaskId) -> Result<Vec<Message>, DeskError> {
        let of_task = |message: &&Message| message.task_id == *task;
        let messages: Vec<Message> =
            self.book().pending.values().filter(of_task).cloned().collect();
        let last = self.book().pending.iter().rev().find(|(_, message)| message.task_id == *task);
        if let Some(up_to) = last.map(|(id, _)| *id) {
            self.note(GATE, Step::Told { task: task.clone(), up_to }).await?;
        }
        Ok(messages)
    }

    fn staging(&self) -> Result<Folder, DeskError> {
        self.handoff.folder(STAGING).map_err(file(format!("{HANDOFF}/{STAGING}")))
    }

    /// Finishes what a process that died had begun.
    async fn finish_what_was_begun(&mut self) -> Result<(), DeskError> {
        let begun = |submission: &&Submission| {
            matches!(submission.stage, Stage::Accepting | Stage::Undoing)
        };
        let begun: Vec<Submission> =
            self.book().submissions.values().filter(begun).cloned().collect();
        for submission in begun {
            let staging = self.staging()?;
            let applier = Applier { workspace: &self.desk.workspace, staging: &staging };
            let files = submission.changes();
            let bytes = |hash| self.desk.copies.get(hash);
            let resumed =
                applier.items(submission.id, &files).and_then(|i| applier.resume(&i, &bytes));
            let id = submission.id;
            match (resumed, submission.stage) {
                (Ok(()), Stage::Undoing) => {
                    self.note(GATE, Step::Undone { submission: id }).await?;
                }
                (Ok(()), _) => self.note_accepted(GATE, id, false).await?,
                (Err(error), _) => self.note_not_applied(GATE, id, &error, false).await?,
            }
        }
        Ok(())
    }

    /// Applies a submission: stages it, writes the intent down, changes the files.
    pub(crate) async fn apply(&mut self, by: &str, accept: Accept) -> Result<Applied, DeskError> {
        let Accept { submission, decision, told, .. } = accept;
        let staging = self.staging()?;
        let applier = Applier { workspace: &self.desk.workspace, staging: &staging };
        let items = match applier.items(submission, &accept.files) {
            Ok(items) => items,
            Err(error) => return Ok(Applied::Not(error.to_string())),
        };
        let desk = self.desk;
        let bytes = |hash| desk.copies.get(hash);
        if let Err(error) = applier.stage(&items, &bytes) {
            return Ok(Applied::Not(error.to_string()));
        }
        let step = Step::Accepting {
            submission,
            decision,
            reasons: accept.reasons,
            files: accept.files.clone(),
            policy: accept.policy,
            verified: accept.verified,
        };
        if let Err(error) = self.note(by, step).await {
            // Without an intent nothing is applied.
            applier.clear(&items);
            return Err(error);
        }
        match applier.apply(&items, &bytes) {
            Ok(()) => {
                self.note_accepted(by, submission, told).await?;
                Ok(Applied::Done)
            }
            Err(error) => {
                self.note_not_applied(by, submission, &error, told).await?;
                Ok(Applied::Not(error.to_string()))
            }
        }
    }

    /// Takes back what was applied.
    pub(crate) async fn undo(&mut self, by: &str, id: u64) -> Result<(), DeskError> {
        let submission = self.submission(id)?.clone();
        let files = submission.reversed();
        for file in files.iter().filter_map(|file| file.after) {
            self.desk.copy(file)?;
        }
        let staging = self.staging()?;
        let applier = Applier { workspace: &self.desk.workspace, staging: &staging };
        let conflict = |error: ApplyError| DeskError::Conflict(error.to_string());
        let items = applier.items(id, &files).map_err(conflict)?;
        let desk = self.desk;
        let bytes = |hash| desk.copies.get(hash);
        applier.stage(&items, &bytes).map_err(conflict)?;
        let step = Step::Undoing { submission: id, files: files.clone() };
        if let Err(error) = self.note(by, step).await {
            applier.clear(&items);
            return Err(error);
        }
        match applier.apply(&items, &bytes) {
            Ok(()) => self.note(by, Step::Undone { submission: id }).await.map(drop),
            Err(error) => {
                let why = error.to_string();
                self.note(by, Step::NotApplied { submission: id, why }).await?;
                Err(conflict(error))
            }
        }
    }

    async fn note_accepted(&mut self, by: &str, id: u64, told: bool) -> Result<(), DeskError> {
        self.note(by, Step::Accepted { submission: id, told }).await?;
        let submission = self.submission(id)?.clone();
        self.remove_drafts(&submission)
    }

    /// That an intent came to nothing: a person decides.
    async fn note_not_applied(
        &mut self,
        by: &str,
        id: u64,
        error: &ApplyError,
        told: bool,
    ) -> Result<(), DeskError> {
        let was_undone = self.submission(id)?.stage == Stage::Undoing;
        self.note(by, Step::NotApplied { submission: id, why: error.to_string() }).await?;
        if was_undone {
            return Ok(());
        }
        let submission = self.submission(id)?;
        let mut reasons = submission.reasons.clone();
        let file = submission.files.first().map(|file| file.path.clone()).unwrap_or_default();
        reasons.push(Reason {
            effect: Effect::Escalate,
            rule: "conflict".to_owned(),
            file,
            line: None,
            message: format!("it could not be applied: {error}"),
            what_to_do: "ask for the draft again, to start from the file as it is now".to_owned(),
        });
        let verified = submission.verified.clone();
        let policy = self.desk.options.policy.fingerprint();
        let decision = Verdict::Escalated;
        let step = Step::Escalated { submission: id, decision, reasons, policy, verified, told };
        self.note(GATE, step).await.map(drop)
    }

    /// Takes the drafts of a settled submission away, as far as nobody has asked for them anew.
    pub(crate) fn remove_drafts(&self, submission: &Submission) -> Result<(), DeskError> {
        for proposed in &submission.files {
            if !self.book().drafts.contains_key(&proposed.draft) {
                self.drafts.remove(&proposed.draft).map_err(file(&proposed.draft))?;
            }
        }
        let waits = |s: &Submission| {
            s.task == submission.task && matches!(s.stage, Stage::Submitted | Stage::Escalated)
        };
        let name = submission_file(&submission.task);
        match self.book().submissions.values().rev().find(|s| waits(s)) {
            Some(waiting) => self.write_submission(waiting),
            None => self.drafts.remove(&name).map_err(file(name)),
        }
    }

    /// Writes down beside the drafts what was submitted, for people. Nobody reads it back.
    pub(crate) fn write_submission(&self, submission: &Submission) -> Result<(), DeskError> {
        let name = submission_file(&submission.task);
        let mut shown = serde_json::json!({"message_id": message_id(submission.id)});
        shown["submission"] = serde_json::json!(submission);
        let text = serde_json::to_vec_pretty(&shown).unwrap_or_default();
        self.drafts.write(&name, &text).map_err(file(name))
    }
}

/// Where a task's submission is written down.
fn submission_file(task: &TaskId) -> String {
    format!("{task}.submission.json")
}

/// A submission that is to be applied.
#[derive(Debug)]
pub(crate) struct Accept {
    pub(crate) submission: u64,
    pub(crate) decision: Verdict,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) files: Vec<crate::book::Replacing>,
    pub(crate) policy: Fingerprint,
    pub(crate) verified: Option<crate::verify::Verified>,
    /// Whether the worker learns of it by the answer to what it asked.
    pub(crate) told: bool,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    Not(String),
}

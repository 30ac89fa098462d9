//! Context of a node: the state it sees, and effects, the only way to cause side effects.

use std::collections::HashSet;
use std::error::Error;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use assize_types::{Cancel, Fingerprint};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::State;
use crate::error::{EffectError, RunError};
use crate::journal::{Appended, EffectOutcome, EffectRecord, GraphEvent, Journal, JournalError};
use crate::key::{EffectKey, InvalidEffectKey, KeyScope, Visit};
use crate::options::{EffectStage, RunOptions, Signal};

/// Run state shared by all tasks: options and used effect keys.
pub(crate) struct RunContext {
    pub(crate) options: RunOptions,
    /// Keys of all effects started so far.
    used: Mutex<HashSet<EffectKey>>,
}

impl RunContext {
    pub(crate) fn new(options: RunOptions) -> RunContext {
        RunContext { options, used: Mutex::default() }
    }

    pub(crate) fn journal(&self) -> Option<&dyn Journal> {
        self.options.journal.as_deref()
    }

    pub(crate) fn signal(&self, signal: &Signal<'_>) {
        if let Some(observer) = &self.options.observer {
            observer(signal);
        }
    }

    /// Whether a journal or an observer receives events.
    fn has_listeners(&self) -> bool {
        self.options.journal.is_some() || self.options.observer.is_some()
    }

    /// Reserves a key, which only one effect of a run may use.
    pub(crate) fn take(&self, key: &EffectKey) -> Result<(), RunError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.insert(key.clone()) {
            true => Ok(()),
            false => Err(RunError::DuplicateKey { key: key.clone() }),
        }
    }

    /// Appends a record with the events of its step. Returns the existing record if the key already has one.
    pub(crate) async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Option<EffectRecord>, RunError> {
        let Some(journal) = self.journal() else {
            events.iter().for_each(|event| self.signal(&Signal::Event { id: None, event }));
            return Ok(None);
        };
        // `append` consumes the events; the observer needs a copy.
        let observed = if self.options.observer.is_some() { events.clone() } else { Vec::new() };
        match journal.append(record, events).await? {
            Appended::Existing(existing) => Ok(Some(existing)),
            Appended::Recorded { event_ids } => {
                for (event, id) in observed.iter().zip(event_ids) {
                    self.signal(&Signal::Event { id: Some(id), event });
                }
                Ok(None)
            }
        }
    }
}

/// Argument of a node's body.
///
/// The state contains the updates of the node's causal ancestors and nothing else. Everything that is not computed
/// from the state goes through [`Context::effect`], so that a node executed again returns the same updates.
pub struct Context<S: State> {
    state: Arc<S>,
    item: Option<Arc<S::Item>>,
    pub(crate) run: Arc<RunContext>,
    pub(crate) scope: KeyScope,
    /// Scope in which visits are recorded. It differs from `scope` inside a subgraph.
    pub(crate) place: KeyScope,
    pub(crate) visit: Visit,
    /// Number of nodes on the path to here, including this one.
    pub(crate) steps: u32,
    pub(crate) halt: Cancel,
    pending: PendingEvents,
}

/// Events emitted by a node and not yet recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingEvents(Arc<Mutex<Vec<GraphEvent>>>);

impl PendingEvents {
    pub(crate) fn take(&self) -> Vec<GraphEvent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: State> Clone for Context<S> {
    fn clone(&self) -> Context<S> {
        Context {
            state: self.state.clone(),
            item: self.item.clone(),
            run: self.run.clone(),
            scope: self.scope.clone(),
            place: self.place.clone(),
            visit: self.visit,
            steps: self.steps,
            halt: self.halt.clone(),
            pending: self.pending.clone(),
        }
    }
}

impl<S: State> std::fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl<S: State> Context<S> {
    pub(crate) fn new(
        seen: (Arc<S>, Option<Arc<S::Item>>),
        run: Arc<RunContext>,
        (scope, place, visit): (KeyScope, KeyScope, Visit),
        steps: u32,
        halt: Cancel,
    ) -> Context<S> {
        let ((state, item), pending) = (seen, PendingEvents::default());
        Context { state, item, run, scope, place, visit, steps, halt, pending }
    }

    pub fn state(&self) -> &S {
        &self.state
    }

    /// The item that the fan-out passed to this branch.
    pub fn item(&self) -> Option<&S::Item> {
        self.item.as_deref()
    }

    /// Returns the run-wide key of an effect of this branch.
    pub fn key(&self, name: &str) -> Result<EffectKey, InvalidEffectKey> {
        self.scope.key(name)
    }

    /// Cancellation of the run, to pass on to everything the node awaits.
    pub fn cancel(&self) -> &Cancel {
        &self.run.options.cancel
    }

    /// Emits an event. It is written when this node starts its next effect or returns; a resumed run does not emit it
    /// twice.
    pub fn emit(&self, event: impl Into<GraphEvent>) {
        self.pending.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
    }

    /// Handle to the emitted events that are not written yet; see [`Context::emit`].
    pub(crate) fn told(&self) -> PendingEvents {
        self.pending.clone()
    }

    /// Executes an effect, unless the journal already has its outcome, which is then replayed. A new outcome is recorded
    /// before it is returned.
    ///
    /// `key` names the effect within this branch. `request` identifies the request; it is computed only if there is a
    /// journal. `tell` returns the events about the outcome, which are written together with it.
    pub async fn effect<T, E, F>(
        &self,
        key: &str,
        request: impl FnOnce() -> Fingerprint,
        call: F,
        tell: impl FnOnce(&T) -> Vec<GraphEvent>,
    ) -> Result<T, EffectError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, E>>,
    {
        let key = self.scope.key(key).map_err(RunError::from)?;
        self.run.take(&key)?;
        let signal = |stage| self.run.signal(&Signal::Effect { key: &key, stage });
        // Events emitted before this effect belong to its step, even if effects run in parallel.
        let mut events = self.pending.take();
        let mut failed = FailedEffect {
            key: key.clone(),
            request: Fingerprint::NONE,
            events: Vec::new(),
            recorded: false,
            error: (),
        };
        if let Some(journal) = self.run.journal() {
            failed.request = request();
            if let Some(record) = journal.find(&key).await.map_err(RunError::from)? {
                let outcome = read::<T, E>(record, failed.request)?;
                signal(if outcome.is_ok() { EffectStage::Replayed } else { EffectStage::Failed });
                failed.recorded = true;
                return outcome.map_err(|error| EffectError::Failed(failed.with_error(error)));
            }
            if let Some(text) = journal.inherited(&key, failed.request) {
                let value = serde_json::from_str(&text)
                    .map_err(|source| RunError::Unreadable { key: key.clone(), source })?;
                events.extend(tell(&value));
                let (request, outcome) = (failed.request, EffectOutcome::Done(text));
                self.run
                    .append(EffectRecord { key: key.clone(), request, outcome }, events)
                    .await?;
                signal(EffectStage::Inherited);
                return Ok(value);
            }
        }
        self.check_running()?;
        events = self.record_pending(&key, events).await?;
        signal(EffectStage::Started);
        let value = match call.await {
            Ok(value) => value,
            Err(error) => {
                signal(EffectStage::Failed);
                failed.events = events;
                return Err(EffectError::Failed(failed.with_error(error)));
            }
        };
        if self.run.has_listeners() {
            events.extend(tell(&value));
        }
        let outcome = match self.run.journal() {
            Some(_) => EffectOutcome::Done(json(&key, &value)?),
            None => EffectOutcome::Done(String::new()),
        };
        let record = EffectRecord { key: key.clone(), request: failed.request, outcome };
        let winner = self.run.append(record, events).await?;
        signal(EffectStage::Recorded);
        match winner {
            None => Ok(value),
            Some(winner) => read::<T, E>(winner, failed.request)?.map_err(|error| {
                failed.recorded = true;
                EffectError::Failed(failed.with_error(error))
            }),
        }
    }

    /// Writes the events emitted before an effect, so that subscribers get them before its outcome. A marker record
    /// keeps a resumed run from writing them again. Returns the events that are still to be written.
    async fn record_pending(
        &self,
        key: &EffectKey,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<GraphEvent>, RunError> {
        if events.is_empty() || !self.run.has_listeners() {
            return Ok(events);
        }
        // If the marker's key is too long, the events are written together with the outcome.
        let Ok(marker) = EffectKey::new(&format!("{key}.begun")) else { return Ok(events) };
        let known = match self.run.journal() {
            Some(journal) => journal.find(&marker).await.map_err(RunError::from)?,
            None => None,
        };
        if known.is_none() {
            let outcome = EffectOutcome::Done("null".to_owned());
            self.run
                .append(EffectRecord { key: marker, request: Fingerprint::NONE, outcome }, events)
                .await?;
        }
        Ok(Vec::new())
    }

    /// Continues after a failed effect: records the failure, so that a resumed run takes the same path. A failure that
    /// is not recorded must fail the node.
    pub async fn go_on<E>(&self, failed: FailedEffect<E>) -> Result<E, RunError>
    where
        E: Serialize,
    {
        let FailedEffect { key, request, events, recorded, error } = failed;
        if recorded || self.run.journal().is_none() {
            events.iter().for_each(|event| self.run.signal(&Signal::Event { id: None, event }));
            return Ok(error);
        }
        let outcome = EffectOutcome::Failed(json(&key, &error)?);
        match self.run.append(EffectRecord { key, request, outcome }, events).await? {
            None => Ok(error),
            // Another process has recorded a different outcome: it has taken over the run.
            Some(_) => Err(RunError::Journal(JournalError::Fenced)),
        }
    }

    /// Fails once the run is cancelled or halted: no new effect may start then.
    fn check_running(&self) -> Result<(), RunError> {
        if self.cancel().is_cancelled() {
            return Err(RunError::Cancelled { reason: self.cancel().reason() });
        }
        if self.halt.is_cancelled() {
            return Err(RunError::Halted);
        }
        Ok(())
    }
}

/// A failed effect, not yet recorded in the journal.
#[derive(Debug)]
#[must_use = "record the failure with `Context::go_on` to continue after it"]
pub struct FailedEffect<E> {
    pub error: E,
    key: EffectKey,
    request: Fingerprint,
    events: Vec<GraphEvent>,
    recorded: bool,
}

impl FailedEffect<()> {
    fn with_error<E>(self, error: E) -> FailedEffect<E> {
        let FailedEffect { key, request, events, recorded, error: () } = self;
        FailedEffect { error, key, request, events, recorded }
    }
}

impl<E: Error> std::fmt::Display for FailedEffect<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` failed: {}", self.key, self.error)
    }
}

/// Decodes the outcome of a record, if its request equals `request`.
fn read<T: DeserializeOwned, E: DeserializeOwned>(
    record: EffectRecord,
    request: Fingerprint,
) -> Result<Result<T, E>, RunError> {
    if record.request != request {
        return Err(RunError::Changed { key: record.key });
    }
    let unreadable = |source| RunError::Unreadable { key: record.key.clone(), source };
    match &record.outcome {
        EffectOutcome::Done(text) => Ok(Ok(serde_json::from_str(text).map_err(unreadable)?)),
        EffectOutcome::Failed(text) => Ok(Err(serde_json::from_str(text).map_err(unreadable)?)),
    }
}

fn json(key: &EffectKey, value: &impl Serialize) -> Result<String, RunError> {
    serde_json::to_string(value).map_err(|source| RunError::Unreadable { key: key.clone(), source })
}

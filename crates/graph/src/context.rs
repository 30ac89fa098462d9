//! Context of a node: gives the node's code the state of the run, and executes the node's side effects so that their
//! outcomes are recorded.

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

/// Data for all tasks of a run: the options and the used effect keys.
pub(crate) struct RunContext {
    pub(crate) options: RunOptions,
    /// Keys of all effects that the run has started so far.
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

    /// Whether a journal or an observer receives the events of the run.
    fn has_listeners(&self) -> bool {
        self.options.journal.is_some() || self.options.observer.is_some()
    }

    /// Reserves an effect key. Returns an error if another effect of the run uses the same key.
    pub(crate) fn reserve_key(&self, key: &EffectKey) -> Result<(), RunError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.insert(key.clone()) {
            true => Ok(()),
            false => Err(RunError::DuplicateKey { key: key.clone() }),
        }
    }

    /// Appends a record and its events to the journal. Returns the existing record if the key already has a record.
    pub(crate) async fn append(
        &self,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Option<EffectRecord>, RunError> {
        let Some(journal) = self.journal() else {
            events.iter().for_each(|event| self.signal(&Signal::Event { id: None, event }));
            return Ok(None);
        };
        // `Journal::append` consumes the events, so the observer needs a copy.
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

/// Context that a node's code receives as its argument: the state of the run, and methods for side effects.
///
/// The state contains only the updates of the nodes before this node on its path. Every value that is not computed from
/// the state must be obtained through [`Context::effect`], so that a node that is executed again returns the same
/// updates.
pub struct Context<S: State> {
    state: Arc<S>,
    item: Option<Arc<S::Item>>,
    pub(crate) run: Arc<RunContext>,
    pub(crate) scope: KeyScope,
    /// Prefix of the journal keys under which the events of node executions are recorded. The prefix differs from
    /// `scope` only inside a subgraph, where the prefix also contains the node execution that runs the subgraph, such
    /// as `debate.1`.
    pub(crate) visit_scope: KeyScope,
    pub(crate) visit: Visit,
    /// Number of nodes executed in sequence on this path, including this node.
    pub(crate) steps: u32,
    pub(crate) halt: Cancel,
    pending: PendingEvents,
}

/// Events that a node has emitted and that are not yet recorded.
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
            visit_scope: self.visit_scope.clone(),
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
        (scope, visit_scope, visit): (KeyScope, KeyScope, Visit),
        steps: u32,
        halt: Cancel,
    ) -> Context<S> {
        let ((state, item), pending) = (seen, PendingEvents::default());
        Context { state, item, run, scope, visit_scope, visit, steps, halt, pending }
    }

    pub fn state(&self) -> &S {
        &self.state
    }

    /// The item that the fan-out passed to this branch; `None` outside of branches.
    pub fn item(&self) -> Option<&S::Item> {
        self.item.as_deref()
    }

    /// Returns the complete key of the effect `name`, with the labels of the branches that contain this node.
    pub fn key(&self, name: &str) -> Result<EffectKey, InvalidEffectKey> {
        self.scope.key(name)
    }

    /// Cancellation token of the run. The node must pass the token to every operation that the node awaits.
    pub fn cancel(&self) -> &Cancel {
        &self.run.options.cancel
    }

    /// Emits an event. The event is written when this node starts its next effect or returns. A resumed run does not
    /// write the event again.
    pub fn emit(&self, event: impl Into<GraphEvent>) {
        self.pending.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
    }

    /// Handle to the events of [`Context::emit`] that are not written yet.
    pub(crate) fn pending_events(&self) -> PendingEvents {
        self.pending.clone()
    }

    /// Executes an effect by awaiting `call`, and records the outcome before returning it. If the journal already has
    /// the outcome, returns the recorded outcome without awaiting `call`.
    ///
    /// `key` names the effect within this branch. `request` returns the fingerprint of the request; it is called only
    /// if there is a journal. `tell` returns the events about the outcome, which are written together with the outcome.
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
        self.run.reserve_key(&key)?;
        let signal = |stage| self.run.signal(&Signal::Effect { key: &key, stage });
        // Events that the node emitted before this effect are written with it, even if effects run in parallel.
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

    /// Writes the events that were emitted before an effect, so that subscribers receive them before the effect's
    /// outcome. A marker record prevents a resumed run from writing these events again. Returns the events that were
    /// not written.
    async fn record_pending(
        &self,
        key: &EffectKey,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<GraphEvent>, RunError> {
        if events.is_empty() || !self.run.has_listeners() {
            return Ok(events);
        }
        // If the key of the marker record is too long, the events are written together with the effect's outcome.
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

    /// Records a failed effect and returns its error. The node can then continue, and a resumed run takes the same
    /// path. A node that does not record the failure must fail.
    pub async fn record_failure<E>(&self, failed: FailedEffect<E>) -> Result<E, RunError>
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
            // Another process has recorded an outcome of this effect, so that process has taken over the run.
            Some(_) => Err(RunError::Journal(JournalError::Fenced)),
        }
    }

    /// Returns an error if the run is cancelled, or is halted because another node failed. A cancelled or halted run
    /// must not start a new effect.
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

/// A failed effect. The node fails, or records the failure with [`Context::record_failure`] and continues.
#[derive(Debug)]
#[must_use = "record the failure with `Context::record_failure` to continue after it"]
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

/// Decodes the outcome of a record. Returns an error if the request of the record differs from `request`.
fn read<T: DeserializeOwned, E: DeserializeOwned>(
    record: EffectRecord,
    request: Fingerprint,
) -> Result<Result<T, E>, RunError> {
    if record.request != request {
        return Err(RunError::RequestChanged { key: record.key });
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

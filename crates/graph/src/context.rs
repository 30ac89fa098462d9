//! What a node works with: the state it may see, and the only way to touch the world.

use std::collections::HashSet;
use std::error::Error;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use assize_types::{Cancel, Fingerprint};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::State;
use crate::error::{EffectError, RunError};
use crate::journal::{Appended, Event, Journal, JournalError, Outcome, Record};
use crate::key::{BadKey, Key, Scope, Visit};
use crate::options::{EffectStage, RunOptions, Signal};

/// What all tasks of a run share.
pub(crate) struct Run {
    pub(crate) options: RunOptions,
    /// The keys of all effects so far.
    used: Mutex<HashSet<Key>>,
}

impl Run {
    pub(crate) fn new(options: RunOptions) -> Run {
        Run { options, used: Mutex::default() }
    }

    pub(crate) fn journal(&self) -> Option<&dyn Journal> {
        self.options.journal.as_deref()
    }

    pub(crate) fn signal(&self, signal: &Signal<'_>) {
        if let Some(observer) = &self.options.observer {
            observer(signal);
        }
    }

    /// Whether anyone hears of events, now or later.
    fn is_heard(&self) -> bool {
        self.options.journal.is_some() || self.options.observer.is_some()
    }

    /// Claims a key, which is for one effect.
    pub(crate) fn take(&self, key: &Key) -> Result<(), RunError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.insert(key.clone()) {
            true => Ok(()),
            false => Err(RunError::DuplicateKey { key: key.clone() }),
        }
    }

    /// Writes a record with the events of its step; the record that counts comes back, unless it
    /// is this one.
    pub(crate) async fn append(
        &self,
        record: Record,
        events: Vec<Event>,
    ) -> Result<Option<Record>, RunError> {
        let Some(journal) = self.journal() else {
            events.iter().for_each(|event| self.signal(&Signal::Event { id: None, event }));
            return Ok(None);
        };
        // Nobody needs a copy to look at if nobody looks.
        let watched = if self.options.observer.is_some() { events.clone() } else { Vec::new() };
        match journal.append(record, events).await? {
            Appended::Existing(existing) => Ok(Some(existing)),
            Appended::Recorded { event_ids } => {
                for (event, id) in watched.iter().zip(event_ids) {
                    self.signal(&Signal::Event { id: Some(id), event });
                }
                Ok(None)
            }
        }
    }
}

/// What a node is given.
///
/// The state is what the node's causal ancestors wrote and nothing else. Whatever is not computed
/// from it goes through [`Context::effect`], so that a node that is run again comes to the same
/// result.
pub struct Context<S: State> {
    state: Arc<S>,
    item: Option<Arc<S::Item>>,
    pub(crate) run: Arc<Run>,
    pub(crate) scope: Scope,
    /// Where visits are recorded, and the name of this one.
    pub(crate) place: Scope,
    pub(crate) visit: Visit,
    /// How many tasks have led here, this one included.
    pub(crate) steps: u32,
    pub(crate) halt: Cancel,
    told: Told,
}

/// Events that wait for the record of their step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<Event>>>);

impl Told {
    pub(crate) fn take(&self) -> Vec<Event> {
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
            told: self.told.clone(),
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
        run: Arc<Run>,
        (scope, place, visit): (Scope, Scope, Visit),
        steps: u32,
        halt: Cancel,
    ) -> Context<S> {
        let (state, item) = seen;
        Context { state, item, run, scope, place, visit, steps, halt, told: Told::default() }
    }

    pub fn state(&self) -> &S {
        &self.state
    }

    /// What the fan-out that led here handed to this branch.
    pub fn item(&self) -> Option<&S::Item> {
        self.item.as_deref()
    }

    /// The name of an effect of this branch in the whole run.
    pub fn key(&self, name: &str) -> Result<Key, BadKey> {
        self.scope.key(name)
    }

    /// To be handed to whatever the node waits for.
    pub fn cancel(&self) -> &Cancel {
        &self.run.options.cancel
    }

    /// Tells of something. It is written when the next effect is begun in this node, or when the node is done; a run that
    /// is taken up again tells nothing twice.
    pub fn emit(&self, event: impl Into<Event>) {
        self.told.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.into());
    }

    /// What is told and not written yet; see [`Context::emit`].
    pub(crate) fn told(&self) -> Told {
        self.told.clone()
    }

    /// Does something once in the life of the run: `call` is made unless the journal knows its
    /// outcome, and its outcome is in the journal before anyone sees it.
    ///
    /// `key` names the effect within this branch. `request` identifies what is asked; it is only
    /// computed where there is a journal. `tell` says what happened, for those who watch; its events
    /// are written together with the outcome.
    pub async fn effect<T, E, F>(
        &self,
        key: &str,
        request: impl FnOnce() -> Fingerprint,
        call: F,
        tell: impl FnOnce(&T) -> Vec<Event>,
    ) -> Result<T, EffectError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
        F: Future<Output = Result<T, E>>,
    {
        let key = self.scope.key(key).map_err(RunError::from)?;
        self.run.take(&key)?;
        let signal = |stage| self.run.signal(&Signal::Effect { key: &key, stage });
        // What was told before this effect belongs to its step, however many run side by side.
        let mut events = self.told.take();
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
                return outcome.map_err(|error| EffectError::Failed(failed.because(error)));
            }
            if let Some(text) = journal.inherited(&key, failed.request) {
                let value = serde_json::from_str(&text)
                    .map_err(|source| RunError::Unreadable { key: key.clone(), source })?;
                events.extend(tell(&value));
                let (request, outcome) = (failed.request, Outcome::Done(text));
                self.run.append(Record { key: key.clone(), request, outcome }, events).await?;
                signal(EffectStage::Inherited);
                return Ok(value);
            }
        }
        self.still_going()?;
        events = self.tell_before(&key, events).await?;
        signal(EffectStage::Started);
        let value = match call.await {
            Ok(value) => value,
            Err(error) => {
                signal(EffectStage::Failed);
                failed.events = events;
                return Err(EffectError::Failed(failed.because(error)));
            }
        };
        if self.run.is_heard() {
            events.extend(tell(&value));
        }
        let outcome = match self.run.journal() {
            Some(_) => Outcome::Done(json(&key, &value)?),
            None => Outcome::Done(String::new()),
        };
        let record = Record { key: key.clone(), request: failed.request, outcome };
        let winner = self.run.append(record, events).await?;
        signal(EffectStage::Recorded);
        match winner {
            None => Ok(value),
            Some(winner) => read::<T, E>(winner, failed.request)?.map_err(|error| {
                failed.recorded = true;
                EffectError::Failed(failed.because(error))
            }),
        }
    }

    /// Writes what was told before an effect, so that whoever watches need not wait for its outcome; a mark beside it in
    /// the journal says so to the next life of the run. Gives back what is still to be told.
    async fn tell_before(&self, key: &Key, events: Vec<Event>) -> Result<Vec<Event>, RunError> {
        if events.is_empty() || !self.run.is_heard() {
            return Ok(events);
        }
        // Where its name has become too long, it is told with the outcome.
        let Ok(mark) = Key::new(&format!("{key}.begun")) else { return Ok(events) };
        let known = match self.run.journal() {
            Some(journal) => journal.find(&mark).await.map_err(RunError::from)?,
            None => None,
        };
        if known.is_none() {
            let outcome = Outcome::Done("null".to_owned());
            self.run
                .append(Record { key: mark, request: Fingerprint::NONE, outcome }, events)
                .await?;
        }
        Ok(Vec::new())
    }

    /// Goes on from a failed effect: the failure is recorded, so that the run goes the same way
    /// when it is taken up again. A failure that is not recorded must end the node.
    pub async fn go_on<E>(&self, failed: FailedEffect<E>) -> Result<E, RunError>
    where
        E: Serialize,
    {
        let FailedEffect { key, request, events, recorded, error } = failed;
        if recorded || self.run.journal().is_none() {
            events.iter().for_each(|event| self.run.signal(&Signal::Event { id: None, event }));
            return Ok(error);
        }
        let outcome = Outcome::Failed(json(&key, &error)?);
        match self.run.append(Record { key, request, outcome }, events).await? {
            None => Ok(error),
            // Someone else has gone another way in this run: it is theirs.
            Some(_) => Err(RunError::Journal(JournalError::Fenced)),
        }
    }

    /// Nothing new is begun once the run is over.
    fn still_going(&self) -> Result<(), RunError> {
        if self.cancel().is_cancelled() {
            return Err(RunError::Cancelled { reason: self.cancel().reason() });
        }
        if self.halt.is_cancelled() {
            return Err(RunError::Halted);
        }
        Ok(())
    }
}

/// An effect that failed, and is not in the journal yet.
#[derive(Debug)]
#[must_use = "to go on from a failure it must be recorded: `Context::go_on`"]
pub struct FailedEffect<E> {
    pub error: E,
    key: Key,
    request: Fingerprint,
    events: Vec<Event>,
    recorded: bool,
}

impl FailedEffect<()> {
    fn because<E>(self, error: E) -> FailedEffect<E> {
        let FailedEffect { key, request, events, recorded, error: () } = self;
        FailedEffect { error, key, request, events, recorded }
    }
}

impl<E: Error> std::fmt::Display for FailedEffect<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` failed: {}", self.key, self.error)
    }
}

/// The outcome in a record, if it answers what is asked now.
fn read<T: DeserializeOwned, E: DeserializeOwned>(
    record: Record,
    request: Fingerprint,
) -> Result<Result<T, E>, RunError> {
    if record.request != request {
        return Err(RunError::Changed { key: record.key });
    }
    let unreadable = |source| RunError::Unreadable { key: record.key.clone(), source };
    match &record.outcome {
        Outcome::Done(text) => Ok(Ok(serde_json::from_str(text).map_err(unreadable)?)),
        Outcome::Failed(text) => Ok(Err(serde_json::from_str(text).map_err(unreadable)?)),
    }
}

fn json(key: &Key, value: &impl Serialize) -> Result<String, RunError> {
    serde_json::to_string(value).map_err(|source| RunError::Unreadable { key: key.clone(), source })
}

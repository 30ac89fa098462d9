//! A run that a worker of the cluster executes, as the process that started it sees it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use assize_graph::{EffectStage, Event, Key, Observer, Signal};
use assize_llm::{Ledger, Settlement, Worst};
use assize_types::{Cancel, CancelReason, Cost, Failure, FailureKind, Money};
use tokio::time::Instant;

use crate::completion::{self, RunFailure};
use crate::error::StoreError;
use crate::event::RunEvent;
use crate::ledger::{answer, is_step};
use crate::run::{Run, RunFilter, RunId, RunStatus};
use crate::store::{EventQuery, Log, Store};

/// How often it is looked what was answered, where somebody watches.
const LOOK: Duration = Duration::from_secs(1);

/// The most often that it is looked what was told.
const PACE: Duration = Duration::from_millis(200);

/// So many events are read at a time.
const AT_ONCE: usize = 500;

/// What was set aside for answers that others got.
const NOTHING: Worst = Worst { tokens: 0, cost: Cost::Known(Money::ZERO) };

/// A run that a worker executes.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRun {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) id: RunId,
    /// Of the cluster.
    pub(crate) servers: String,
    /// What was told up to here is no news.
    pub(crate) after: u64,
}

/// What was seen of it so far.
struct Seen<'a> {
    event: u64,
    records: HashSet<Key>,
    looked: Instant,
    /// Its last word, as far as it failed: why, and whether one can go on with it.
    failed: Option<(Failure, bool)>,
    /// Where is counted what it took.
    ledger: &'a dyn Ledger,
}

impl RemoteRun {
    /// Follows it to its end, and counts what was spent on it.
    ///
    /// Whoever cancels this stops the run, wherever it is held; but a server that stops itself, which leaves it be.
    pub(crate) async fn follow(
        &self,
        observer: Option<Observer>,
        ledger: &dyn Ledger,
        cancel: Cancel,
    ) -> Result<Run, RunFailure> {
        let before: HashSet<Key> = match self.after {
            0 => HashSet::new(),
            _ => {
                let records = self.store.records(&self.id).await.map_err(Failure::from)?;
                records.into_iter().map(|record| record.key).collect()
            }
        };
        let (event, records, looked) = (self.after, before, Instant::now());
        let mut seen = Seen { event, records, looked, failed: None, ledger };
        let stopped = tokio::select! {
            ended = self.until_it_ends(&mut seen, observer.as_ref()) => {
                let run = ended.map_err(Failure::from)?;
                if run.status == RunStatus::Failed && seen.failed.is_none() {
                    self.tell_events(&mut seen, None).await.map_err(Failure::from)?;
                }
                return self.ended(run, seen.failed);
            }
            reason = cancel.cancelled() => reason,
        };
        let interrupted = Failure::new(FailureKind::Interrupted, stopped.clone());
        if stopped == CancelReason::Paused {
            return Err(RunFailure { failure: interrupted, resume: None, is_paused: true });
        }
        let run = self.store.run(&self.id).await.map_err(Failure::from)?;
        if run.status == RunStatus::Running {
            completion::cancel(&*self.store, &run).await.map_err(Failure::from)?;
        }
        let resume = Some(self.how_to_resume());
        Err(RunFailure { failure: interrupted, resume, is_paused: false })
    }

    fn how_to_resume(&self) -> String {
        let RemoteRun { id, servers, .. } = self;
        format!("kept as {id}; go on with `assize runs resume {id} --cluster {servers}`")
    }

    async fn until_it_ends(
        &self,
        seen: &mut Seen<'_>,
        observer: Option<&Observer>,
    ) -> Result<Run, StoreError> {
        loop {
            // First what there is, then how it stands, so that its last word is not missed.
            let newest = self.store.last_event().await?;
            let mut ended = false;
            if observer.is_none() || seen.looked.elapsed() >= LOOK {
                // It may be gone without a word.
                ended = self.is_over().await?;
            }
            if observer.is_some() && seen.looked.elapsed() >= LOOK {
                self.tell_answers(seen, observer).await?;
            }
            if observer.is_some() {
                ended |= self.tell_events(seen, observer).await?;
            }
            if ended {
                self.tell_answers(seen, observer).await?;
                return self.store.run(&self.id).await;
            }
            // Many runs may be followed here, and all of them tell something.
            tokio::time::sleep(if observer.is_some() { PACE } else { LOOK }).await;
            tokio::select! {
                grown = self.store.grown(Log::Events, newest) => grown?,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn is_over(&self) -> Result<bool, StoreError> {
        let filter = RunFilter { prefix: Some(self.id.to_string()), ..RunFilter::default() };
        let runs = self.store.runs(filter).await?;
        let run = runs.iter().find(|run| run.id == self.id);
        run.map(|run| run.status != RunStatus::Running)
            .ok_or_else(|| StoreError::NoSuchRun(self.id.clone()))
    }

    /// Tells what was told since; whether it may be over.
    async fn tell_events(
        &self,
        seen: &mut Seen<'_>,
        observer: Option<&Observer>,
    ) -> Result<bool, StoreError> {
        let mut over = false;
        loop {
            let query =
                EventQuery { runs: vec![self.id.clone()], after: seen.event, limit: AT_ONCE };
            let events = self.store.events(query).await?;
            let count = events.len();
            for stored in events {
                seen.event = stored.id;
                let event = RunEvent::read(&stored.name, &stored.payload);
                if let Some(RunEvent::RunEnded { failure, resumable, .. }) = event {
                    seen.failed = failure.map(|failure| (failure, resumable == Some(true)));
                    // It may have been taken up again since.
                    over = self.store.run(&self.id).await?.status != RunStatus::Running;
                }
                let event = Event { name: stored.name, payload: stored.payload };
                if let Some(observer) = observer {
                    observer(&Signal::Event { id: Some(stored.id), event: &event });
                }
            }
            if count < AT_ONCE {
                return Ok(over);
            }
        }
    }

    /// Tells what was answered since, and counts it.
    async fn tell_answers(
        &self,
        seen: &mut Seen<'_>,
        observer: Option<&Observer>,
    ) -> Result<(), StoreError> {
        seen.looked = Instant::now();
        for record in self.store.records(&self.id).await? {
            if !seen.records.insert(record.key.clone()) {
                continue;
            }
            if let Some(response) = answer(&record) {
                let (usage, cost) = (response.usage.unwrap_or_default(), response.cost);
                seen.ledger.settle(NOTHING, 0, Settlement::Spent { usage, cost });
            }
            if let Some(observer) = observer.filter(|_| is_step(&record)) {
                observer(&Signal::Effect { key: &record.key, stage: EffectStage::Recorded });
            }
        }
        Ok(())
    }

    /// What it came to, or why it came to nothing.
    fn ended(&self, run: Run, failed: Option<(Failure, bool)>) -> Result<Run, RunFailure> {
        let why = || run.error.clone().unwrap_or_else(|| run.status.name().to_owned());
        let resume = Some(self.how_to_resume());
        match run.status {
            RunStatus::Done => Ok(run),
            RunStatus::Cancelled => {
                let failure = Failure::new(FailureKind::Interrupted, why());
                Err(RunFailure { failure, resume, is_paused: false })
            }
            RunStatus::Failed | RunStatus::Running => {
                let unknown = || (Failure::new(FailureKind::Environment, why()), true);
                let (failure, resumable) = failed.unwrap_or_else(unknown);
                Err(RunFailure { failure, resume: resume.filter(|_| resumable), is_paused: false })
            }
        }
    }
}

//! Client side of a run that a worker of the cluster executes. The process that queued the run reads the run's events
//! and records from the store, forwards them to its observer, and waits for the end of the run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use assize_graph::{EffectKey, EffectStage, GraphEvent, RunObserver, Signal};
use assize_llm::{BudgetLedger, CallMaximum, Settlement};
use assize_types::{Cancel, CancelReason, Cost, Failure, FailureKind, Money};
use tokio::time::Instant;

use crate::completion::{self, RunFailure};
use crate::error::StoreError;
use crate::event::RunEvent;
use crate::ledger::{is_step, model_response};
use crate::run::{Run, RunFilter, RunId, RunStatus};
use crate::store::{EventQuery, Store, StoreLog};

/// Interval at which the status of the run is checked and, if there is an observer, the run's records are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two reads of the run's events.
const MIN_EVENT_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of events that one read of the store returns.
const EVENT_BATCH: usize = 500;

/// Empty budget reservation, for model calls that the worker made and for which this process reserved nothing.
const NO_RESERVATION: CallMaximum = CallMaximum { tokens: 0, cost: Cost::Known(Money::ZERO) };

/// A run that a worker of the cluster executes.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRun {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) id: RunId,
    /// Addresses of the cluster's NATS servers.
    pub(crate) servers: String,
    /// Id of the last event in the store before the run was queued for resumption; 0 for a new run. Only later events
    /// are forwarded.
    pub(crate) after: u64,
}

/// Position in the remote run up to which events and records have been forwarded.
struct Cursor<'a> {
    event: u64,
    records: HashSet<EffectKey>,
    polled: Instant,
    /// Failure in the latest `run_ended` event, and whether the run can be resumed.
    failed: Option<(Failure, bool)>,
    /// Ledger that counts the cost of the model calls that the worker made.
    ledger: &'a dyn BudgetLedger,
}

impl RemoteRun {
    /// Waits for the end of the run, forwards the run's events and records to the observer, and counts the cost of the
    /// run's model calls.
    ///
    /// If `cancel` is triggered, the run is cancelled on its worker too. The exception is
    /// [`CancelReason::ShuttingDown`]: if this process is a server that shuts down, the worker continues the run.
    pub(crate) async fn follow(
        &self,
        observer: Option<RunObserver>,
        ledger: &dyn BudgetLedger,
        cancel: Cancel,
    ) -> Result<Run, RunFailure> {
        let before: HashSet<EffectKey> = match self.after {
            0 => HashSet::new(),
            _ => {
                let records = self.store.records(&self.id).await.map_err(Failure::from)?;
                records.into_iter().map(|record| record.key).collect()
            }
        };
        let (event, records, polled) = (self.after, before, Instant::now());
        let mut cursor = Cursor { event, records, polled, failed: None, ledger };
        let reason = tokio::select! {
            ended = self.wait_for_end(&mut cursor, observer.as_ref()) => {
                let run = ended.map_err(Failure::from)?;
                if run.status == RunStatus::Failed && cursor.failed.is_none() {
                    self.forward_events(&mut cursor, None).await.map_err(Failure::from)?;
                }
                return self.ended(run, cursor.failed);
            }
            reason = cancel.cancelled() => reason,
        };
        let interrupted = Failure::new(FailureKind::Interrupted, reason.clone());
        if reason == CancelReason::ShuttingDown {
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
        format!("saved as {id}; resume with `assize runs resume {id} --cluster {servers}`")
    }

    async fn wait_for_end(
        &self,
        cursor: &mut Cursor<'_>,
        observer: Option<&RunObserver>,
    ) -> Result<Run, StoreError> {
        loop {
            // Get the last event id before the events are read, so that an event written after the read ends the wait
            // below.
            let newest = self.store.last_event().await?;
            let mut ended = false;
            if observer.is_none() || cursor.polled.elapsed() >= POLL_INTERVAL {
                // The run may have ended without an event.
                ended = self.has_ended().await?;
            }
            if observer.is_some() && cursor.polled.elapsed() >= POLL_INTERVAL {
                self.forward_answers(cursor, observer).await?;
            }
            if observer.is_some() {
                ended |= self.forward_events(cursor, observer).await?;
            }
            if ended {
                self.forward_answers(cursor, observer).await?;
                return self.store.run(&self.id).await;
            }
            // Pause, because events of any run of the store end the wait below and this process may wait for many runs.
            let pause = if observer.is_some() { MIN_EVENT_INTERVAL } else { POLL_INTERVAL };
            tokio::time::sleep(pause).await;
            tokio::select! {
                grown = self.store.wait_for_entry(StoreLog::Events, newest) => grown?,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    async fn has_ended(&self) -> Result<bool, StoreError> {
        let filter = RunFilter { prefix: Some(self.id.to_string()), ..RunFilter::default() };
        let runs = self.store.runs(filter).await?;
        let run = runs.iter().find(|run| run.id == self.id);
        run.map(|run| run.status != RunStatus::Running)
            .ok_or_else(|| StoreError::NoSuchRun(self.id.clone()))
    }

    /// Passes new events of the run to the observer. Returns whether the run has ended.
    async fn forward_events(
        &self,
        cursor: &mut Cursor<'_>,
        observer: Option<&RunObserver>,
    ) -> Result<bool, StoreError> {
        let mut ended = false;
        loop {
            let query =
                EventQuery { runs: vec![self.id.clone()], after: cursor.event, limit: EVENT_BATCH };
            let events = self.store.events(query).await?;
            let count = events.len();
            for stored in events {
                cursor.event = stored.id;
                let event = RunEvent::read(&stored.name, &stored.payload);
                if let Some(RunEvent::RunEnded { failure, resumable, .. }) = event {
                    cursor.failed = failure.map(|failure| (failure, resumable == Some(true)));
                    // The run may have been resumed after this event.
                    ended = self.store.run(&self.id).await?.status != RunStatus::Running;
                }
                let event = GraphEvent { name: stored.name, payload: stored.payload };
                if let Some(observer) = observer {
                    observer(&Signal::Event { id: Some(stored.id), event: &event });
                }
            }
            if count < EVENT_BATCH {
                return Ok(ended);
            }
        }
    }

    /// Passes new records of the run to the observer, and counts the cost of the model calls in them.
    async fn forward_answers(
        &self,
        cursor: &mut Cursor<'_>,
        observer: Option<&RunObserver>,
    ) -> Result<(), StoreError> {
        cursor.polled = Instant::now();
        for record in self.store.records(&self.id).await? {
            if !cursor.records.insert(record.key.clone()) {
                continue;
            }
            if let Some(response) = model_response(&record) {
                let (usage, cost) = (response.usage.unwrap_or_default(), response.cost);
                cursor.ledger.settle(NO_RESERVATION, 0, Settlement::Spent { usage, cost });
            }
            if let Some(observer) = observer.filter(|_| is_step(&record)) {
                observer(&Signal::Effect { key: &record.key, stage: EffectStage::Recorded });
            }
        }
        Ok(())
    }

    /// Converts a run that has ended to the result for the caller: the run if its status is `Done`, and a failure
    /// otherwise.
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

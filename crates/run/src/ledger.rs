//! Ledger of a run: cost and tokens of the run's model calls, stored with the run.
//!
//! The ledger stores the maximum cost of a call (an upper bound) before the call is sent, and the actual cost when the
//! call has ended. When a run is resumed after its process died, the calls that the process had in flight count as
//! spent at their maximum cost. If that process is alive after all and stores actual costs later, the total is
//! corrected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use assize_graph::{EffectKey, EffectOutcome, EffectRecord};
use assize_llm::{
    BudgetError, BudgetLedger, BudgetLimits, BudgetTotals, CallMaximum, MemoryBudgetLedger,
    ModelResponse, Settlement,
};
use assize_types::{Cost, Fingerprint, Money};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::call::{CallState, StoredCall};
use crate::error::StoreError;
use crate::event::RunEvent;
use crate::run::{Lease, Run, RunId};
use crate::store::Store;

/// First segment of the journal keys under which lost calls (model calls without a recorded answer) are recorded. The
/// second segment is the epoch.
const LOST: &str = "lost-calls";

/// Totals of the lost calls: model calls of earlier epochs that may have been paid for but have no recorded answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lost {
    calls: u64,
    /// Upper bound of the tokens that the lost calls used.
    tokens: u64,
    /// Upper bound of what the lost calls cost.
    cost: Money,
}

/// Returns the epoch from the key of a lost-calls record, which counts the calls lost before that epoch; `None` for
/// other records.
fn epoch_of_loss(record: &EffectRecord) -> Option<u64> {
    let mut parts = record.key.segments();
    (parts.next() == Some(LOST)).then(|| parts.next()?.parse().ok()).flatten()
}

/// Whether a journal record is a step of the run, and not a record of lost calls.
pub(crate) fn is_step(record: &EffectRecord) -> bool {
    record.key.segments().next() != Some(LOST)
}

/// Number of journal records that show progress of a run. Records of lost calls do not count as progress.
pub fn count_progress(records: &[EffectRecord]) -> usize {
    records.iter().filter(|record| epoch_of_loss(record).is_none()).count()
}

/// The model's response in a journal record; `None` if the record contains no response.
pub fn model_response(record: &EffectRecord) -> Option<ModelResponse> {
    read(record)
}

/// Parses the outcome of a journal record as a `T`; `None` if the effect failed, or the outcome is not a `T`.
fn read<T: DeserializeOwned>(record: &EffectRecord) -> Option<T> {
    match &record.outcome {
        EffectOutcome::Done(text) => serde_json::from_str(text).ok(),
        EffectOutcome::Failed(_) => None,
    }
}

/// Totals of the model calls that a run made itself, computed from its records. Records that the run inherited from its
/// parent run do not count.
pub fn totals_of_answered_calls(own: &[EffectRecord], inherited: &[EffectRecord]) -> BudgetTotals {
    let inherited: HashMap<&EffectKey, &EffectRecord> =
        inherited.iter().map(|record| (&record.key, record)).collect();
    let mut totals = BudgetTotals::default();
    let lost = Lost::recorded(own);
    let own = own.iter().filter(|record| inherited.get(&record.key) != Some(record));
    for response in own.filter_map(model_response) {
        totals.calls += 1;
        totals.usage += response.usage.unwrap_or_default();
        match response.cost {
            Cost::Known(cost) => totals.cost += cost,
            Cost::Local => totals.local_calls += 1,
            Cost::Unknown => totals.unpriced_calls += 1,
        }
    }
    if let Some(lost) = lost {
        totals.lost_calls = lost.calls;
        totals.lost_cost = lost.cost;
        totals.lost_tokens = lost.tokens;
    }
    totals
}

/// All records of a run's parent. The run may have inherited some of these records. Empty if the run is not a fork, or
/// if the parent no longer exists.
pub async fn parent_records(store: &dyn Store, run: &Run) -> Result<Vec<EffectRecord>, StoreError> {
    let Some(parent) = &run.parent else { return Ok(Vec::new()) };
    match store.records(parent).await {
        Err(StoreError::NoSuchRun(_)) => Ok(Vec::new()),
        records => records,
    }
}

impl Lost {
    /// Totals in the latest journal record of lost calls; `None` if the journal has no record of lost calls.
    fn recorded(records: &[EffectRecord]) -> Option<Lost> {
        let losses = records.iter().filter_map(|record| Some((epoch_of_loss(record)?, record)));
        losses.max_by_key(|(epoch, _)| *epoch).and_then(|(_, record)| read(record))
    }

    /// Computes the totals of the calls lost before an epoch: all calls that were sent, minus the calls whose answers
    /// are recorded. `answered` must not contain answers inherited from another run, because this run never made those
    /// calls.
    fn lost_before_epoch(epoch: u64, calls: &[(u64, StoredCall)], answered: &BudgetTotals) -> Lost {
        let mut all = Lost::default();
        let earlier = calls.iter().filter(|(of, _)| *of < epoch).map(|(_, noted)| noted);
        for noted in earlier.filter(|noted| noted.state != CallState::Free) {
            all.calls += 1;
            all.tokens = all.tokens.saturating_add(noted.tokens);
            all.cost += noted.cost.known().unwrap_or_default();
        }
        all.less(&Lost {
            calls: answered.calls,
            tokens: answered.usage.total(),
            cost: answered.cost,
        })
    }

    fn less(&self, other: &Lost) -> Lost {
        Lost {
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.saturating_sub(other.cost),
        }
    }
}

/// Cost and tokens that a run had spent before it was resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpentBefore {
    pub cost: Money,
    pub tokens: u64,
}

/// The ledger of one run during one of its epochs.
#[derive(Debug)]
pub struct RunLedger {
    store: Arc<dyn Store>,
    lease: OnceLock<Lease>,
    next: AtomicU64,
    /// Totals of the model calls that were answered in earlier epochs.
    answered: BudgetTotals,
    /// Totals of the model calls that currently count as lost, because they were sent but have no recorded answer.
    lost: Mutex<Lost>,
    /// Totals of the lost calls that the run's journal already contained when the run was resumed.
    recorded: Lost,
    pub spent_before: SpentBefore,
    inner: MemoryBudgetLedger,
}

impl RunLedger {
    /// Creates the ledger of a new run.
    pub(crate) fn new(store: &Arc<dyn Store>, budget: BudgetLimits) -> RunLedger {
        RunLedger {
            store: store.clone(),
            lease: OnceLock::new(),
            next: AtomicU64::new(1),
            answered: BudgetTotals::default(),
            lost: Mutex::default(),
            recorded: Lost::default(),
            spent_before: SpentBefore::default(),
            inner: MemoryBudgetLedger::new(budget),
        }
    }

    /// Creates the ledger of a resumed run. What the run spent earlier counts against its budget, and calls of earlier
    /// epochs without a recorded answer count as lost.
    pub(crate) async fn resumed(
        store: &Arc<dyn Store>,
        run: &RunId,
        inherited: &[EffectRecord],
        budget: BudgetLimits,
    ) -> Result<RunLedger, StoreError> {
        let records = store.records(run).await?;
        let answered = totals_of_answered_calls(&records, inherited);
        let lost = Lost::lost_before_epoch(u64::MAX, &store.calls(run).await?, &answered);
        let spent_before = SpentBefore {
            cost: answered.cost + lost.cost,
            tokens: answered.usage.total().saturating_add(lost.tokens),
        };
        let left = BudgetLimits {
            cost: budget.cost.map(|max| max.saturating_sub(spent_before.cost)),
            tokens: budget.tokens.map(|max| max.saturating_sub(spent_before.tokens)),
        };
        let recorded = Lost::recorded(&records).unwrap_or_default();
        let lost = Mutex::new(lost);
        Ok(RunLedger { answered, lost, recorded, spent_before, ..RunLedger::new(store, left) })
    }

    fn lost(&self) -> Lost {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the lost calls of earlier epochs in the journal, and then allows new model calls under this lease.
    pub(crate) async fn begin(&self, lease: Lease) -> Result<(), StoreError> {
        let lost = self.lost();
        if lost != self.recorded {
            self.record(&lease, lost).await?;
        }
        let _ = self.lease.set(lease);
        Ok(())
    }

    async fn record(&self, lease: &Lease, lost: Lost) -> Result<(), StoreError> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Failed {
            path: lease.run.as_str().into(),
            reason: error.to_string(),
        };
        let key =
            EffectKey::new(&format!("{LOST}/{}", lease.epoch)).map_err(|error| failed(&error))?;
        let text = serde_json::to_string(&lost).map_err(|error| failed(&error))?;
        let record =
            EffectRecord { key, request: Fingerprint::NONE, outcome: EffectOutcome::Done(text) };
        let (calls, at_most_usd) = (lost.calls, lost.cost.dollars());
        let events = vec![RunEvent::CallsLost { calls, at_most_usd }.into()];
        self.store.append(lease, record, events).await.map(drop)
    }

    /// Reads the calls of the run from the store again, and returns by how much the totals of the lost calls decreased.
    /// They decrease when an earlier lease holder, which was presumed dead, has stored the outcome of its calls.
    async fn reload_lost_calls(&self) -> Result<Lost, StoreError> {
        let Some(lease) = self.lease.get() else { return Ok(Lost::default()) };
        let calls = self.store.calls(&lease.run).await?;
        let now = Lost::lost_before_epoch(lease.epoch, &calls, &self.answered);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let less = lost.less(&now);
        *lost = lost.less(&less);
        Ok(less)
    }

    /// Stores the end of a model call in the background. If the end cannot be stored, the call counts as lost.
    fn store_call_end(&self, number: u64, noted: StoredCall) {
        let Some(lease) = self.lease.get().cloned() else { return };
        // Without a Tokio runtime the process is exiting. The stored call then keeps the state `Sent`.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = self.store.clone();
        runtime.spawn(async move {
            if let Err(error) = store.store_call(&lease, number, noted).await {
                tracing::warn!(%error, run = %lease.run, "cannot store the cost of a model call");
            }
        });
    }
}

/// Drop guard of a model call: stores the call as free of charge if the guard is dropped before the call is sent.
struct UnsentCall<'a>(Option<(&'a RunLedger, u64)>);

impl Drop for UnsentCall<'_> {
    fn drop(&mut self) {
        if let Some((ledger, number)) = self.0 {
            let free =
                StoredCall { state: CallState::Free, tokens: 0, cost: Cost::Known(Money::ZERO) };
            ledger.store_call_end(number, free);
        }
    }
}

/// Creates the error for a model call that is not sent because the store could not record it.
fn call_not_recorded(error: StoreError) -> BudgetError {
    let hint = error.hint().map(str::to_owned);
    BudgetError::NotRecorded { why: error.to_string(), hint }
}

#[async_trait]
impl BudgetLedger for RunLedger {
    async fn reserve(&self, worst: CallMaximum) -> Result<(), BudgetError> {
        let refused = match self.inner.reserve(worst).await {
            Err(refused) => refused,
            Ok(()) => return Ok(()),
        };
        let less = self.reload_lost_calls().await.map_err(call_not_recorded)?;
        if less != Lost::default() {
            self.inner.raise_limits(less.cost, less.tokens);
        }
        // Reserve again even if `less` is zero: a concurrent call may have raised the limits already.
        self.inner.reserve(worst).await.map_err(|_| refused)
    }

    async fn record_sent(&self, worst: CallMaximum) -> Result<u64, BudgetError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let not_begun =
            || BudgetError::NotRecorded { why: "the run has not started".to_owned(), hint: None };
        let lease = self.lease.get().ok_or_else(not_begun)?;
        let CallMaximum { tokens, cost } = worst;
        let noted = StoredCall { state: CallState::Sent, tokens, cost };
        // If the caller drops this future during the write, the guard stores that the call was not sent.
        let mut unsent = UnsentCall(Some((self, number)));
        self.store.store_call(lease, number, noted).await.map_err(call_not_recorded)?;
        unsent.0 = None;
        Ok(number)
    }

    fn unavailable_time(&self) -> Duration {
        self.store.unavailable_time()
    }

    fn settle(&self, worst: CallMaximum, sent: u64, settlement: Settlement) {
        self.inner.settle(worst, sent, settlement);
        if sent == 0 {
            return;
        }
        let free = Cost::Known(Money::ZERO);
        let (state, tokens, cost) = match settlement {
            Settlement::Spent { usage, cost } => (CallState::Answered, usage.total(), cost),
            Settlement::Lost => (CallState::Lost, worst.tokens, worst.cost),
            Settlement::Free => (CallState::Free, 0, free),
        };
        self.store_call_end(sent, StoredCall { state, tokens, cost });
    }

    fn count_replayed(&self) {
        self.inner.count_replayed();
    }

    fn totals(&self) -> BudgetTotals {
        self.inner.totals()
    }
}

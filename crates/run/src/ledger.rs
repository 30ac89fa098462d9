//! Ledger of a run: what is spent on it, stored with the run.
//!
//! What a call can cost at most is noted before it is sent, and what it did cost when it is over. When a process dies,
//! its calls in flight count as spent once the run is resumed; if it turns out to be alive, what it notes later
//! corrects that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use assize_graph::{Key, Outcome, Record};
use assize_llm::{BudgetError, Caps, Ledger, MemoryLedger, Response, Settlement, Totals, Worst};
use assize_types::{Cost, Fingerprint, Money};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::call::{CallState, Noted};
use crate::error::StoreError;
use crate::event::RunEvent;
use crate::run::{Lease, Run, RunId};
use crate::store::Store;

/// The first part of the key under which lost calls are recorded, once for each epoch.
const LOST: &str = "lost-calls";

/// Calls of earlier epochs without a recorded answer: they may have been paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lost {
    calls: u64,
    /// At most.
    tokens: u64,
    cost: Money,
}

/// The epoch before which a record says that calls were lost, if it is such a record.
fn epoch_of_loss(record: &Record) -> Option<u64> {
    let mut parts = record.key.segments();
    (parts.next() == Some(LOST)).then(|| parts.next()?.parse().ok()).flatten()
}

/// Whether a record is a step of the run, and not a note about lost calls.
pub(crate) fn is_step(record: &Record) -> bool {
    record.key.segments().next() != Some(LOST)
}

/// How many records show progress of a run: all but those of lost calls.
pub fn progress(records: &[Record]) -> usize {
    records.iter().filter(|record| epoch_of_loss(record).is_none()).count()
}

/// The model's answer in a record, if it is one.
pub fn answer(record: &Record) -> Option<Response> {
    read(record)
}

/// What was recorded, if it can be read as that.
fn read<T: DeserializeOwned>(record: &Record) -> Option<T> {
    match &record.outcome {
        Outcome::Done(text) => serde_json::from_str(text).ok(),
        Outcome::Failed(_) => None,
    }
}

/// What a run spent on the answers that it got itself, by its records.
pub fn answered(own: &[Record], inherited: &[Record]) -> Totals {
    let inherited: HashMap<&Key, &Record> =
        inherited.iter().map(|record| (&record.key, record)).collect();
    let mut totals = Totals::default();
    let lost = Lost::recorded(own);
    let own = own.iter().filter(|record| inherited.get(&record.key) != Some(record));
    for response in own.filter_map(answer) {
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

/// Records that a run may have taken over from the one that it was forked from; none, if that is gone.
pub async fn inherited(store: &dyn Store, run: &Run) -> Result<Vec<Record>, StoreError> {
    let Some(parent) = &run.parent else { return Ok(Vec::new()) };
    match store.records(parent).await {
        Err(StoreError::NoSuchRun(_)) => Ok(Vec::new()),
        records => records,
    }
}

impl Lost {
    /// What was lost, by the records of a run: by the latest that says so.
    fn recorded(records: &[Record]) -> Option<Lost> {
        let losses = records.iter().filter_map(|record| Some((epoch_of_loss(record)?, record)));
        losses.max_by_key(|(epoch, _)| *epoch).and_then(|(_, record)| read(record))
    }

    /// What was lost before an epoch: what calls took, but for what was answered and recorded. What was inherited from
    /// another run was never asked for, and is not among that.
    fn before(epoch: u64, calls: &[(u64, Noted)], answered: &Totals) -> Lost {
        let mut all = Lost::default();
        let earlier = calls.iter().filter(|(of, _)| *of < epoch).map(|(_, noted)| noted);
        for noted in earlier.filter(|noted| noted.how != CallState::Free) {
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

/// What was spent on a run before it was resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpentBefore {
    pub cost: Money,
    pub tokens: u64,
}

/// The ledger of one run, in one of its epochs.
#[derive(Debug)]
pub struct RunLedger {
    store: Arc<dyn Store>,
    lease: OnceLock<Lease>,
    next: AtomicU64,
    /// What was answered in earlier epochs.
    answered: Totals,
    /// What counts as lost.
    lost: Mutex<Lost>,
    /// What the records of the run say was lost.
    recorded: Lost,
    pub spent_before: SpentBefore,
    inner: MemoryLedger,
}

impl RunLedger {
    /// The ledger of a new run.
    pub(crate) fn new(store: &Arc<dyn Store>, budget: Caps) -> RunLedger {
        RunLedger {
            store: store.clone(),
            lease: OnceLock::new(),
            next: AtomicU64::new(1),
            answered: Totals::default(),
            lost: Mutex::default(),
            recorded: Lost::default(),
            spent_before: SpentBefore::default(),
            inner: MemoryLedger::new(budget),
        }
    }

    /// The ledger of a run that is resumed: what it spent before counts against its budget, and calls of earlier
    /// epochs without a recorded answer count as lost.
    pub(crate) async fn resumed(
        store: &Arc<dyn Store>,
        run: &RunId,
        inherited: &[Record],
        budget: Caps,
    ) -> Result<RunLedger, StoreError> {
        let records = store.records(run).await?;
        let answered = answered(&records, inherited);
        let lost = Lost::before(u64::MAX, &store.calls(run).await?, &answered);
        let spent_before = SpentBefore {
            cost: answered.cost + lost.cost,
            tokens: answered.usage.total().saturating_add(lost.tokens),
        };
        let left = Caps {
            cost: budget.cost.map(|most| most.saturating_sub(spent_before.cost)),
            tokens: budget.tokens.map(|most| most.saturating_sub(spent_before.tokens)),
        };
        let recorded = Lost::recorded(&records).unwrap_or_default();
        let lost = Mutex::new(lost);
        Ok(RunLedger { answered, lost, recorded, spent_before, ..RunLedger::new(store, left) })
    }

    fn lost(&self) -> Lost {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what was lost in earlier epochs. From here on calls are made.
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
        let key = Key::new(&format!("{LOST}/{}", lease.epoch)).map_err(|error| failed(&error))?;
        let text = serde_json::to_string(&lost).map_err(|error| failed(&error))?;
        let record = Record { key, request: Fingerprint::NONE, outcome: Outcome::Done(text) };
        let (calls, at_most_usd) = (lost.calls, lost.cost.dollars());
        let events = vec![RunEvent::CallsLost { calls, at_most_usd }.into()];
        self.store.append(lease, record, events).await.map(drop)
    }

    /// How much less was lost than was thought, as holders that counted as dead have noted since.
    async fn reconciled(&self) -> Result<Lost, StoreError> {
        let Some(lease) = self.lease.get() else { return Ok(Lost::default()) };
        let calls = self.store.calls(&lease.run).await?;
        let now = Lost::before(lease.epoch, &calls, &self.answered);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let less = lost.less(&now);
        *lost = lost.less(&less);
        Ok(less)
    }

    /// Notes that a call is over; what cannot be noted counts as lost.
    fn note_end(&self, number: u64, noted: Noted) {
        let Some(lease) = self.lease.get().cloned() else { return };
        // Without a runtime the process ends, and the call stays noted as sent.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = self.store.clone();
        runtime.spawn(async move {
            if let Err(error) = store.note_call(&lease, number, noted).await {
                tracing::warn!(%error, run = %lease.run, "what a call took could not be noted");
            }
        });
    }
}

/// Notes that a call costs nothing that is not made after all.
struct NotMade<'a>(Option<(&'a RunLedger, u64)>);

impl Drop for NotMade<'_> {
    fn drop(&mut self) {
        if let Some((ledger, number)) = self.0 {
            let free = Noted { how: CallState::Free, tokens: 0, cost: Cost::Known(Money::ZERO) };
            ledger.note_end(number, free);
        }
    }
}

/// The error of a call that the store could not note.
fn not_noted(error: StoreError) -> BudgetError {
    let hint = error.hint().map(str::to_owned);
    BudgetError::NotNoted { why: error.to_string(), hint }
}

#[async_trait]
impl Ledger for RunLedger {
    async fn reserve(&self, worst: Worst) -> Result<(), BudgetError> {
        let refused = match self.inner.reserve(worst).await {
            Err(refused) => refused,
            Ok(()) => return Ok(()),
        };
        let less = self.reconciled().await.map_err(not_noted)?;
        if less != Lost::default() {
            self.inner.allow_more(less.cost, less.tokens);
        }
        // Others may have found out at the same time, and allowed more.
        self.inner.reserve(worst).await.map_err(|_| refused)
    }

    async fn send(&self, worst: Worst) -> Result<u64, BudgetError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let not_begun =
            || BudgetError::NotNoted { why: "the run was not begun".to_owned(), hint: None };
        let lease = self.lease.get().ok_or_else(not_begun)?;
        let Worst { tokens, cost } = worst;
        let noted = Noted { how: CallState::Sent, tokens, cost };
        // A caller that stops waiting in the middle of it does not make the call.
        let mut not_made = NotMade(Some((self, number)));
        self.store.note_call(lease, number, noted).await.map_err(not_noted)?;
        not_made.0 = None;
        Ok(number)
    }

    fn held_up(&self) -> Duration {
        self.store.away()
    }

    fn settle(&self, worst: Worst, sent: u64, settlement: Settlement) {
        self.inner.settle(worst, sent, settlement);
        if sent == 0 {
            return;
        }
        let nothing = Cost::Known(Money::ZERO);
        let (how, tokens, cost) = match settlement {
            Settlement::Spent { usage, cost } => (CallState::Answered, usage.total(), cost),
            Settlement::Lost => (CallState::Lost, worst.tokens, worst.cost),
            Settlement::Free => (CallState::Free, 0, nothing),
        };
        self.note_end(sent, Noted { how, tokens, cost });
    }

    fn count_replayed(&self) {
        self.inner.count_replayed();
    }

    fn totals(&self) -> Totals {
        self.inner.totals()
    }
}

//! Account of a run: what is spent on it, kept in the store with the run.
//!
//! What a call can cost at most is noted before it is sent, and what it did cost when it is over. When a process dies, its
//! calls under way count as spent once the run is resumed; if it turns out to live, what it notes later corrects that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use assize_gateway::{BudgetError, Caps, Ledger, MemoryLedger, Settlement, Totals, Worst};
use assize_graph::{Key, Outcome, Record};
use assize_run::{CallState, Lease, Noted, RunEvent, RunId, Store, StoreError};
use assize_types::{Cost, Fingerprint, Money};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::kept;

/// The first part of the key under which it is recorded what was lost before each epoch.
pub(crate) const LOST: &str = "lost-calls";

/// Calls that were made in earlier epochs of a run, and of which nothing came: they may have been paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) calls: u64,
    /// At most.
    pub(crate) tokens: u64,
    pub(crate) cost: Money,
}

/// The epoch before which a record says that calls were lost, if it is such a record.
fn epoch_of_loss(record: &Record) -> Option<u64> {
    let mut parts = record.key.segments();
    (parts.next() == Some(LOST)).then(|| parts.next()?.parse().ok()).flatten()
}

/// How many records show that a run got on: all but those of lost calls.
pub(crate) fn progress(records: &[Record]) -> usize {
    records.iter().filter(|record| epoch_of_loss(record).is_none()).count()
}

impl Lost {
    /// What was lost, by the records of a run: by the latest that says so.
    pub(crate) fn recorded(records: &[Record]) -> Option<Lost> {
        let losses = records.iter().filter_map(|record| Some((epoch_of_loss(record)?, record)));
        let (_, record) = losses.max_by_key(|(epoch, _)| *epoch)?;
        match &record.outcome {
            Outcome::Done(text) => serde_json::from_str(text).ok(),
            Outcome::Failed(_) => None,
        }
    }

    /// What was lost before an epoch: what calls took, but for what was answered and recorded. What was taken over from
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

/// The account of one run, in one of its epochs.
#[derive(Debug)]
pub(crate) struct Account {
    store: Arc<dyn Store>,
    claim: OnceLock<Lease>,
    next: AtomicU64,
    /// What was answered in earlier epochs.
    answered: Totals,
    /// What is taken for lost.
    lost: Mutex<Lost>,
    /// What the records of the run say was lost.
    recorded: Lost,
}

impl Account {
    /// The account of a run that is new.
    pub(crate) fn new(store: &Arc<dyn Store>) -> Account {
        Account {
            store: store.clone(),
            claim: OnceLock::new(),
            next: AtomicU64::new(1),
            answered: Totals::default(),
            lost: Mutex::default(),
            recorded: Lost::default(),
        }
    }

    /// The account of a run that is resumed: calls of earlier epochs without a recorded answer are lost.
    pub(crate) async fn resume(
        store: &Arc<dyn Store>,
        run: &RunId,
        records: &[Record],
        inherited: &[Record],
    ) -> Result<Account, StoreError> {
        let answered = kept::answered(records, inherited);
        let lost = Lost::before(u64::MAX, &store.calls(run).await?, &answered);
        let recorded = Lost::recorded(records).unwrap_or_default();
        Ok(Account { answered, lost: Mutex::new(lost), recorded, ..Account::new(store) })
    }

    /// Calls of earlier epochs that count as lost.
    pub(crate) fn lost(&self) -> Lost {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what was lost in earlier epochs. From here on calls are made.
    pub(crate) async fn begin(&self, claim: Lease) -> Result<(), StoreError> {
        let lost = self.lost();
        if lost != self.recorded {
            self.write_down(&claim, lost).await?;
        }
        let _ = self.claim.set(claim);
        Ok(())
    }

    async fn write_down(&self, claim: &Lease, lost: Lost) -> Result<(), StoreError> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Failed {
            path: claim.run.as_str().into(),
            reason: error.to_string(),
        };
        let key = Key::new(&format!("{LOST}/{}", claim.epoch)).map_err(|error| failed(&error))?;
        let text = serde_json::to_string(&lost).map_err(|error| failed(&error))?;
        let record = Record { key, request: Fingerprint::NONE, outcome: Outcome::Done(text) };
        let (calls, at_most_usd) = (lost.calls, lost.cost.dollars());
        let told = vec![RunEvent::CallsLost { calls, at_most_usd }.into()];
        self.store.append(claim, record, told).await.map(drop)
    }

    /// How much less was lost than was thought, as those who were taken for dead say by now.
    async fn reconciled(&self) -> Result<Lost, StoreError> {
        let Some(claim) = self.claim.get() else { return Ok(Lost::default()) };
        let calls = self.store.calls(&claim.run).await?;
        let now = Lost::before(claim.epoch, &calls, &self.answered);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let less = lost.less(&now);
        *lost = lost.less(&less);
        Ok(less)
    }

    fn claim(&self) -> Result<&Lease, BudgetError> {
        let why = "the run was not begun".to_owned();
        self.claim.get().ok_or(BudgetError::NotNoted { why, hint: None })
    }

    /// Notes that a call is over; what cannot be noted counts as lost.
    fn note_end(&self, number: u64, noted: Noted) {
        let Some(claim) = self.claim.get().cloned() else { return };
        // Without a runtime the process ends, and the call stays noted as sent.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = self.store.clone();
        runtime.spawn(async move {
            if let Err(error) = store.note_call(&claim, number, noted).await {
                tracing::warn!(%error, run = %claim.run, "what a call took could not be noted");
            }
        });
    }
}

/// Notes that a call costs nothing that is not made after all.
struct NotMade<'a>(Option<(&'a Account, u64)>);

impl Drop for NotMade<'_> {
    fn drop(&mut self) {
        if let Some((account, number)) = self.0 {
            let free = Noted { how: CallState::Free, tokens: 0, cost: Cost::Known(Money::ZERO) };
            account.note_end(number, free);
        }
    }
}

/// The ledger of a run whose account is kept.
#[derive(Debug)]
pub(crate) struct KeptLedger {
    account: Arc<Account>,
    inner: MemoryLedger,
}

impl KeptLedger {
    pub(crate) fn new(caps: Caps, account: Arc<Account>) -> KeptLedger {
        KeptLedger { account, inner: MemoryLedger::new(caps) }
    }
}

/// The error of a call that the store could not note.
fn not_noted(error: StoreError) -> BudgetError {
    let hint = error.hint().map(str::to_owned);
    BudgetError::NotNoted { why: error.to_string(), hint }
}

#[async_trait]
impl Ledger for KeptLedger {
    async fn reserve(&self, worst: Worst) -> Result<(), BudgetError> {
        let refused = match self.inner.reserve(worst).await {
            Err(refused) => refused,
            Ok(()) => return Ok(()),
        };
        let less = self.account.reconciled().await.map_err(not_noted)?;
        if less != Lost::default() {
            self.inner.allow_more(less.cost, less.tokens);
        }
        // Others may have found out at the same time, and allowed more.
        self.inner.reserve(worst).await.map_err(|_| refused)
    }

    async fn send(&self, worst: Worst) -> Result<u64, BudgetError> {
        let number = self.account.next.fetch_add(1, Ordering::Relaxed);
        let claim = self.account.claim()?;
        let Worst { tokens, cost } = worst;
        let noted = Noted { how: CallState::Sent, tokens, cost };
        // Whoever stops waiting in the middle of it does not make the call.
        let mut not_made = NotMade(Some((&self.account, number)));
        self.account.store.note_call(claim, number, noted).await.map_err(not_noted)?;
        not_made.0 = None;
        Ok(number)
    }

    fn held_up(&self) -> Duration {
        self.account.store.away()
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
        self.account.note_end(sent, Noted { how, tokens, cost });
    }

    fn count_replayed(&self) {
        self.inner.count_replayed();
    }

    fn totals(&self) -> Totals {
        self.inner.totals()
    }
}

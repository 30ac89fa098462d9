//! Budget of a run: limits on cost and tokens, reservations for calls in flight, and totals of settled calls.
//!
//! Before a call is sent, its maximum cost (an upper bound of its cost) is reserved. After the call, its actual cost
//! replaces the reservation. Concurrent calls can therefore not exceed the limits together. A reservation that does not
//! fit because of other calls in flight waits until those calls are settled. A reservation fails only if it would
//! exceed the limit even without any call in flight.

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use assize_types::{Cost, Money, Usage};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

/// Limits of a budget; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    pub cost: Option<Money>,
    /// Maximum sum of input and output tokens of all calls.
    pub tokens: Option<u64>,
}

/// Upper bounds of the tokens and the cost of one model call, computed before the call is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallMaximum {
    pub tokens: u64,
    pub cost: Cost,
}

/// Outcome of a model call, used to settle its reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// The call was answered, with this token usage and cost.
    Spent { usage: Usage, cost: Cost },
    /// The call was not sent, or the provider rejected it without charge.
    Free,
    /// The response was lost. The provider may have charged for the call, so the reserved cost counts as spent.
    Lost,
}

/// Totals of all settled calls of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BudgetTotals {
    /// Number of calls that were answered.
    pub calls: u64,
    pub usage: Usage,
    /// Total cost of the answered calls whose price is known.
    pub cost: Money,
    /// Number of answered or lost calls whose price is unknown.
    pub unpriced_calls: u64,
    /// Number of calls that were answered free of charge, by a model server that the user runs.
    pub local_calls: u64,
    /// Number of calls whose response was lost.
    pub lost_calls: u64,
    /// Upper bound of the cost of the lost calls: the sum of their reservations.
    pub lost_cost: Money,
    /// Upper bound of the tokens of the lost calls: the sum of their reservations.
    pub lost_tokens: u64,
    /// Number of calls that were replayed from a cassette, free of charge.
    pub replayed_calls: u64,
}

impl AddAssign<&BudgetTotals> for BudgetTotals {
    fn add_assign(&mut self, other: &BudgetTotals) {
        self.calls += other.calls;
        self.usage += other.usage;
        self.cost += other.cost;
        self.unpriced_calls += other.unpriced_calls;
        self.local_calls += other.local_calls;
        self.lost_calls += other.lost_calls;
        self.lost_cost += other.lost_cost;
        self.lost_tokens += other.lost_tokens;
        self.replayed_calls += other.replayed_calls;
    }
}

impl BudgetTotals {
    /// Total cost of the answered calls, or [`Cost::Unknown`] if the price of any call is unknown.
    pub fn known_cost(&self) -> Cost {
        match (self.unpriced_calls, self.local_calls) {
            (0, 0) => Cost::Known(self.cost),
            (0, _) => Cost::Local + Cost::Known(self.cost),
            _ => Cost::Unknown,
        }
    }
}

/// Why a model call was not sent: the budget does not allow the call, or the ledger could not record it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error(
        "the budget of {cap} does not allow another call, which may cost up to {worst}; spent so far: {spent}"
    )]
    Cost { cap: Money, spent: Money, worst: Money },
    #[error(
        "the budget of {cap} tokens does not allow another call, which may use up to {worst} tokens; spent so far: {spent}"
    )]
    Tokens { cap: u64, spent: u64, worst: u64 },
    #[error("a cost limit cannot be enforced for a model whose price is unknown")]
    NoPrice,
    #[error("the model call was not sent, because it could not be recorded first: {why}")]
    NotRecorded { why: String, hint: Option<String> },
}

/// Ledger of a budget: checks reservations against the limits, and adds up the costs of settled calls.
/// [`MemoryBudgetLedger`] stores nothing on disk. The ledger of a stored run also records every call in the run's
/// store.
#[async_trait]
pub trait BudgetLedger: Send + Sync + std::fmt::Debug {
    /// Reserves `worst`, the upper bounds of a call. If the reservations of calls in flight leave too little of the
    /// budget, waits until calls are settled.
    async fn reserve(&self, worst: CallMaximum) -> Result<(), BudgetError>;

    /// Records that a call is about to be sent and may be charged from now on. Returns the number of the record, or 0
    /// if the ledger does not store records.
    async fn record_sent(&self, _worst: CallMaximum) -> Result<u64, BudgetError> {
        Ok(0)
    }

    /// Total time during which the ledger's store was unavailable, so that no call could be recorded. This time does
    /// not count against the deadlines of calls.
    fn unavailable_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Replaces a reservation by the outcome of its call. `sent` is the record number that
    /// [`record_sent`](BudgetLedger::record_sent) returned, or 0 if the call was not sent.
    fn settle(&self, worst: CallMaximum, sent: u64, settlement: Settlement);

    /// Adds 1 to the number of calls that were replayed from a cassette.
    fn count_replayed(&self);

    fn totals(&self) -> BudgetTotals;
}

/// Budget ledger that exists only in the memory of one process.
#[derive(Debug, Default)]
pub struct MemoryBudgetLedger {
    limits: BudgetLimits,
    account: Mutex<Account>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct Account {
    totals: BudgetTotals,
    reserved_cost: Money,
    reserved_tokens: u64,
    /// Amount by which the cost limit was raised after the ledger was created.
    more_cost: Money,
    /// Number of tokens by which the token limit was raised after the ledger was created.
    more_tokens: u64,
}

enum Room {
    Yes,
    AfterOthers,
    No(BudgetError),
}

impl MemoryBudgetLedger {
    pub fn new(limits: BudgetLimits) -> MemoryBudgetLedger {
        MemoryBudgetLedger { limits, ..MemoryBudgetLedger::default() }
    }

    /// Raises the cost limit and the token limit by these amounts. A limit that is not set stays unlimited.
    pub fn raise_limits(&self, cost: Money, tokens: u64) {
        let mut account = self.account.lock();
        account.more_cost += cost;
        account.more_tokens = account.more_tokens.saturating_add(tokens);
        drop(account);
        self.settled.notify_waiters();
    }

    /// Reserves `worst`, the upper bounds of a call, if the budget allows the reservation now. Returns `false` if the
    /// call must wait until other calls in flight are settled.
    fn try_reserve(&self, worst: CallMaximum) -> Result<bool, BudgetError> {
        let mut account = self.account.lock();
        match self.room(&account, worst) {
            Room::Yes => {
                account.reserved_cost += worst.cost.known().unwrap_or_default();
                account.reserved_tokens = account.reserved_tokens.saturating_add(worst.tokens);
                Ok(true)
            }
            Room::AfterOthers => Ok(false),
            Room::No(error) => Err(error),
        }
    }

    fn room(&self, account: &Account, worst: CallMaximum) -> Room {
        let mut room = Room::Yes;
        if let Some(cap) = self.limits.cost.map(|cap| cap + account.more_cost) {
            let Some(cost) = worst.cost.known() else {
                return Room::No(BudgetError::NoPrice);
            };
            let spent = account.totals.cost + account.totals.lost_cost;
            if spent + cost > cap {
                return Room::No(BudgetError::Cost { cap, spent, worst: cost });
            }
            if spent + account.reserved_cost + cost > cap {
                room = Room::AfterOthers;
            }
        }
        let token_cap = self.limits.tokens.map(|cap| cap.saturating_add(account.more_tokens));
        if let Some(cap) = token_cap {
            let spent = account.totals.usage.total().saturating_add(account.totals.lost_tokens);
            if spent.saturating_add(worst.tokens) > cap {
                return Room::No(BudgetError::Tokens { cap, spent, worst: worst.tokens });
            }
            if spent.saturating_add(account.reserved_tokens).saturating_add(worst.tokens) > cap {
                room = Room::AfterOthers;
            }
        }
        room
    }
}

#[async_trait]
impl BudgetLedger for MemoryBudgetLedger {
    async fn reserve(&self, worst: CallMaximum) -> Result<(), BudgetError> {
        loop {
            if self.try_reserve(worst)? {
                return Ok(());
            }
            // A call may be settled between the first check and the wait. So this task registers for the notification
            // and then checks again.
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if self.try_reserve(worst)? {
                return Ok(());
            }
            settled.await;
        }
    }

    fn settle(&self, worst: CallMaximum, _: u64, settlement: Settlement) {
        let mut account = self.account.lock();
        let worst_cost = worst.cost.known().unwrap_or_default();
        account.reserved_cost = account.reserved_cost.saturating_sub(worst_cost);
        account.reserved_tokens = account.reserved_tokens.saturating_sub(worst.tokens);
        let totals = &mut account.totals;
        match settlement {
            Settlement::Spent { usage, cost } => {
                totals.calls += 1;
                totals.usage += usage;
                match cost {
                    Cost::Known(cost) => totals.cost += cost,
                    Cost::Local => totals.local_calls += 1,
                    Cost::Unknown => totals.unpriced_calls += 1,
                }
            }
            Settlement::Lost => {
                totals.lost_calls += 1;
                totals.unpriced_calls += u64::from(worst.cost == Cost::Unknown);
                totals.lost_cost += worst_cost;
                totals.lost_tokens = totals.lost_tokens.saturating_add(worst.tokens);
            }
            Settlement::Free => {}
        }
        drop(account);
        self.settled.notify_waiters();
    }

    fn count_replayed(&self) {
        self.account.lock().totals.replayed_calls += 1;
    }

    fn totals(&self) -> BudgetTotals {
        self.account.lock().totals
    }
}

/// A reservation for one model call. If the reservation is dropped without [`settle`](Reservation::settle), a call that
/// was sent counts as lost, and a call that was not sent counts as free.
#[derive(Debug)]
pub struct Reservation {
    ledger: Arc<dyn BudgetLedger>,
    worst: CallMaximum,
    /// Number of the record that the ledger wrote before the call was sent; 0 if the call was not sent or not recorded.
    sent: u64,
    settlement_on_drop: Option<Settlement>,
}

impl Reservation {
    pub async fn make(
        ledger: &Arc<dyn BudgetLedger>,
        worst: CallMaximum,
    ) -> Result<Reservation, BudgetError> {
        ledger.reserve(worst).await?;
        let at_drop = Some(Settlement::Free);
        Ok(Reservation { ledger: Arc::clone(ledger), worst, sent: 0, settlement_on_drop: at_drop })
    }

    /// Records in the ledger that the call is about to be sent. From now on the call may be charged.
    pub async fn mark_sent(&mut self) -> Result<(), BudgetError> {
        self.sent = self.ledger.record_sent(self.worst).await?;
        self.settlement_on_drop = Some(Settlement::Lost);
        Ok(())
    }

    pub fn settle(mut self, settlement: Settlement) {
        self.settlement_on_drop = Some(settlement);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(settlement) = self.settlement_on_drop.take() {
            self.ledger.settle(self.worst, self.sent, settlement);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const fn dollars(cents: u64) -> Money {
        Money::from_nanos(cents * 10_000_000)
    }

    fn worst(cents: u64) -> CallMaximum {
        CallMaximum { tokens: 100, cost: Cost::Known(dollars(cents)) }
    }

    fn spent(cents: u64) -> Settlement {
        Settlement::Spent { usage: Usage::default(), cost: Cost::Known(dollars(cents)) }
    }

    #[tokio::test(start_paused = true)]
    async fn reservation_waits_for_calls_in_flight_and_fails_only_above_the_cost_limit() {
        let ledger = Arc::new(MemoryBudgetLedger::new(BudgetLimits {
            cost: Some(dollars(100)),
            tokens: None,
        }));
        ledger.reserve(worst(80)).await.unwrap();
        let second = tokio::spawn({
            let ledger = Arc::clone(&ledger);
            async move { ledger.reserve(worst(50)).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(
            !second.is_finished(),
            "a reservation of 50 cents must wait while 80 of 100 cents are reserved"
        );
        ledger.settle(worst(80), 0, spent(10));
        assert_eq!(second.await.unwrap(), Ok(()));
        ledger.settle(worst(50), 0, spent(45));
        let refused = ledger.reserve(worst(50)).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the budget of $1.00 does not allow another call, which may cost up to $0.5000; spent so far: $0.5500"
        );
    }

    #[tokio::test]
    async fn lost_call_counts_as_spent_with_its_reserved_cost() {
        let ledger: Arc<dyn BudgetLedger> = Arc::new(MemoryBudgetLedger::new(BudgetLimits {
            cost: Some(dollars(100)),
            tokens: None,
        }));
        drop(Reservation::make(&ledger, worst(60)).await.unwrap());
        assert_eq!(
            ledger.totals(),
            BudgetTotals::default(),
            "a call that was not sent costs nothing"
        );
        let mut reservation = Reservation::make(&ledger, worst(60)).await.unwrap();
        reservation.mark_sent().await.unwrap();
        drop(reservation);
        let totals = ledger.totals();
        assert_eq!((totals.lost_calls, totals.lost_cost), (1, dollars(60)));
        assert!(Reservation::make(&ledger, worst(60)).await.is_err());
        Reservation::make(&ledger, worst(40)).await.unwrap().settle(Settlement::Free);
        assert_eq!(ledger.totals().cost, Money::ZERO);
    }

    #[tokio::test]
    async fn cost_limit_rejects_unpriced_calls_and_token_limit_accepts_them() {
        let unpriced = CallMaximum { tokens: 100, cost: Cost::Unknown };
        let by_cost =
            MemoryBudgetLedger::new(BudgetLimits { cost: Some(dollars(1)), tokens: None });
        assert_eq!(by_cost.reserve(unpriced).await, Err(BudgetError::NoPrice));
        let by_tokens = MemoryBudgetLedger::new(BudgetLimits { cost: None, tokens: Some(150) });
        by_tokens.reserve(unpriced).await.unwrap();
        let usage = Usage { input: 60, output: 20, ..Usage::default() };
        by_tokens.settle(unpriced, 0, Settlement::Spent { usage, cost: Cost::Unknown });
        assert_eq!(by_tokens.totals().known_cost(), Cost::Unknown);
        assert!(matches!(by_tokens.reserve(unpriced).await, Err(BudgetError::Tokens { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Runs up to 79 concurrent calls with random maximum costs, actual costs and durations. Some responses are
        /// lost.
        #[test]
        fn cost_limit_holds_for_any_number_of_concurrent_calls(
            cap in 1u64..2000,
            calls in prop::collection::vec((1u64..200, 0u64..=100, 0u64..50, any::<bool>()), 1..80),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let ledger: Arc<dyn BudgetLedger> =
                    Arc::new(MemoryBudgetLedger::new(BudgetLimits { cost: Some(dollars(cap)), tokens: None }));
                let actual = Arc::new(AtomicU64::new(0));
                let mut tasks = tokio::task::JoinSet::new();
                for (max, percent, delay, lost) in calls {
                    let (ledger, actual) = (Arc::clone(&ledger), Arc::clone(&actual));
                    tasks.spawn(async move {
                        let Ok(mut reservation) = Reservation::make(&ledger, worst(max)).await else { return };
                        reservation.mark_sent().await.unwrap();
                        tokio::time::sleep(Duration::from_millis(delay)).await;
                        let cost = max * percent / 100;
                        actual.fetch_add(cost, Ordering::Relaxed);
                        if lost { drop(reservation) } else { reservation.settle(spent(cost)) }
                    });
                }
                while tasks.join_next().await.is_some() {}
                let totals = ledger.totals();
                assert!(actual.load(Ordering::Relaxed) <= cap);
                assert!(totals.cost + totals.lost_cost <= dollars(cap));
            });
        }
    }
}

//! Keeps the calls to one provider within its limits: how many at once, how many requests and
//! tokens a minute, and what the provider's own headers say is left.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

const MINUTE: Duration = Duration::from_secs(60);

/// The limits that the user has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    pub concurrency: usize,
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { concurrency: 16, requests_per_minute: None, tokens_per_minute: None }
    }
}

/// What a provider says is left of its limits, and when that is renewed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    pub requests: Option<(u64, Instant)>,
    pub tokens: Option<(u64, Instant)>,
}

/// Lets calls to one provider through. A cluster shares one; a single process has a [`Pacer`].
#[async_trait]
pub trait Pace: Send + Sync + fmt::Debug {
    /// Waits until a call of so many tokens may be sent, or says how long that would be if it is not
    /// before `by`; the wait for a free slot does not count. `on_wait` is told of each wait that is due to a rate, once its length is known.
    async fn admit(
        self: Arc<Self>,
        tokens: u64,
        by: Instant,
        on_wait: &(dyn Fn(Duration) + Send + Sync),
    ) -> Result<Box<dyn Admitted>, Duration>;

    /// Takes what the provider said is left as true until it is renewed; `own` is the tokens of the call that tells.
    fn learn(&self, left: Left, own: u64);

    /// Holds every call back for a while: the provider asked for it.
    fn cool_down(&self, wait: Duration);

    /// Calls that may be under way at once.
    fn concurrency(&self) -> usize;
}

/// A call that was let through; dropping it makes room for another.
pub trait Admitted: Send + Sync {
    /// Corrects the number of tokens that the call was let through with.
    fn used(&self, tokens: u64);
}

/// Lets calls to one provider through one by one, in the order in which they came. All gateways to
/// that provider share one.
#[derive(Debug)]
pub struct Pacer {
    limits: Limits,
    slots: Arc<Semaphore>,
    /// Held by the call at the head of the queue while it waits.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was let through in the last minute: when, and with how many tokens.
    window: VecDeque<(Instant, u64)>,
    next_ticket: u64,
    first_ticket: u64,
    in_flight: u64,
    in_flight_tokens: u64,
    /// What the provider said is left, and when that is over.
    requests: Option<(u64, Instant)>,
    tokens: Option<(u64, Instant)>,
    cool_until: Option<Instant>,
}

/// A call that was let through.
#[derive(Debug)]
struct Permit {
    pacer: Arc<Pacer>,
    ticket: u64,
    tokens: u64,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Admitted for Permit {
    fn used(&self, tokens: u64) {
        let mut state = self.pacer.state.lock();
        if let Some(index) = self.ticket.checked_sub(state.first_ticket)
            && let Some(entry) = state.window.get_mut(index as usize)
        {
            entry.1 = tokens;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.pacer.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.in_flight_tokens = state.in_flight_tokens.saturating_sub(self.tokens);
    }
}

impl Pacer {
    pub fn new(limits: Limits) -> Arc<Pacer> {
        Arc::new(Pacer {
            slots: Arc::new(Semaphore::new(limits.concurrency.max(1))),
            limits,
            turn: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Counts a call that somebody else let through, whether there is room for it or not.
    pub fn adopt(self: &Arc<Pacer>, tokens: u64) -> Box<dyn Admitted> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok();
        let ticket = self.state.lock().let_through(Instant::now(), tokens, &self.limits);
        Box::new(Permit { pacer: Arc::clone(self), ticket, tokens, _slot: slot })
    }
}

#[async_trait]
impl Pace for Pacer {
    async fn admit(
        self: Arc<Self>,
        tokens: u64,
        by: Instant,
        on_wait: &(dyn Fn(Duration) + Send + Sync),
    ) -> Result<Box<dyn Admitted>, Duration> {
        let permit = |slot: OwnedSemaphorePermit, ticket: u64| {
            let pacer = Arc::clone(&self);
            Box::new(Permit { pacer, ticket, tokens, _slot: Some(slot) })
        };
        // The usual case: nobody is waiting and nothing stands in the way.
        if let Ok(_turn) = self.turn.try_lock()
            && let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned()
            && let Some(ticket) = self.state.lock().admit_now(tokens, &self.limits)
        {
            return Ok(permit(slot, ticket));
        }
        let queued = Instant::now();
        let turn = self.turn.lock().await;
        let slot = match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => slot,
            Err(_) => unreachable!("the semaphore is never closed"),
        };
        // Only waiting for a rate counts; the calls ahead in the queue have deadlines of their own.
        let by = by + queued.elapsed();
        loop {
            let now = Instant::now();
            let ready = self.state.lock().ready_at(now, tokens, &self.limits);
            match ready {
                Some(at) if at > by => return Err(at - now),
                Some(at) if at > now => {
                    on_wait(at - now);
                    sleep_until(at).await;
                }
                _ => break,
            }
        }
        let ticket = self.state.lock().let_through(Instant::now(), tokens, &self.limits);
        drop(turn);
        Ok(permit(slot, ticket))
    }

    fn learn(&self, left: Left, own: u64) {
        let mut state = self.state.lock();
        // Other calls under way may not be counted in it yet, so they are taken off.
        let others = state.in_flight.saturating_sub(1);
        let other_tokens = state.in_flight_tokens.saturating_sub(own);
        if let Some((requests, reset)) = left.requests {
            state.requests = Some((requests.saturating_sub(others), reset));
        }
        if let Some((tokens, reset)) = left.tokens {
            state.tokens = Some((tokens.saturating_sub(other_tokens), reset));
        }
    }

    fn cool_down(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut state = self.state.lock();
        state.cool_until = Some(state.cool_until.map_or(until, |before| before.max(until)));
    }

    fn concurrency(&self) -> usize {
        self.limits.concurrency.max(1)
    }
}

impl State {
    /// When a call of so many tokens fits; `None` or a past moment means now.
    fn ready_at(&mut self, now: Instant, tokens: u64, limits: &Limits) -> Option<Instant> {
        while self.window.front().is_some_and(|(at, _)| *at + MINUTE <= now) {
            self.window.pop_front();
            self.first_ticket += 1;
        }
        for left in [&mut self.requests, &mut self.tokens] {
            if left.is_some_and(|(_, reset)| reset <= now) {
                *left = None;
            }
        }
        [
            self.cool_until,
            self.requests.filter(|(left, _)| *left == 0).map(|(_, reset)| reset),
            self.tokens.filter(|(left, _)| *left < tokens).map(|(_, reset)| reset),
            self.window_fits(tokens, limits),
        ]
        .into_iter()
        .flatten()
        .max()
    }

    /// When enough of the last minute has passed for this call to fit the user's limits.
    fn window_fits(&self, tokens: u64, limits: &Limits) -> Option<Instant> {
        let by_requests = limits.requests_per_minute.and_then(|most| {
            let over =
                (self.window.len() as u64 + 1).checked_sub(most.max(1)).filter(|n| *n > 0)?;
            self.window.get(over as usize - 1).map(|(at, _)| *at + MINUTE)
        });
        let by_tokens = limits.tokens_per_minute.and_then(|most| {
            // A call larger than the whole limit fits only an empty window.
            let mut over = self
                .window
                .iter()
                .fold(tokens, |sum, (_, t)| sum.saturating_add(*t))
                .checked_sub(most)?;
            let mut until = None;
            for (at, spent) in &self.window {
                if over == 0 {
                    break;
                }
                over = over.saturating_sub(*spent);
                until = Some(*at + MINUTE);
            }
            until
        });
        by_requests.max(by_tokens)
    }

    /// Lets a call through if it fits at this moment.
    fn admit_now(&mut self, tokens: u64, limits: &Limits) -> Option<u64> {
        let now = Instant::now();
        let ready = self.ready_at(now, tokens, limits).is_none_or(|at| at <= now);
        ready.then(|| self.let_through(now, tokens, limits))
    }

    fn let_through(&mut self, now: Instant, tokens: u64, limits: &Limits) -> u64 {
        self.in_flight += 1;
        self.in_flight_tokens = self.in_flight_tokens.saturating_add(tokens);
        if let Some((left, _)) = &mut self.requests {
            *left = left.saturating_sub(1);
        }
        if let Some((left, _)) = &mut self.tokens {
            *left = left.saturating_sub(tokens);
        }
        let ticket = self.next_ticket;
        // Without a limit nobody asks what the last minute saw.
        if limits.requests_per_minute.or(limits.tokens_per_minute).is_some() {
            self.window.push_back((now, tokens));
            self.next_ticket += 1;
        }
        ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(10_000)
    }

    const QUIET: &(dyn Fn(Duration) + Send + Sync) = &|_| {};

    fn pacer(requests: Option<u64>, tokens: Option<u64>) -> Arc<Pacer> {
        Pacer::new(Limits {
            concurrency: 1000,
            requests_per_minute: requests,
            tokens_per_minute: tokens,
        })
    }

    /// Sends `count` calls as fast as they are let through; the seconds at which each went.
    async fn seconds(pacer: &Arc<Pacer>, count: usize, tokens: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..count {
            drop(pacer.clone().admit(tokens, later(), QUIET).await.unwrap());
            at.push(start.elapsed().as_secs());
        }
        at
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_sees_more_requests_than_allowed() {
        let at = seconds(&pacer(Some(3), None), 8, 0).await;
        assert_eq!(at, [0, 0, 0, 60, 60, 60, 120, 120]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_sees_more_tokens_than_allowed() {
        let at = seconds(&pacer(None, Some(100)), 5, 40).await;
        assert_eq!(at, [0, 0, 60, 60, 120]);
        let huge = seconds(&pacer(None, Some(100)), 2, 500).await;
        assert_eq!(huge, [0, 60], "a call larger than the limit still gets its turn");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_call_really_used_replaces_the_guess() {
        let pacer = pacer(None, Some(100));
        let permit = pacer.clone().admit(90, later(), QUIET).await.unwrap();
        permit.used(10);
        let start = Instant::now();
        drop(pacer.clone().admit(90, later(), QUIET).await.unwrap());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_under_way_at_once() {
        let pacer = Pacer::new(Limits { concurrency: 2, ..Limits::default() });
        let one = pacer.clone().admit(0, later(), QUIET).await.unwrap();
        let _two = pacer.clone().admit(0, later(), QUIET).await.unwrap();
        let third =
            tokio::time::timeout(Duration::from_secs(5), pacer.clone().admit(0, later(), QUIET))
                .await;
        assert!(third.is_err(), "the third must wait");
        drop(one);
        let third =
            tokio::time::timeout(Duration::from_secs(5), pacer.clone().admit(0, later(), QUIET))
                .await;
        assert!(third.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_provider_says_is_left_is_believed_until_it_is_renewed() {
        let pacer = pacer(None, None);
        let soon = |seconds| Instant::now() + Duration::from_secs(seconds);
        pacer.learn(Left { requests: Some((1, soon(20))), tokens: None }, 0);
        assert_eq!(seconds(&pacer, 3, 0).await, [0, 20, 20]);
        pacer.learn(Left { requests: None, tokens: Some((50, soon(6))) }, 0);
        assert_eq!(seconds(&pacer, 3, 30).await, [0, 6, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_what_comes_too_late() {
        let pacer = pacer(None, None);
        pacer.cool_down(Duration::from_secs(900));
        let by = Instant::now() + Duration::from_secs(600);
        let told = pacer.clone().admit(0, by, QUIET).await.map(drop).unwrap_err();
        assert_eq!(told, Duration::from_secs(900));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cool_down_holds_everyone_back_and_tells_how_long() {
        let pacer = pacer(None, None);
        pacer.cool_down(Duration::from_secs(30));
        pacer.cool_down(Duration::from_secs(10));
        let told = Mutex::new(Vec::new());
        let start = Instant::now();
        let hear = |wait| told.lock().push(wait);
        drop(pacer.clone().admit(0, later(), &hear).await.unwrap());
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        assert_eq!(*told.lock(), [Duration::from_secs(30)]);
    }
}

//! Rate limiter for the calls to one provider. It limits concurrent calls, requests per minute and tokens per minute,
//! and respects the remaining limits that the provider reports in its headers.

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

/// Rate limits of a provider from the user's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RateLimits {
    /// Maximum number of concurrent calls.
    pub concurrency: usize,
    pub requests_per_minute: Option<u64>,
    pub tokens_per_minute: Option<u64>,
}

impl Default for RateLimits {
    fn default() -> RateLimits {
        RateLimits { concurrency: 16, requests_per_minute: None, tokens_per_minute: None }
    }
}

/// Numbers of remaining requests and tokens that a provider reports, each with the time at which the provider resets
/// it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemainingLimits {
    pub requests: Option<(u64, Instant)>,
    pub tokens: Option<(u64, Instant)>,
}

/// Rate limiter for one provider. [`RateLimiter`] limits the calls of one process; another implementation limits the
/// calls of a whole cluster.
#[async_trait]
pub trait RateLimit: Send + Sync + fmt::Debug {
    /// Waits first for a free slot, and then until the rate limits permit a call with this many tokens. If the rate
    /// limits permit the call only after the time `by`, returns the necessary wait as an error. The time spent waiting
    /// for a slot is added to `by`. Calls `on_wait` before each wait for a rate limit.
    async fn admit(
        self: Arc<Self>,
        tokens: u64,
        by: Instant,
        on_wait: &(dyn Fn(Duration) + Send + Sync),
    ) -> Result<Box<dyn CallPermit>, Duration>;

    /// Limits later calls to the remaining requests and tokens that a response reports, until the provider resets them.
    /// `own` is the number of tokens of the call to which the response belongs.
    fn apply_remaining(&self, left: RemainingLimits, own: u64);

    /// Delays all calls by `wait`, because the provider requested a delay.
    fn cool_down(&self, wait: Duration);

    /// Maximum number of concurrent calls.
    fn concurrency(&self) -> usize;
}

/// Permit for one call. Dropping the permit frees its slot for another call.
pub trait CallPermit: Send + Sync {
    /// Replaces the estimated number of tokens of the call by the actual number.
    fn set_actual_tokens(&self, tokens: u64);
}

/// Rate limiter of one process for one provider. All gateways to the provider share it. It admits calls in their order
/// of arrival.
#[derive(Debug)]
pub struct RateLimiter {
    limits: RateLimits,
    slots: Arc<Semaphore>,
    /// Lock that keeps calls in order: the first waiting call holds the lock, and later calls wait for the lock.
    queue_lock: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time and tokens of each call that was admitted in the last minute.
    window: VecDeque<(Instant, u64)>,
    /// Ticket (sequence number) of the next call that is added to `window`.
    next_ticket: u64,
    /// Ticket (sequence number) of the first call in `window`.
    first_ticket: u64,
    in_flight: u64,
    in_flight_tokens: u64,
    /// Number of remaining requests that the provider reported, and the time at which the provider resets it.
    requests: Option<(u64, Instant)>,
    /// Number of remaining tokens that the provider reported, and the time at which the provider resets it.
    tokens: Option<(u64, Instant)>,
    /// Time before which no call may be sent, because the provider requested a delay.
    cool_until: Option<Instant>,
}

/// Permit for a call that the rate limiter admitted.
#[derive(Debug)]
struct Permit {
    limiter: Arc<RateLimiter>,
    ticket: u64,
    tokens: u64,
    _slot: Option<OwnedSemaphorePermit>,
}

impl CallPermit for Permit {
    fn set_actual_tokens(&self, tokens: u64) {
        let mut state = self.limiter.state.lock();
        if let Some(index) = self.ticket.checked_sub(state.first_ticket)
            && let Some(entry) = state.window.get_mut(index as usize)
        {
            entry.1 = tokens;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        state.in_flight_tokens = state.in_flight_tokens.saturating_sub(self.tokens);
    }
}

impl RateLimiter {
    pub fn new(limits: RateLimits) -> Arc<RateLimiter> {
        Arc::new(RateLimiter {
            slots: Arc::new(Semaphore::new(limits.concurrency.max(1))),
            limits,
            queue_lock: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Counts a call that another rate limiter has already admitted. The call is counted even if it exceeds the limits
    /// of this rate limiter.
    pub fn count_admitted(self: &Arc<RateLimiter>, tokens: u64) -> Box<dyn CallPermit> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok();
        let ticket = self.state.lock().record(Instant::now(), tokens, &self.limits);
        Box::new(Permit { limiter: Arc::clone(self), ticket, tokens, _slot: slot })
    }
}

#[async_trait]
impl RateLimit for RateLimiter {
    async fn admit(
        self: Arc<Self>,
        tokens: u64,
        by: Instant,
        on_wait: &(dyn Fn(Duration) + Send + Sync),
    ) -> Result<Box<dyn CallPermit>, Duration> {
        let permit = |slot: OwnedSemaphorePermit, ticket: u64| {
            let limiter = Arc::clone(&self);
            Box::new(Permit { limiter, ticket, tokens, _slot: Some(slot) })
        };
        // Fast path: the queue is empty and the limits permit the call.
        if let Ok(_turn) = self.queue_lock.try_lock()
            && let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned()
            && let Some(ticket) = self.state.lock().admit_now(tokens, &self.limits)
        {
            return Ok(permit(slot, ticket));
        }
        let queued = Instant::now();
        let turn = self.queue_lock.lock().await;
        let slot = match Arc::clone(&self.slots).acquire_owned().await {
            Ok(slot) => slot,
            Err(_) => unreachable!("the semaphore is never closed"),
        };
        // The time in the queue does not count: only the wait for a rate limit must end before `by`.
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
        let ticket = self.state.lock().record(Instant::now(), tokens, &self.limits);
        drop(turn);
        Ok(permit(slot, ticket))
    }

    fn apply_remaining(&self, left: RemainingLimits, own: u64) {
        let mut state = self.state.lock();
        // The provider may not have counted the other calls in flight yet, so they are subtracted from what remains.
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
    /// Time at which a call with this many tokens may be sent; `None` or a past time means now.
    fn ready_at(&mut self, now: Instant, tokens: u64, limits: &RateLimits) -> Option<Instant> {
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

    /// Time at which the user's limits per minute permit a call with this many tokens; `None` means now.
    fn window_fits(&self, tokens: u64, limits: &RateLimits) -> Option<Instant> {
        let by_requests = limits.requests_per_minute.and_then(|max| {
            let over = (self.window.len() as u64 + 1).checked_sub(max.max(1)).filter(|n| *n > 0)?;
            self.window.get(over as usize - 1).map(|(at, _)| *at + MINUTE)
        });
        let by_tokens = limits.tokens_per_minute.and_then(|max| {
            // A call with more tokens than the whole limit is admitted only if no other call was admitted in the last
            // minute.
            let mut over = self
                .window
                .iter()
                .fold(tokens, |sum, (_, t)| sum.saturating_add(*t))
                .checked_sub(max)?;
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

    /// Admits a call if the limits permit it now, and returns the call's ticket (sequence number). Returns `None` if
    /// the call must wait.
    fn admit_now(&mut self, tokens: u64, limits: &RateLimits) -> Option<u64> {
        let now = Instant::now();
        let ready = self.ready_at(now, tokens, limits).is_none_or(|at| at <= now);
        ready.then(|| self.record(now, tokens, limits))
    }

    fn record(&mut self, now: Instant, tokens: u64, limits: &RateLimits) -> u64 {
        self.in_flight += 1;
        self.in_flight_tokens = self.in_flight_tokens.saturating_add(tokens);
        if let Some((left, _)) = &mut self.requests {
            *left = left.saturating_sub(1);
        }
        if let Some((left, _)) = &mut self.tokens {
            *left = left.saturating_sub(tokens);
        }
        let ticket = self.next_ticket;
        // The window is only needed for limits per minute.
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

    fn rate_limiter(requests: Option<u64>, tokens: Option<u64>) -> Arc<RateLimiter> {
        RateLimiter::new(RateLimits {
            concurrency: 1000,
            requests_per_minute: requests,
            tokens_per_minute: tokens,
        })
    }

    /// Sends `count` calls as fast as the rate limiter admits them. Returns the second at which each call was sent.
    async fn seconds(rate_limiter: &Arc<RateLimiter>, count: usize, tokens: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..count {
            drop(rate_limiter.clone().admit(tokens, later(), QUIET).await.unwrap());
            at.push(start.elapsed().as_secs());
        }
        at
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_limits_requests_per_minute() {
        let at = seconds(&rate_limiter(Some(3), None), 8, 0).await;
        assert_eq!(at, [0, 0, 0, 60, 60, 60, 120, 120]);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_limits_tokens_per_minute() {
        let at = seconds(&rate_limiter(None, Some(100)), 5, 40).await;
        assert_eq!(at, [0, 0, 60, 60, 120]);
        let huge = seconds(&rate_limiter(None, Some(100)), 2, 500).await;
        assert_eq!(huge, [0, 60], "a call with more tokens than the limit is admitted alone");
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_replaces_estimated_tokens_by_actual_tokens() {
        let rate_limiter = rate_limiter(None, Some(100));
        let permit = rate_limiter.clone().admit(90, later(), QUIET).await.unwrap();
        permit.set_actual_tokens(10);
        let start = Instant::now();
        drop(rate_limiter.clone().admit(90, later(), QUIET).await.unwrap());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_limits_concurrent_calls() {
        let rate_limiter = RateLimiter::new(RateLimits { concurrency: 2, ..RateLimits::default() });
        let one = rate_limiter.clone().admit(0, later(), QUIET).await.unwrap();
        let _two = rate_limiter.clone().admit(0, later(), QUIET).await.unwrap();
        let third = tokio::time::timeout(
            Duration::from_secs(5),
            rate_limiter.clone().admit(0, later(), QUIET),
        )
        .await;
        assert!(third.is_err(), "the third call must wait, because the limit is 2 calls");
        drop(one);
        let third = tokio::time::timeout(
            Duration::from_secs(5),
            rate_limiter.clone().admit(0, later(), QUIET),
        )
        .await;
        assert!(third.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_applies_the_remaining_limits_of_a_provider_until_their_reset() {
        let rate_limiter = rate_limiter(None, None);
        let soon = |seconds| Instant::now() + Duration::from_secs(seconds);
        rate_limiter
            .apply_remaining(RemainingLimits { requests: Some((1, soon(20))), tokens: None }, 0);
        assert_eq!(seconds(&rate_limiter, 3, 0).await, [0, 20, 20]);
        rate_limiter
            .apply_remaining(RemainingLimits { requests: None, tokens: Some((50, soon(6))) }, 0);
        assert_eq!(seconds(&rate_limiter, 3, 30).await, [0, 6, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_rejects_a_call_that_would_wait_beyond_its_deadline() {
        let rate_limiter = rate_limiter(None, None);
        rate_limiter.cool_down(Duration::from_secs(900));
        let by = Instant::now() + Duration::from_secs(600);
        let wait = rate_limiter.clone().admit(0, by, QUIET).await.map(drop).unwrap_err();
        assert_eq!(wait, Duration::from_secs(900));
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limiter_cool_down_delays_calls_and_reports_the_wait() {
        let rate_limiter = rate_limiter(None, None);
        rate_limiter.cool_down(Duration::from_secs(30));
        rate_limiter.cool_down(Duration::from_secs(10));
        let waits = Mutex::new(Vec::new());
        let start = Instant::now();
        let on_wait = |wait| waits.lock().push(wait);
        drop(rate_limiter.clone().admit(0, later(), &on_wait).await.unwrap());
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        assert_eq!(*waits.lock(), [Duration::from_secs(30)]);
    }
}

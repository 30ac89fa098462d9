//! Rate limit on how often clients start runs, programs, sandboxes and estimates.

use std::time::Instant;

use axum::http::StatusCode;
use parking_lot::Mutex;

use crate::problem::Problem;

/// Rate limiter for starts: a token bucket whose capacity is the number of starts allowed per minute.
#[derive(Debug)]
pub(crate) struct StartLimit {
    per_minute: u32,
    /// Number of tokens left in the bucket, and the time at which that number was computed.
    state: Mutex<(f64, Instant)>,
}

impl StartLimit {
    pub(crate) fn new(per_minute: u32) -> StartLimit {
        StartLimit { per_minute, state: Mutex::new((f64::from(per_minute), Instant::now())) }
    }

    /// Removes one token from the bucket. If the bucket is empty, returns a 429 problem with the number of seconds to
    /// wait.
    pub(crate) fn take(&self) -> Result<(), Problem> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Result<(), Problem> {
        let mut state = self.state.lock();
        let (left, then) = *state;
        let capacity = f64::from(self.per_minute);
        let added = now.saturating_duration_since(then).as_secs_f64() * capacity / 60.0;
        let left = (left + added).min(capacity);
        let enough = left >= 1.0;
        *state = (if enough { left - 1.0 } else { left }, now);
        if enough {
            return Ok(());
        }
        let detail = format!(
            "the limit of {} starts per minute (runs, programs, sandboxes and estimates) is reached",
            self.per_minute
        );
        let seconds = ((1.0 - left) * 60.0 / capacity).ceil().max(1.0);
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
            .hint(
                "retry after the number of seconds in the `Retry-After` header, or raise the setting \
                 `serve.starts_per_minute`",
            )
            .retry_after(seconds as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn start_limit_allows_the_configured_number_of_starts_per_minute() {
        let pace = StartLimit::new(3);
        let start = Instant::now();
        let taken = |seconds: u64| pace.take_at(start + Duration::from_secs(seconds)).is_ok();
        assert_eq!([taken(0), taken(0), taken(0), taken(0)], [true, true, true, false]);
        assert_eq!([taken(19), taken(21), taken(22)], [false, true, false]);
        assert_eq!([taken(3600), taken(3600), taken(3600), taken(3600)], [true, true, true, false]);
    }
}

//! When a call is sent again, and how long it waits until then.

use std::time::Duration;

use assize_llm::ModelError;

/// How failed calls are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call is sent again after it failed.
    pub retries: u32,
    /// The longest wait before the first repetition; it doubles with each further one.
    pub base: Duration,
    /// The longest wait of all, where the provider does not ask for a longer one.
    pub cap: Duration,
    /// How long one attempt may take; of a stream, how long it may be silent.
    pub attempt_timeout: Duration,
    /// How long a local server may take to its first token: it may be slow to read a long prompt.
    pub local_start_timeout: Duration,
    /// How long the whole call may take, attempts and repetitions together. The wait for a free slot does not
    /// count, and an answer that is still coming in is not ended.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            retries: 3,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(120),
            local_start_timeout: Duration::from_secs(600),
            deadline: Duration::from_secs(600),
        }
    }
}

impl RetryPolicy {
    /// How long to wait before attempt `attempt + 1`, or `None` if this failure is final.
    ///
    /// A provider that says how long to wait is obeyed. Otherwise the wait lies between half and all
    /// of an exponentially growing bound, so that callers who failed together do not return
    /// together; `jitter` is where in that range, from 0 to 1.
    pub fn wait_after(&self, error: &ModelError, attempt: u32, jitter: f64) -> Option<Duration> {
        if !error.kind().is_retryable() || attempt > self.retries {
            return None;
        }
        let bound = self.base.saturating_mul(1 << (attempt - 1).min(16)).min(self.cap);
        let own = bound.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
        Some(match error.retry_after {
            // At most a tenth longer than asked, never sooner.
            Some(asked) if asked > own => {
                asked + Duration::from_secs(1).min(asked / 10).mul_f64(jitter.clamp(0.0, 1.0))
            }
            // A wait of nothing is no wait that would help.
            _ => own,
        })
    }
}

#[cfg(test)]
mod tests {
    use assize_llm::ErrorKind;

    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_then_stop() {
        let policy = RetryPolicy { retries: 9, ..RetryPolicy::default() };
        let error = ModelError::new(ErrorKind::Server, "x");
        let waits = |jitter: f64| -> Vec<u128> {
            (1..=10)
                .filter_map(|n| policy.wait_after(&error, n, jitter))
                .map(|d| d.as_millis())
                .collect()
        };
        assert_eq!(waits(1.0), [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(waits(0.0), [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    }

    #[test]
    fn a_provider_that_names_a_wait_is_obeyed() {
        let policy = RetryPolicy::default();
        let mut error = ModelError::new(ErrorKind::RateLimited, "x");
        error.retry_after = Some(Duration::from_secs(40));
        assert_eq!(policy.wait_after(&error, 1, 0.0), Some(Duration::from_secs(40)));
        assert_eq!(policy.wait_after(&error, 1, 1.0), Some(Duration::from_secs(41)));
        assert_eq!(policy.wait_after(&error, 4, 0.0), None);
    }

    #[test]
    fn what_will_not_get_better_is_not_repeated() {
        use ErrorKind::*;
        let policy = RetryPolicy::default();
        let repeated = |kind| policy.wait_after(&ModelError::new(kind, "x"), 1, 0.5).is_some();
        for kind in
            [Unreachable, Connection, Timeout, RateLimited, Overloaded, Server, Malformed, Empty]
        {
            assert!(repeated(kind), "{kind:?}");
        }
        for kind in [
            BadRequest,
            ContextOverflow,
            Unauthorized,
            Forbidden,
            NotFound,
            TooLarge,
            SpendLimit,
            Budget,
            Deadline,
            Cancelled,
            NotRecorded,
            NotNoted,
            Internal,
        ] {
            assert!(!repeated(kind), "{kind:?}");
        }
    }
}

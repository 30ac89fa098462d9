//! Retry policy: which failed model calls are retried, and after which delay.

use std::time::Duration;

use assize_llm::ModelError;

/// Retries and time limits of model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries of a call.
    pub retries: u32,
    /// Maximum delay before the first retry. The maximum doubles with each further retry.
    pub base_delay: Duration,
    /// Maximum delay before any retry, unless the provider requests a longer delay.
    pub max_delay: Duration,
    /// Timeout of one attempt. For a streamed answer, the maximum time without data.
    pub attempt_timeout: Duration,
    /// Maximum time until a local server sends the first token. Local servers may need long to process a long prompt.
    pub local_start_timeout: Duration,
    /// Time limit of a call including its retries. Waiting for a free slot in the rate limiter does not count, and an
    /// answer that is still streaming is not cut off.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            retries: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            attempt_timeout: Duration::from_secs(120),
            local_start_timeout: Duration::from_secs(600),
            deadline: Duration::from_secs(600),
        }
    }
}

impl RetryPolicy {
    /// Returns the delay before attempt `attempt + 1`, or `None` if the call must not be retried.
    ///
    /// The delay is between half of a bound and the whole bound. `jitter`, a random number from 0 to 1, selects the
    /// delay in this range, so that calls that fail at the same time do not retry at the same time. The bound doubles
    /// with each attempt, up to `max_delay`. If the provider requests a longer delay, the call waits for at least the
    /// requested delay.
    pub fn retry_delay(&self, error: &ModelError, attempt: u32, jitter: f64) -> Option<Duration> {
        if !error.kind().is_retryable() || attempt > self.retries {
            return None;
        }
        let bound = self.base_delay.saturating_mul(1 << (attempt - 1).min(16)).min(self.max_delay);
        let own = bound.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
        Some(match error.retry_after {
            // The delay is up to a tenth longer than the provider requests, but never shorter.
            Some(asked) if asked > own => {
                asked + Duration::from_secs(1).min(asked / 10).mul_f64(jitter.clamp(0.0, 1.0))
            }
            // A requested delay that is shorter than the delay of the policy is ignored.
            _ => own,
        })
    }
}

#[cfg(test)]
mod tests {
    use assize_llm::ErrorKind;

    use super::*;

    #[test]
    fn retry_delay_doubles_up_to_the_maximum_delay_until_retries_are_used_up() {
        let policy = RetryPolicy { retries: 9, ..RetryPolicy::default() };
        let error = ModelError::new(ErrorKind::Server, "x");
        let waits = |jitter: f64| -> Vec<u128> {
            (1..=10)
                .filter_map(|n| policy.retry_delay(&error, n, jitter))
                .map(|d| d.as_millis())
                .collect()
        };
        assert_eq!(waits(1.0), [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!(waits(0.0), [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    }

    #[test]
    fn retry_waits_at_least_as_long_as_the_provider_requests() {
        let policy = RetryPolicy::default();
        let mut error = ModelError::new(ErrorKind::RateLimited, "x");
        error.retry_after = Some(Duration::from_secs(40));
        assert_eq!(policy.retry_delay(&error, 1, 0.0), Some(Duration::from_secs(40)));
        assert_eq!(policy.retry_delay(&error, 1, 1.0), Some(Duration::from_secs(41)));
        assert_eq!(policy.retry_delay(&error, 4, 0.0), None);
    }

    #[test]
    fn retry_policy_retries_only_transient_errors() {
        use ErrorKind::*;
        let policy = RetryPolicy::default();
        let retried = |kind| policy.retry_delay(&ModelError::new(kind, "x"), 1, 0.5).is_some();
        for kind in
            [Unreachable, Connection, Timeout, RateLimited, Overloaded, Server, Malformed, Empty]
        {
            assert!(retried(kind), "{kind:?}");
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
            assert!(!retried(kind), "{kind:?}");
        }
    }
}

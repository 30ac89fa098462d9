//! How often trials may be begun.

use std::time::Instant;

use axum::http::StatusCode;
use parking_lot::Mutex;

use crate::problem::Problem;

/// A bucket that fills by so many a minute, and holds as many.
#[derive(Debug)]
pub(crate) struct Pace {
    a_minute: u32,
    state: Mutex<(f64, Instant)>,
}

impl Pace {
    pub(crate) fn new(a_minute: u32) -> Pace {
        Pace { a_minute, state: Mutex::new((f64::from(a_minute), Instant::now())) }
    }

    /// Takes one, if there is one.
    pub(crate) fn take(&self) -> Result<(), Problem> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Result<(), Problem> {
        let mut state = self.state.lock();
        let (left, then) = *state;
        let most = f64::from(self.a_minute);
        let grown = now.saturating_duration_since(then).as_secs_f64() * most / 60.0;
        let left = (left + grown).min(most);
        let enough = left >= 1.0;
        *state = (if enough { left - 1.0 } else { left }, now);
        if enough {
            return Ok(());
        }
        let detail = format!(
            "no more than {} trials, programs, sandboxes and estimates can be asked for in a minute",
            self.a_minute
        );
        let seconds = ((1.0 - left) * 60.0 / most).ceil().max(1.0);
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
            .hint("wait a moment; `serve.starts_per_minute` says how many")
            .wait(seconds as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn so_many_a_minute_and_no_more() {
        let pace = Pace::new(3);
        let begin = Instant::now();
        let taken = |seconds: u64| pace.take_at(begin + Duration::from_secs(seconds)).is_ok();
        assert_eq!([taken(0), taken(0), taken(0), taken(0)], [true, true, true, false]);
        assert_eq!([taken(19), taken(21), taken(22)], [false, true, false]);
        assert_eq!([taken(3600), taken(3600), taken(3600), taken(3600)], [true, true, true, false]);
    }
}

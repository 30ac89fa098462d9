//! What is being done, in a line: one that changes in place on a terminal, plain ones elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::account::account;
use crate::terminal::{self, DIM, Manner, paint};
use assize_run::Ledger;

/// Says what is being done, for how long already, and what it has taken.
pub(crate) struct Doing {
    heading: String,
    ledger: Arc<dyn Ledger>,
    begun: Instant,
    manner: Manner,
    now: Mutex<String>,
}

impl Doing {
    pub(crate) fn begin(heading: String, ledger: Arc<dyn Ledger>, quiet: bool) -> Doing {
        let manner = Manner::begin(quiet, &heading);
        let now = Mutex::new("getting ready".to_owned());
        Doing { heading, ledger, begun: Instant::now(), manner, now }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.manner == Manner::Live
    }

    /// Keeps the seconds going for as long as it is awaited.
    pub(crate) async fn tick(&self) {
        loop {
            if self.is_live() {
                self.draw(&self.now());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(crate) fn say(&self, doing: String) {
        match self.manner {
            Manner::Live => self.draw(&doing),
            Manner::Lines => terminal::note(&paint(DIM, &doing)),
            Manner::Silent => {}
        }
        *self.now() = doing;
    }

    fn now(&self) -> MutexGuard<'_, String> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, doing: &str) {
        let seconds = self.begun.elapsed().as_secs();
        let spent = account(&self.ledger.totals());
        let line = format!("  {doing} · {seconds} s · {spent}");
        terminal::draw(&[self.heading.clone(), paint(DIM, line)]);
    }
}

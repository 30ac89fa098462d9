//! How far a trial is: a line that changes in place on a terminal, plain lines elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_gateway::Ledger;
use assize_graph::{EffectStage, Signal};

use crate::account::account;
use crate::terminal::{self, DIM, Manner, paint};

/// Follows a trial and shows how far it is.
pub(super) struct Progress {
    heading: String,
    attempts: u32,
    ledger: Arc<dyn Ledger>,
    begun: Instant,
    manner: Manner,
    doing: Mutex<String>,
}

impl Progress {
    pub(super) fn new(
        heading: String,
        attempts: u32,
        ledger: Arc<dyn Ledger>,
        quiet: bool,
    ) -> Progress {
        let manner = Manner::begin(quiet, &heading);
        let (begun, doing) = (Instant::now(), Mutex::new("getting ready".to_owned()));
        Progress { heading, attempts, ledger, begun, manner, doing }
    }

    /// Keeps the seconds going for as long as it is awaited.
    pub(super) async fn tick(&self) {
        loop {
            if self.manner == Manner::Live {
                self.draw(&self.doing());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(super) fn see(&self, signal: &Signal<'_>) {
        let Signal::Effect { key, stage: EffectStage::Started } = signal else { return };
        let key = key.to_string();
        let place = key.strip_prefix("attempt-").and_then(|rest| rest.split_once('/'));
        let Some((attempt, part)) = place else { return };
        // Of several side by side, the last that anything was begun for.
        let (which, what) = part.rsplit_once('/').unwrap_or(("", part));
        let doing = match what {
            "race" | "commit" => return,
            "generate" => "writing the program",
            "execute" => "running it",
            "critique" => "asking the critic",
            _ => "asking once more, as the answer could not be read",
        };
        let which = which.strip_prefix("candidate-").map(|number| format!(" · program {number}"));
        let which = which.unwrap_or_default();
        let doing = format!("attempt {attempt} of {}{which} · {doing}", self.attempts);
        match self.manner {
            Manner::Live => self.draw(&doing),
            Manner::Lines => terminal::note(&paint(DIM, &doing)),
            Manner::Silent => {}
        }
        *self.doing() = doing;
    }

    fn doing(&self) -> MutexGuard<'_, String> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, doing: &str) {
        let seconds = self.begun.elapsed().as_secs();
        let spent = account(&self.ledger.totals());
        let line = format!("  {doing} · {seconds} s · {spent}");
        terminal::draw(&[self.heading.clone(), paint(DIM, line)]);
    }
}

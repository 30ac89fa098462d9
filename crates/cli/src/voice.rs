//! How a run is followed at the terminal: messages on the way, progress, and why it ended early.

use std::sync::Arc;

use assize_config::{Environment, Settings};
use assize_run::{Job, RunFailure, Trial};
use assize_service::Services;
use assize_types::{Failure, Reporter};

use crate::account::account;
use crate::terminal::{self, DIM, note, paint};

/// Shows warnings always, and notes unless it is quiet.
#[derive(Debug)]
struct Voice {
    quiet: bool,
}

impl Reporter for Voice {
    fn warn(&self, text: &str) {
        terminal::warn(text);
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            note(&paint(DIM, text));
        }
    }
}

/// Services of a command.
pub(crate) fn services(settings: Settings, environment: Environment, quiet: bool) -> Services {
    Services::new(settings, environment, Arc::new(Voice { quiet }))
}

/// Shows warnings alone.
pub(crate) fn quiet() -> Arc<dyn Reporter> {
    Arc::new(Voice { quiet: true })
}

/// The line above the progress of a run.
pub(crate) fn heading<J: Job>(trial: &Trial<J>, model: &str) -> String {
    let run = &trial.run;
    terminal::harmless(&format!("{} · {} · {}", run.id, run.title, model))
}

/// Shows what a run took that ended early, and how to resume it.
pub(crate) fn tell_failure<J: Job>(failed: RunFailure, trial: &Trial<J>, quiet: bool) -> Failure {
    let totals = trial.totals();
    if !quiet && totals.calls > 0 {
        note(&paint(DIM, format!("spent: {}", account(&totals))));
    }
    failed.resume.iter().for_each(|how| note(how));
    failed.failure
}

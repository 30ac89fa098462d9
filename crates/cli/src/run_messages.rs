//! Prints messages about a run to the terminal: warnings, notes, the heading, and the cost of a failed run.

use std::sync::Arc;

use assize_config::{Environment, Settings};
use assize_run::{Job, RunFailure, Trial};
use assize_service::Services;
use assize_types::{Failure, Reporter};

use crate::cost_format::format_spending;
use crate::terminal::{self, DIM, note, paint};

/// Reporter that prints warnings always, and notes only if `quiet` is false.
#[derive(Debug)]
struct TerminalReporter {
    quiet: bool,
}

impl Reporter for TerminalReporter {
    fn warn(&self, text: &str) {
        terminal::warn(text);
    }

    fn note(&self, text: &str) {
        if !self.quiet {
            note(&paint(DIM, text));
        }
    }
}

/// Creates the services that a command uses; their messages are printed to the terminal.
pub(crate) fn services(settings: Settings, environment: Environment, quiet: bool) -> Services {
    Services::new(settings, environment, Arc::new(TerminalReporter { quiet }))
}

/// Creates a reporter that prints only warnings.
pub(crate) fn quiet() -> Arc<dyn Reporter> {
    Arc::new(TerminalReporter { quiet: true })
}

/// Formats the heading above the progress of a run: id, title and model.
pub(crate) fn heading<J: Job>(trial: &Trial<J>, model: &str) -> String {
    let run = &trial.run;
    terminal::replace_control_chars(&format!("{} · {} · {}", run.id, run.title, model))
}

/// Prints the cost of a failed run and how to resume the run. Returns the failure.
pub(crate) fn report_failure<J: Job>(failed: RunFailure, trial: &Trial<J>, quiet: bool) -> Failure {
    let totals = trial.totals();
    if !quiet && totals.calls > 0 {
        note(&paint(DIM, format!("spent: {}", format_spending(&totals))));
    }
    failed.resume.iter().for_each(|how| note(how));
    failed.failure
}

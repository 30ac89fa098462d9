//! Progress display of a run. On a terminal, lines are redrawn in place; elsewhere, lines are appended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_run::BudgetLedger;

use crate::cost_format::format_spending;
use crate::terminal::{self, DIM, paint};

/// Interval at which progress lines on a terminal are redrawn, if they have changed.
const INTERVAL: Duration = Duration::from_millis(100);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Lines are redrawn in place.
    Live,
    /// Lines are appended.
    Lines,
    /// No progress is shown.
    Silent,
}

/// Time and cost of a run so far.
pub(crate) struct RunUsage {
    pub(crate) seconds: u64,
    pub(crate) spent: String,
}

/// Formats the progress of one kind of run.
pub(crate) trait ProgressView {
    /// Formats the progress lines below the heading.
    fn lines(&self, so_far: &RunUsage) -> Vec<String>;
}

/// Progress display of one run.
pub(crate) struct Progress<V> {
    heading: String,
    ledger: Arc<dyn BudgetLedger>,
    started: Instant,
    mode: Mode,
    view: Mutex<V>,
}

impl<V: ProgressView> Progress<V> {
    /// Creates the progress display of a run, in the mode that the terminal supports.
    pub(crate) fn begin(
        heading: String,
        ledger: Arc<dyn BudgetLedger>,
        quiet: bool,
        view: V,
    ) -> Arc<Progress<V>> {
        let mode = match (quiet, terminal::can_draw()) {
            (true, _) => Mode::Silent,
            (false, true) => Mode::Live,
            (false, false) => Mode::Lines,
        };
        if mode == Mode::Lines {
            terminal::note(&heading);
        }
        let (started, view) = (Instant::now(), Mutex::new(view));
        Arc::new(Progress { heading, ledger, started, mode, view })
    }

    /// Whether lines are redrawn in place.
    fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    /// Updates the view with `change`. If progress is shown as appended lines, also prints the line that `change`
    /// returns.
    pub(crate) fn update(&self, change: impl FnOnce(&mut V, &RunUsage) -> Option<String>) {
        let line = change(&mut self.view(), &self.usage_so_far());
        if let (Mode::Lines, Some(line)) = (self.mode, line) {
            terminal::note(&line);
        }
    }

    /// Shows the progress of the run until `end` completes (the end of the run), and returns the output of `end`.
    pub(crate) async fn until<T>(&self, end: impl Future<Output = T>) -> T {
        let ended = tokio::select! {
            ended = end => ended,
            () = self.draw() => unreachable!("`draw` never returns"),
        };
        terminal::draw(&[]);
        ended
    }

    /// Redraws the progress lines forever.
    async fn draw(&self) {
        loop {
            if self.is_live() {
                let mut lines = vec![self.heading.clone()];
                lines.extend(self.view().lines(&self.usage_so_far()));
                terminal::draw(&lines);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn usage_so_far(&self) -> RunUsage {
        let spent = format_spending(&self.ledger.totals());
        RunUsage { seconds: self.started.elapsed().as_secs(), spent }
    }

    fn view(&self) -> MutexGuard<'_, V> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress view with a single line: the current activity of the run.
pub(crate) struct Activity(String);

impl Default for Activity {
    fn default() -> Activity {
        Activity("preparing".to_owned())
    }
}

impl ProgressView for Activity {
    fn lines(&self, RunUsage { seconds, spent }: &RunUsage) -> Vec<String> {
        vec![paint(DIM, format!("  {} · {seconds} s · {spent}", self.0))]
    }
}

impl Progress<Activity> {
    /// Shows a new current activity.
    pub(crate) fn set_activity(&self, activity: String) {
        self.update(|view, _| {
            let line = paint(DIM, &activity);
            *view = Activity(activity);
            Some(line)
        });
    }
}

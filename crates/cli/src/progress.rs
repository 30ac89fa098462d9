//! Progress of a run: lines that change in place on a terminal, lines that stay elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_run::Ledger;

use crate::account::account;
use crate::terminal::{self, DIM, paint};

/// How often live lines are drawn, if they have changed.
const INTERVAL: Duration = Duration::from_millis(100);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Lines that change in place.
    Live,
    /// Lines that stay.
    Lines,
    Silent,
}

/// How long a run has taken, and its account, so far.
pub(crate) struct Consumption {
    pub(crate) seconds: u64,
    pub(crate) spent: String,
}

/// What a kind of run shows of its progress.
pub(crate) trait View {
    /// The lines below the heading.
    fn lines(&self, so_far: &Consumption) -> Vec<String>;
}

/// Progress of one run.
pub(crate) struct Progress<V> {
    heading: String,
    ledger: Arc<dyn Ledger>,
    begun: Instant,
    mode: Mode,
    view: Mutex<V>,
}

impl<V: View> Progress<V> {
    /// Begins to show progress, in the mode that the terminal allows.
    pub(crate) fn begin(
        heading: String,
        ledger: Arc<dyn Ledger>,
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
        let (begun, view) = (Instant::now(), Mutex::new(view));
        Arc::new(Progress { heading, ledger, begun, mode, view })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    /// Changes what is shown. Where lines stay, the line that the change gives is printed.
    pub(crate) fn update(&self, change: impl FnOnce(&mut V, &Consumption) -> Option<String>) {
        let line = change(&mut self.view(), &self.consumption());
        if let (Mode::Lines, Some(line)) = (self.mode, line) {
            terminal::note(&line);
        }
    }

    /// Awaits the end of the run and shows its progress meanwhile.
    pub(crate) async fn until<T>(&self, end: impl Future<Output = T>) -> T {
        let ended = tokio::select! {
            ended = end => ended,
            () = self.draw() => unreachable!("it draws for as long as it is awaited"),
        };
        terminal::draw(&[]);
        ended
    }

    async fn draw(&self) {
        loop {
            if self.is_live() {
                let mut lines = vec![self.heading.clone()];
                lines.extend(self.view().lines(&self.consumption()));
                terminal::draw(&lines);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn consumption(&self) -> Consumption {
        let spent = account(&self.ledger.totals());
        Consumption { seconds: self.begun.elapsed().as_secs(), spent }
    }

    fn view(&self) -> MutexGuard<'_, V> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// View of a run that does one thing at a time: one line that says which.
pub(crate) struct Activity(String);

impl Default for Activity {
    fn default() -> Activity {
        Activity("getting ready".to_owned())
    }
}

impl View for Activity {
    fn lines(&self, Consumption { seconds, spent }: &Consumption) -> Vec<String> {
        vec![paint(DIM, format!("  {} · {seconds} s · {spent}", self.0))]
    }
}

impl Progress<Activity> {
    pub(crate) fn say(&self, activity: String) {
        self.update(|view, _| {
            let line = paint(DIM, &activity);
            *view = Activity(activity);
            Some(line)
        });
    }
}

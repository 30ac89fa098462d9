//! Attempts, as they are read.

use assize_code::{Attempt, CodeFailure};
use assize_types::text::shorten;

use crate::terminal::{BAD, DIM, GOOD, harmless, paint};

/// The longest line of somebody else's that is shown.
const LONGEST: usize = 200;

/// One line for each attempt, and for those that failed why, and what the critic said.
pub(crate) fn attempts(history: &[Attempt]) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in history {
        let number = match attempt.candidate {
            Some(candidate) => format!("{}, program {candidate}", attempt.attempt),
            None => attempt.attempt.to_string(),
        };
        let was_run = attempt.error.as_ref().is_none_or(CodeFailure::was_run);
        let took = attempt
            .execution
            .as_ref()
            .filter(|_| was_run)
            .map(|execution| execution.outcome.duration);
        let took = took.map(|took| format!(" ({:.2} s)", took.as_secs_f64())).unwrap_or_default();
        let Some(error) = &attempt.error else {
            let (mark, how) = match attempt.succeeded() {
                true => (paint(GOOD, "✓"), "succeeded"),
                false => (paint(DIM, "–"), "was not run to its end"),
            };
            lines.push(format!("{mark} attempt {number} {how}{took}"));
            continue;
        };
        let why = harmless(&error.to_string());
        lines.push(format!("{} attempt {number} failed: {why}{took}", paint(BAD, "✗")));
        let last = attempt.execution.as_ref().and_then(|execution| last_line(&execution.stderr));
        let issues = attempt.critique.iter().flat_map(|critique| &critique.issues);
        let issues = issues.map(|issue| {
            let issue = issue.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("critic: {}", shorten(&issue, LONGEST))
        });
        let more = last.into_iter().chain(issues);
        lines.extend(more.map(|line| paint(DIM, format!("    {}", harmless(&line)))));
    }
    lines
}

/// The last line of a complaint, which is where most of them say what it is.
fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(shorten(line, LONGEST))
}

//! Attempts, as they are read.

use assize_code::{Attempt, CodeFailure, Execution, LeftFile, Verdict, telling_line};
use assize_run::RunId;
use assize_types::text::shorten;

use crate::hints;
use crate::terminal::{BAD, DIM, GOOD, grouped, harmless, paint};

/// The longest line of somebody else's that is shown.
const LONGEST: usize = 200;

/// The most tests that failed, and lines of complaint, that are shown.
const MOST_TESTS: usize = 5;
const MOST_LINES: usize = 20;

/// One line for each attempt, and for those that failed why, and what the critic said.
pub(crate) fn attempts(history: &[Attempt]) -> Vec<String> {
    let mut lines = Vec::new();
    for attempt in history {
        let number = number(attempt);
        let was_run = attempt.error.as_ref().is_none_or(CodeFailure::was_run);
        let took = attempt
            .execution
            .as_ref()
            .filter(|_| was_run)
            .map(|execution| execution.outcome.duration);
        let took = took.map(|took| format!(" ({:.2} s)", took.as_secs_f64())).unwrap_or_default();
        let Some(error) = &attempt.error else {
            let beside = |one: &Attempt| one.attempt == attempt.attempt && one.succeeded();
            let (mark, how) = match attempt.succeeded() {
                true => (paint(GOOD, "✓"), succeeded(attempt)),
                false if history.iter().any(beside) => {
                    (paint(DIM, "–"), "was given up, as another succeeded".to_owned())
                }
                false => (paint(DIM, "–"), "was not run to its end".to_owned()),
            };
            lines.push(format!("{mark} attempt {number} {how}{took}"));
            continue;
        };
        let why = harmless(&one_line(&error.to_string()));
        lines.push(format!("{} attempt {number} failed: {why}{took}", paint(BAD, "✗")));
        let issues = attempt.critique.iter().flat_map(|critique| &critique.issues);
        let issues = issues.map(|issue| format!("critic: {}", one_line(issue)));
        let more = attempt.execution.iter().flat_map(complaint).chain(issues);
        lines.extend(more.map(|line| paint(DIM, format!("    {}", harmless(&line)))));
    }
    lines
}

/// Which one it is: its attempt, and its number among several side by side.
pub(crate) fn number(attempt: &Attempt) -> String {
    match attempt.candidate {
        Some(candidate) => format!("{}, program {candidate}", attempt.attempt),
        None => attempt.attempt.to_string(),
    }
}

fn succeeded(attempt: &Attempt) -> String {
    let tests = attempt.execution.as_ref().and_then(|execution| execution.tests.as_ref());
    match tests.map(|report| report.passed) {
        None => "succeeded".to_owned(),
        Some(1) => "succeeded, 1 test passed".to_owned(),
        Some(passed) => format!("succeeded, {passed} tests passed"),
    }
}

/// What was said about a program that failed: by its tests, or by itself.
fn complaint(execution: &Execution) -> Vec<String> {
    let failed = execution.tests.iter().flat_map(|report| &report.failed);
    let told = failed.take(MOST_TESTS).map(|test| {
        let error = telling_line(&test.error).unwrap_or("it does not say why");
        one_line(&format!("{}: {error}", test.name))
    });
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => telling_line(&execution.stderr).map(one_line).into_iter().collect(),
        false => told,
    }
}

/// What a program that succeeded wrote to its standard error.
pub(crate) fn complaints(stderr: &str) -> Vec<String> {
    let all: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let left = all.len().saturating_sub(MOST_LINES);
    let more = (left > 0).then(|| format!("… {left} more lines of its standard error"));
    let shown = all.into_iter().skip(left).map(|line| harmless(&shorten(line, LONGEST)));
    more.into_iter().chain(shown).map(|line| paint(DIM, line)).collect()
}

/// That all was in vain, and where to look.
pub(crate) fn failure(verdict: &Verdict, run: &RunId) -> Vec<String> {
    let attempts = match verdict.attempts {
        1 => "after 1 attempt".to_owned(),
        attempts => format!("after {attempts} attempts"),
    };
    let why = verdict.error.as_deref().unwrap_or("nobody knows why");
    let why = harmless(&one_line(why));
    let mut lines = vec![
        format!("{} {attempts}: {why}", paint(BAD.bold(), "failed")),
        format!(
            "every program and its output: {}",
            hints::runs(&format!("show {run} --transcripts"))
        ),
    ];
    let refused = |one: &Attempt| matches!(one.error, Some(CodeFailure::PackageRefused { .. }));
    if verdict.history.iter().any(refused) {
        lines.push("the setting `packages.allow` says which packages may be used".to_owned());
    }
    lines
}

/// What a program left that nobody took.
pub(crate) fn left(files: &[LeftFile], run: &RunId) -> String {
    let names: Vec<String> =
        files.iter().map(|file| format!("{} ({} bytes)", file.name, grouped(file.bytes))).collect();
    let names = harmless(&one_line(&names.join(", ")));
    format!("it left {names}: {} takes it", hints::runs(&format!("files {run} --out FOLDER")))
}

/// Somebody else's words, in one line of bounded length.
fn one_line(text: &str) -> String {
    shorten(&assize_types::text::one_line(text), LONGEST)
}

//! Formats the attempts of `assize run` for the terminal.

use assize_code::{Attempt, CodeExecution, CodeFailure, CodeVerdict, OutputFile, informative_line};
use assize_run::RunId;
use assize_types::text::{counted, shorten};

use crate::hints;
use crate::terminal::{BAD, DIM, GOOD, grouped, paint, replace_control_chars};

/// Maximum length of a line of untrusted text, in characters. Longer lines are truncated.
const MAX_LINE: usize = 200;

/// Maximum number of failed tests that are shown.
const MAX_TESTS: usize = 5;
/// Maximum number of lines of a program's standard error that are shown.
const MAX_LINES: usize = 20;

/// Formats a line for each attempt. For a failed attempt, also formats the reason and the critique.
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
                    (paint(DIM, "–"), "was stopped, because another program succeeded".to_owned())
                }
                false => (paint(DIM, "–"), "did not finish".to_owned()),
            };
            lines.push(format!("{mark} attempt {number} {how}{took}"));
            continue;
        };
        let why = replace_control_chars(&one_line(&error.to_string()));
        lines.push(format!("{} attempt {number} failed: {why}{took}", paint(BAD, "✗")));
        let issues = attempt.critique.iter().flat_map(|critique| &critique.issues);
        let issues = issues.map(|issue| format!("critic: {}", one_line(issue)));
        let more = attempt.execution.iter().flat_map(failure_details).chain(issues);
        lines.extend(more.map(|line| paint(DIM, format!("    {}", replace_control_chars(&line)))));
    }
    lines
}

/// Formats the number of the attempt. If the attempt has several candidate programs, adds the number of the candidate.
pub(crate) fn number(attempt: &Attempt) -> String {
    match attempt.candidate {
        Some(candidate) => format!("{}, program {candidate}", attempt.attempt),
        None => attempt.attempt.to_string(),
    }
}

/// Describes the success of an attempt, with the number of passed tests.
fn succeeded(attempt: &Attempt) -> String {
    let tests = attempt.execution.as_ref().and_then(|execution| execution.tests.as_ref());
    match tests.map(|report| report.passed) {
        None => "succeeded".to_owned(),
        Some(1) => "succeeded, 1 test passed".to_owned(),
        Some(passed) => format!("succeeded, {passed} tests passed"),
    }
}

/// Formats why a program failed: the errors of its tests, or the line of its standard error that states the error.
fn failure_details(execution: &CodeExecution) -> Vec<String> {
    let failed = execution.tests.iter().flat_map(|report| &report.failed);
    let errors = failed.take(MAX_TESTS).map(|test| {
        let error = informative_line(&test.error).unwrap_or("no reason given");
        one_line(&format!("{}: {error}", test.name))
    });
    let errors: Vec<String> = errors.collect();
    match errors.is_empty() {
        true => informative_line(&execution.stderr).map(one_line).into_iter().collect(),
        false => errors,
    }
}

/// Formats the last lines that a successful program wrote to standard error.
pub(crate) fn stderr_lines(stderr: &str) -> Vec<String> {
    let all: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let left = all.len().saturating_sub(MAX_LINES);
    let more = (left > 0).then(|| {
        let lines = counted(left, "earlier line", "earlier lines");
        format!("… {lines} of the program's standard error not shown")
    });
    let shown =
        all.into_iter().skip(left).map(|line| replace_control_chars(&shorten(line, MAX_LINE)));
    more.into_iter().chain(shown).map(|line| paint(DIM, line)).collect()
}

/// Formats the lines for a run in which no attempt succeeded: the reason, and the command that shows details.
pub(crate) fn failure(verdict: &CodeVerdict, run: &RunId) -> Vec<String> {
    let attempts = match verdict.attempts {
        1 => "after 1 attempt".to_owned(),
        attempts => format!("after {attempts} attempts"),
    };
    let why = verdict.error.as_deref().unwrap_or("unknown reason");
    let why = replace_control_chars(&one_line(why));
    let mut lines = vec![
        format!("{} {attempts}: {why}", paint(BAD.bold(), "failed")),
        format!(
            "all programs and their output: {}",
            hints::runs(&format!("show {run} --transcripts"))
        ),
    ];
    let refused = |one: &Attempt| matches!(one.error, Some(CodeFailure::PackageRefused { .. }));
    if verdict.history.iter().any(refused) {
        lines.push("the setting `packages.allow` lists the allowed packages".to_owned());
    }
    lines
}

/// Formats a line about the files that a program created, if they were not copied: their names, and the command that
/// copies them.
pub(crate) fn created_files_line(files: &[OutputFile], run: &RunId) -> String {
    let names: Vec<String> =
        files.iter().map(|file| format!("{} ({} bytes)", file.name, grouped(file.bytes))).collect();
    let names = replace_control_chars(&one_line(&names.join(", ")));
    format!(
        "the program created {names}; copy the files with {}",
        hints::runs(&format!("files {run} --out FOLDER"))
    )
}

/// Joins untrusted text into one line of limited length.
fn one_line(text: &str) -> String {
    shorten(&assize_types::text::one_line(text), MAX_LINE)
}

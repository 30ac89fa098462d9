//! How a program went in its sandbox, and whether that counts as success.

use std::fmt;

use assize_sandbox::{Limits, Outcome};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::task::Task;

/// One execution, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// Why it does not count as success.
    pub failure: Option<CodeFailure>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What it wrote; what is no text in it is replaced.
    pub stdout: String,
    pub stderr: String,
    /// How the tests went, if there are any and they came to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestReport>,
    /// Files that it left, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<LeftFile>,
    /// What else it left, and why that was not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_taken: Vec<String>,
}

impl Execution {
    /// A program that was not even run.
    pub(crate) fn not_run(failure: CodeFailure) -> Execution {
        Execution {
            failure: Some(failure),
            outcome: Outcome::default(),
            stdout: String::new(),
            stderr: String::new(),
            tests: None,
            files: Vec::new(),
            not_taken: Vec::new(),
        }
    }
}

/// A file that a program left, kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftFile {
    pub name: String,
    pub bytes: u64,
    pub sha256: Fingerprint,
}

/// How the user's tests went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestReport {
    pub passed: u32,
    pub failed: Vec<FailedTest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTest {
    pub name: String,
    /// The last of what was said about it.
    pub error: String,
}

/// Why a program failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CodeFailure {
    /// The model's answer had no program in it.
    NoCode,
    /// It would not answer.
    Declined,
    ExitCode {
        exit_code: i32,
    },
    Signal {
        signal: i32,
    },
    TimedOut {
        limit_ms: u64,
    },
    OutOfMemory {
        megabytes: u64,
    },
    TestsFailed {
        failed: u32,
        of: u32,
    },
    /// It ended well before the tests were through.
    LeftEarly,
    NoTests,
    NotExpected {
        expected: String,
    },
    /// It was not run: it asks for what it may not have.
    PackageRefused {
        name: String,
    },
    /// It was not run: what it asks for cannot be had.
    PackagesNotHad {
        names: String,
        reason: String,
    },
}

impl CodeFailure {
    /// Whether there was anything to run, and it was run.
    pub fn was_run(&self) -> bool {
        use CodeFailure::{Declined, NoCode, PackageRefused, PackagesNotHad};
        !matches!(self, NoCode | Declined | PackageRefused { .. } | PackagesNotHad { .. })
    }
}

impl fmt::Display for CodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeFailure::NoCode => f.write_str("the model's answer had no code in it"),
            CodeFailure::Declined => f.write_str("the model declined to answer"),
            CodeFailure::ExitCode { exit_code } => write!(f, "it ended with exit code {exit_code}"),
            CodeFailure::Signal { signal } => write!(f, "it was ended by signal {signal}"),
            CodeFailure::TimedOut { limit_ms } => {
                // As short as it can be written.
                #[expect(clippy::cast_precision_loss, reason = "days in milliseconds fit well")]
                let seconds = *limit_ms as f64 / 1e3;
                write!(f, "it took longer than {seconds} s and was stopped")
            }
            CodeFailure::OutOfMemory { megabytes } => {
                write!(f, "it needed more than {megabytes} MB of memory and was stopped")
            }
            CodeFailure::TestsFailed { failed, of } => write!(f, "{failed} of {of} tests failed"),
            CodeFailure::LeftEarly => f.write_str("it ended before the tests were through"),
            CodeFailure::NoTests => f.write_str("there are no tests in the file of tests"),
            CodeFailure::PackageRefused { name } => {
                write!(f, "the package `{name}` is not one of those that may be used")
            }
            CodeFailure::PackagesNotHad { names, reason } => {
                write!(f, "the packages {names} cannot be had: {reason}")
            }
            CodeFailure::NotExpected { expected } => {
                write!(f, "its output is not what was expected: `{expected}`")
            }
        }
    }
}

/// Why an execution is no success, if it is none. `tests` is what is known of the tests, where there
/// are any.
pub(crate) fn judge(
    task: &Task,
    limits: &Limits,
    outcome: &Outcome,
    stdout: &str,
    tests: Option<&TestReport>,
) -> Option<CodeFailure> {
    let failed_tests = tests.filter(|report| !report.failed.is_empty());
    if outcome.timed_out {
        let limit_ms = u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX);
        return Some(CodeFailure::TimedOut { limit_ms });
    }
    if outcome.out_of_memory && (outcome.signal == Some(9) || outcome.exit_code != Some(0)) {
        return Some(CodeFailure::OutOfMemory { megabytes: limits.memory >> 20 });
    }
    if let Some(report) = failed_tests {
        let failed = u32::try_from(report.failed.len()).unwrap_or(u32::MAX);
        return Some(CodeFailure::TestsFailed { failed, of: failed + report.passed });
    }
    match (outcome.exit_code, outcome.signal) {
        (Some(0), _) => {}
        (Some(exit_code), _) => return Some(CodeFailure::ExitCode { exit_code }),
        (None, signal) => return Some(CodeFailure::Signal { signal: signal.unwrap_or(0) }),
    }
    match (&task.tests, tests) {
        (Some(_), None) => return Some(CodeFailure::LeftEarly),
        (Some(_), Some(TestReport { passed: 0, .. })) => return Some(CodeFailure::NoTests),
        _ => {}
    }
    let expected = task.expect.as_ref().filter(|expect| !expect.is_met_by(stdout));
    expected.map(|expect| CodeFailure::NotExpected { expected: expect.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_more_than_an_exit_code() {
        let task = |tests: bool, expect: Option<&str>| Task {
            tests: tests.then(String::new),
            expect: expect.map(|expect| expect.parse().unwrap()),
            ..Task::new("x")
        };
        let ended = |code: i32| Outcome { exit_code: Some(code), ..Outcome::default() };
        let killed = Outcome { signal: Some(9), ..Outcome::default() };
        let report = |passed: u32, failed: usize| TestReport {
            passed,
            failed: vec![FailedTest { name: "t".to_owned(), error: String::new() }; failed],
        };
        let told = |task: &Task, outcome: &Outcome, tests: Option<TestReport>| {
            judge(task, &Limits::default(), outcome, "55\n", tests.as_ref())
                .map(|failure| failure.to_string())
        };
        let plain = task(false, None);
        let tested = task(true, None);
        let late = Outcome { timed_out: true, ..killed.clone() };
        let hungry = Outcome { out_of_memory: true, ..killed.clone() };
        assert_eq!(told(&plain, &ended(0), None), None);
        assert_eq!(told(&task(false, Some("55")), &ended(0), None), None);
        assert_eq!(told(&tested, &ended(0), Some(report(2, 0))), None);
        // What it started may have run out of memory, and it may have dealt with that.
        assert_eq!(told(&plain, &Outcome { out_of_memory: true, ..ended(0) }, None), None);
        let failures = [
            told(&plain, &ended(3), None),
            told(&plain, &killed, None),
            told(&plain, &late, None),
            told(&plain, &hungry, None),
            told(&tested, &ended(0), None),
            told(&tested, &ended(1), Some(report(2, 1))),
            told(&tested, &ended(0), Some(report(0, 0))),
            told(&task(false, Some("/^5$/")), &ended(0), None),
        ];
        let failures: Vec<String> = failures.into_iter().map(|failure| failure.unwrap()).collect();
        insta::assert_snapshot!(failures.join("\n"), @r"
        it ended with exit code 3
        it was ended by signal 9
        it took longer than 30 s and was stopped
        it needed more than 256 MB of memory and was stopped
        it ended before the tests were through
        1 of 3 tests failed
        there are no tests in the file of tests
        its output is not what was expected: `/^5$/`
        ");
    }
}

//! How a program went in its sandbox, and whether that counts as success.

use assize_config::Limits;
use assize_sandbox::{Finished, Outcome};
use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::Expect;

/// The most that is told of what was printed instead of what was expected.
const LONGEST_PRINTED: usize = 60;

/// One execution, as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// What identifies the files of the session that it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<Fingerprint>,
}

impl Execution {
    /// A program that was not even run.
    pub(crate) fn not_run(failure: CodeFailure) -> Execution {
        Execution { failure: Some(failure), ..Execution::default() }
    }
}

/// A file that a program left, kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftFile {
    pub name: String,
    pub bytes: u64,
    pub sha256: Fingerprint,
}

/// How the user's tests went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    pub passed: u32,
    pub failed: Vec<FailedTest>,
    /// Why they could not be run, where that is no matter of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedTest {
    pub name: String,
    /// The last of what was said about it.
    pub error: String,
}

/// Why a program failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CodeFailure {
    /// The model's answer had no program in it.
    #[error("the model's answer had no code in it")]
    NoCode,
    /// It would not answer.
    #[error("the model declined to answer")]
    Declined,
    #[error("it ended with exit code {exit_code}")]
    ExitCode { exit_code: i32 },
    #[error("it was ended by signal {signal}")]
    Signal { signal: i32 },
    #[error("it took longer than {} s and was stopped", seconds(*limit_ms))]
    TimedOut { limit_ms: u64 },
    #[error("it needed more than {megabytes} MB of memory and was stopped")]
    OutOfMemory { megabytes: u64 },
    #[error("{failed} of {of} tests failed")]
    TestsFailed { failed: u32, of: u32 },
    /// It ended well before the tests were through.
    #[error("it ended before the tests were through")]
    LeftEarly,
    #[error("there are no tests in the file of tests")]
    NoTests,
    /// They could not be run, whatever the program is.
    #[error("the tests themselves cannot be run: {}", telling_line(reason).unwrap_or("nobody says why"))]
    TestsBroken { reason: String },
    #[error("it printed {}, and `{expected}` was expected", said(printed))]
    NotExpected {
        expected: String,
        /// The beginning of what it printed instead.
        #[serde(default)]
        printed: String,
    },
    /// It was not run: it asks for what it may not have.
    #[error("the package `{name}` is not one of those that may be used")]
    PackageRefused { name: String },
    /// It was not run: what it asks for cannot be had.
    #[error("the packages {names} cannot be had: {reason}")]
    PackagesNotHad { names: String, reason: String },
}

impl CodeFailure {
    /// Whether no other program could do better.
    pub fn is_final(&self) -> bool {
        matches!(self, CodeFailure::NoTests | CodeFailure::TestsBroken { .. })
    }

    /// Whether there was anything to run, and it was run.
    pub fn was_run(&self) -> bool {
        use CodeFailure::{Declined, NoCode, PackageRefused, PackagesNotHad};
        !matches!(self, NoCode | Declined | PackageRefused { .. } | PackagesNotHad { .. })
    }
}

/// As short as it can be written.
#[expect(clippy::cast_precision_loss, reason = "days in milliseconds fit well")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// What a program printed, as part of a sentence.
fn said(printed: &str) -> String {
    if printed.is_empty() { "nothing".to_owned() } else { format!("`{printed}`") }
}

/// The line of a complaint that says what it is: in most languages the last that names an error.
pub fn telling_line(text: &str) -> Option<&str> {
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let names_error = |line: &&str| {
        let head = line.split([':', ' ']).next().unwrap_or_default();
        let plain = head.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_'));
        plain && (head.ends_with("Error") || head.ends_with("Exception"))
    };
    let is_place = |line: &&str| line.starts_with("at ") || line.starts_with("Node.js v");
    // That is how pytest shows what was not as it should be.
    let shown = text.lines().map(str::trim).find_map(|line| line.strip_prefix("E  "));
    // Python's says nothing but that there was one.
    let asserted = || {
        let whole = |line: &'_ str| line.starts_with("assert ") || line.contains(": assert ");
        let line = text.lines().rev().map(str::trim).find(|line| whole(line))?;
        line.find("assert ").map(|at| &line[at..])
    };
    shown
        .map(str::trim)
        .or_else(|| match lines().find(names_error) {
            Some("AssertionError") => asserted().or(Some("AssertionError")),
            line => line,
        })
        .or_else(|| lines().find(|line| !is_place(line)))
}

/// Why a program did not end well, if it did not.
fn judge_end(limits: &Limits, outcome: &Outcome) -> Option<CodeFailure> {
    if outcome.timed_out {
        let limit_ms = u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX);
        return Some(CodeFailure::TimedOut { limit_ms });
    }
    if outcome.out_of_memory && (outcome.signal == Some(9) || outcome.exit_code != Some(0)) {
        return Some(CodeFailure::OutOfMemory { megabytes: limits.memory >> 20 });
    }
    match (outcome.exit_code, outcome.signal) {
        (Some(0), _) => None,
        (Some(exit_code), _) => Some(CodeFailure::ExitCode { exit_code }),
        (None, signal) => Some(CodeFailure::Signal { signal: signal.unwrap_or(0) }),
    }
}

/// Why a program that was run as it is does not count as success, if it does not.
pub(crate) fn judge(
    expect: Option<&Expect>,
    limits: &Limits,
    finished: &Finished,
) -> Option<CodeFailure> {
    let stdout = String::from_utf8_lossy(&finished.stdout);
    judge_end(limits, &finished.outcome).or_else(|| {
        let expect = expect.filter(|expect| !expect.is_met_by(&stdout))?;
        let printed = assize_types::text::one_line(&stdout);
        let printed = assize_types::text::shorten(&printed, LONGEST_PRINTED);
        Some(CodeFailure::NotExpected { expected: expect.to_string(), printed })
    })
}

/// Why tests do not count as passed, if they do not. `report` is `None` if they never came to their end.
pub(crate) fn judge_tests(
    limits: &Limits,
    outcome: &Outcome,
    report: Option<&TestReport>,
) -> Option<CodeFailure> {
    let end = judge_end(limits, outcome);
    let stopped =
        matches!(end, Some(CodeFailure::TimedOut { .. } | CodeFailure::OutOfMemory { .. }));
    match report {
        _ if stopped => end,
        Some(TestReport { broken: Some(reason), .. }) => {
            Some(CodeFailure::TestsBroken { reason: reason.clone() })
        }
        Some(TestReport { failed, passed, .. }) if !failed.is_empty() => {
            let failed = u32::try_from(failed.len()).unwrap_or(u32::MAX);
            Some(CodeFailure::TestsFailed { failed, of: failed + passed })
        }
        _ if end.is_some() => end,
        None => Some(CodeFailure::LeftEarly),
        Some(TestReport { passed: 0, .. }) => Some(CodeFailure::NoTests),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_of_a_complaint_says_what_it_is() {
        let python = "Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: 'a'\n";
        assert_eq!(telling_line(python), Some("KeyError: 'a'"));
        let node = "/tmp/code.js:1\nx\n^\n\nReferenceError: x is not defined\n    at y (z:1)\n\nNode.js v20\n";
        assert_eq!(telling_line(node), Some("ReferenceError: x is not defined"));
        let bash = "/tmp/code.sh: line 3: foo: command not found\n";
        assert_eq!(telling_line(bash), Some("/tmp/code.sh: line 3: foo: command not found"));
        let pytest = "def test():\n>   assert 1 == 2\nE   assert 1 == 2\n\nx.py:3: AssertionError";
        assert_eq!(telling_line(pytest), Some("assert 1 == 2"));
        assert_eq!(telling_line(" \n"), None);
    }

    #[test]
    fn success_is_more_than_an_exit_code() {
        let ended = |code: i32| Outcome { exit_code: Some(code), ..Outcome::default() };
        let killed = Outcome { signal: Some(9), ..Outcome::default() };
        let report = |passed: u32, failed: usize| TestReport {
            passed,
            failed: vec![FailedTest { name: "t".to_owned(), error: String::new() }; failed],
            broken: None,
        };
        let limits = Limits::default();
        let plain = |outcome: &Outcome, expect: Option<&str>| {
            let expect: Option<Expect> = expect.map(|expect| expect.parse().unwrap());
            let (stdout, stderr) = (b"55\n".to_vec(), Vec::new());
            let finished = Finished { stdout, stderr, outcome: outcome.clone() };
            judge(expect.as_ref(), &limits, &finished).map(|failure| failure.to_string())
        };
        let tested = |outcome: &Outcome, report: Option<TestReport>| {
            judge_tests(&limits, outcome, report.as_ref()).map(|failure| failure.to_string())
        };
        let late = Outcome { timed_out: true, ..killed.clone() };
        let hungry = Outcome { out_of_memory: true, ..killed.clone() };
        assert_eq!(plain(&ended(0), None), None);
        assert_eq!(plain(&ended(0), Some("55")), None);
        assert_eq!(tested(&ended(0), Some(report(2, 0))), None);
        // What it started may have run out of memory, and it may have dealt with that.
        assert_eq!(plain(&Outcome { out_of_memory: true, ..ended(0) }, None), None);
        let broken = TestReport { broken: Some("x\nSyntaxError: y\n".to_owned()), ..report(0, 0) };
        let failures = [
            plain(&ended(3), None),
            plain(&killed, None),
            plain(&late, None),
            plain(&hungry, None),
            plain(&ended(0), Some("/^5$/")),
            tested(&ended(0), None),
            tested(&ended(3), None),
            tested(&ended(1), Some(report(2, 1))),
            tested(&late, Some(report(2, 1))),
            tested(&ended(0), Some(report(0, 0))),
            // A record is no pass where the end says otherwise.
            tested(&ended(3), Some(report(2, 0))),
            tested(&ended(1), Some(broken)),
        ];
        let failures: Vec<String> = failures.into_iter().map(|failure| failure.unwrap()).collect();
        insta::assert_snapshot!(failures.join("\n"), @r"
        it ended with exit code 3
        it was ended by signal 9
        it took longer than 30 s and was stopped
        it needed more than 256 MB of memory and was stopped
        it printed `55`, and `/^5$/` was expected
        it ended before the tests were through
        it ended with exit code 3
        1 of 3 tests failed
        it took longer than 30 s and was stopped
        there are no tests in the file of tests
        it ended with exit code 3
        the tests themselves cannot be run: SyntaxError: y
        ");
    }
}

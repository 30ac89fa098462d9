//! Result of running a program in a sandbox, and the decision whether the program succeeded.

use assize_config::SandboxLimits;
use assize_sandbox::{FinishedProgram, ProgramOutcome};
use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::ExpectedOutput;

/// Maximum number of characters that an error message quotes from a program's unexpected output.
const MAX_PRINTED: usize = 60;

/// Stored result of one execution of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeExecution {
    /// Why the execution failed; null if it succeeded.
    pub failure: Option<CodeFailure>,
    #[serde(flatten)]
    pub outcome: ProgramOutcome,
    /// Standard output of the program, with invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error of the program, with invalid UTF-8 replaced.
    pub stderr: String,
    /// Report of the user's tests; null if there are no tests, or they did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestReport>,
    /// Files that the program created, sorted by name; with a session, all files of the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<OutputFile>,
    /// Descriptions of files that were not collected, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_collected: Vec<String>,
    /// Fingerprint of the session's files before the program ran, to detect changes by other runs; null without a
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<Fingerprint>,
}

impl CodeExecution {
    /// Creates the result of a program that could not be run.
    pub(crate) fn not_run(failure: CodeFailure) -> CodeExecution {
        CodeExecution { failure: Some(failure), ..CodeExecution::default() }
    }
}

/// File that a program created; its content is stored under its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputFile {
    /// Path relative to the program's working folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Hash of the content.
    pub sha256: Fingerprint,
}

/// Results of the user's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// Number of passed tests.
    pub passed: u32,
    /// The first failed tests.
    pub failed: Vec<FailedTest>,
    /// Number of further failed tests, which `failed` does not contain.
    #[serde(default)]
    pub failed_not_listed: u32,
    /// Error in the tests themselves, such as a syntax error in the test file, which makes every program fail; null if
    /// there is no such error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedTest {
    pub name: String,
    /// Error message of the test; only the end if the message is long.
    pub error: String,
}

/// Why an attempt to write a correct program failed.
// The error messages are also part of the model's next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CodeFailure {
    /// The model's answer contained no program.
    #[error("the model's answer contains no code")]
    NoCode,
    /// The model refused to answer.
    #[error("the model declined to answer")]
    Declined,
    #[error("the program exited with code {exit_code}")]
    ExitCode { exit_code: i32 },
    #[error("the program was terminated by signal {signal}")]
    Signal { signal: i32 },
    #[error("the program timed out after {} s", seconds(*limit_ms))]
    TimedOut { limit_ms: u64 },
    #[error("the program used more than {megabytes} MB of memory and was stopped")]
    OutOfMemory { megabytes: u64 },
    #[error("{failed} of {of} tests failed")]
    TestsFailed { failed: u32, of: u32 },
    /// The program exited with code 0 before the user's tests had finished.
    #[error("the program exited before the tests finished")]
    LeftEarly,
    #[error("the test file contains no tests")]
    NoTests,
    /// The user's tests themselves have an error, such as a syntax error, which makes every program fail.
    #[error("the tests cannot be run: {}", informative_line(reason).unwrap_or("unknown reason"))]
    TestsBroken { reason: String },
    #[error("the program printed {}, but `{expected}` was expected", quoted(printed))]
    NotExpected {
        expected: String,
        /// Start of the program's actual output.
        #[serde(default)]
        printed: String,
    },
    /// The program was not run, because it requires a package that is not allowed.
    #[error("the package `{name}` is not allowed")]
    PackageRefused { name: String },
    /// The program was not run, because packages that it requires cannot be installed.
    #[error("the packages {names} cannot be installed: {reason}")]
    PackagesNotHad { names: String, reason: String },
}

impl CodeFailure {
    /// Whether every other program would fail for the same reason, so that further attempts are useless.
    pub fn is_final(&self) -> bool {
        matches!(self, CodeFailure::NoTests | CodeFailure::TestsBroken { .. })
    }

    /// Whether a program was run in this attempt.
    pub fn was_run(&self) -> bool {
        use CodeFailure::{Declined, NoCode, PackageRefused, PackagesNotHad};
        !matches!(self, NoCode | Declined | PackageRefused { .. } | PackagesNotHad { .. })
    }
}

/// Converts milliseconds to seconds.
#[expect(clippy::cast_precision_loss, reason = "time limits are far below 2^52 ms")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// Returns the output in backticks, or the word `nothing` if the output is empty.
fn quoted(printed: &str) -> String {
    if printed.is_empty() { "nothing".to_owned() } else { format!("`{printed}`") }
}

/// Returns the most informative line of an error output: in most languages, the last line that names an error.
pub fn informative_line(text: &str) -> Option<&str> {
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let names_error = |line: &&str| {
        let head = line.split([':', ' ']).next().unwrap_or_default();
        let plain = head.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_'));
        plain && (head.ends_with("Error") || head.ends_with("Exception"))
    };
    let is_place = |line: &&str| line.starts_with("at ") || line.starts_with("Node.js v");
    // pytest marks the lines that explain a failure with `E`.
    let shown = text.lines().map(str::trim).find_map(|line| line.strip_prefix("E  "));
    // A Python `AssertionError` often has no message, so the source line of the assertion is used instead.
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

/// Determines the failure from how the program ended: timeout, memory limit, exit code or signal. Returns `None` if the
/// program exited with code 0.
fn judge_end(limits: &SandboxLimits, outcome: &ProgramOutcome) -> Option<CodeFailure> {
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

/// Determines the failure of a program that ran without tests; `None` if the program succeeded.
pub(crate) fn judge(
    expect: Option<&ExpectedOutput>,
    limits: &SandboxLimits,
    finished: &FinishedProgram,
) -> Option<CodeFailure> {
    let stdout = String::from_utf8_lossy(&finished.stdout);
    judge_end(limits, &finished.outcome).or_else(|| {
        let expect = expect.filter(|expect| !expect.is_met_by(&stdout))?;
        let printed = assize_types::text::one_line(&stdout);
        let printed = assize_types::text::shorten(&printed, MAX_PRINTED);
        Some(CodeFailure::NotExpected { expected: expect.to_string(), printed })
    })
}

/// Determines the failure of a test run; `None` if all tests passed. `report` is `None` if the tests did not finish.
pub(crate) fn judge_tests(
    limits: &SandboxLimits,
    outcome: &ProgramOutcome,
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
        Some(TestReport { failed, failed_not_listed, passed, .. }) if !failed.is_empty() => {
            let listed = u32::try_from(failed.len()).unwrap_or(u32::MAX);
            let failed = listed.saturating_add(*failed_not_listed);
            Some(CodeFailure::TestsFailed { failed, of: failed.saturating_add(*passed) })
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
    fn informative_line_finds_the_error_of_each_language() {
        let python = "Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: 'a'\n";
        assert_eq!(informative_line(python), Some("KeyError: 'a'"));
        let node = "/tmp/code.js:1\nx\n^\n\nReferenceError: x is not defined\n    at y (z:1)\n\nNode.js v20\n";
        assert_eq!(informative_line(node), Some("ReferenceError: x is not defined"));
        let bash = "/tmp/code.sh: line 3: foo: command not found\n";
        assert_eq!(informative_line(bash), Some("/tmp/code.sh: line 3: foo: command not found"));
        let pytest = "def test():\n>   assert 1 == 2\nE   assert 1 == 2\n\nx.py:3: AssertionError";
        assert_eq!(informative_line(pytest), Some("assert 1 == 2"));
        assert_eq!(informative_line(" \n"), None);
    }

    #[test]
    fn program_succeeds_only_with_exit_code_0_expected_output_and_passed_tests() {
        let ended =
            |code: i32| ProgramOutcome { exit_code: Some(code), ..ProgramOutcome::default() };
        let killed = ProgramOutcome { signal: Some(9), ..ProgramOutcome::default() };
        let report = |passed: u32, failed: usize| TestReport {
            passed,
            failed: vec![FailedTest { name: "t".to_owned(), error: String::new() }; failed],
            failed_not_listed: 0,
            broken: None,
        };
        let limits = SandboxLimits::default();
        let plain = |outcome: &ProgramOutcome, expect: Option<&str>| {
            let expect: Option<ExpectedOutput> = expect.map(|expect| expect.parse().unwrap());
            let (stdout, stderr) = (b"55\n".to_vec(), Vec::new());
            let finished = FinishedProgram { stdout, stderr, outcome: outcome.clone() };
            judge(expect.as_ref(), &limits, &finished).map(|failure| failure.to_string())
        };
        let tested = |outcome: &ProgramOutcome, report: Option<TestReport>| {
            judge_tests(&limits, outcome, report.as_ref()).map(|failure| failure.to_string())
        };
        let late = ProgramOutcome { timed_out: true, ..killed.clone() };
        let hungry = ProgramOutcome { out_of_memory: true, ..killed.clone() };
        assert_eq!(plain(&ended(0), None), None);
        assert_eq!(plain(&ended(0), Some("55")), None);
        assert_eq!(tested(&ended(0), Some(report(2, 0))), None);
        // A program with exit code 0 succeeds even if one of its child processes ran out of memory.
        assert_eq!(plain(&ProgramOutcome { out_of_memory: true, ..ended(0) }, None), None);
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
            // A report without failures does not count if the exit code is not 0.
            tested(&ended(3), Some(report(2, 0))),
            tested(&ended(1), Some(broken)),
        ];
        let failures: Vec<String> = failures.into_iter().map(|failure| failure.unwrap()).collect();
        insta::assert_snapshot!(failures.join("\n"), @r"
        the program exited with code 3
        the program was terminated by signal 9
        the program timed out after 30 s
        the program used more than 256 MB of memory and was stopped
        the program printed `55`, but `/^5$/` was expected
        the program exited before the tests finished
        the program exited with code 3
        1 of 3 tests failed
        the program timed out after 30 s
        the test file contains no tests
        the program exited with code 3
        the tests cannot be run: SyntaxError: y
        ");
    }
}

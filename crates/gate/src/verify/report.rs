//! Parses the reports of test runners, which list each test with its outcome. Reports are untrusted, because the code
//! under test can write to them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::runner::TestRunner;

/// Outcome of a test in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TestOutcome {
    Passed,
    Failed,
    Skipped,
}

/// A test in a report.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ReportedTest {
    pub name: String,
    /// File that contains the test, as the test runner reports it. Go reports the package instead.
    pub file: Option<String>,
    pub outcome: TestOutcome,
}

/// Key that identifies a test in a report: its file and its name.
pub(crate) type TestKey<'a> = (Option<&'a str>, &'a str);

impl ReportedTest {
    pub(crate) fn key(&self) -> TestKey<'_> {
        (self.file.as_deref(), &self.name)
    }
}

/// Maximum number of tests in a report. The limit exists because the code under test can write any number of tests to
/// the report, and each of them takes processing time on the host.
const MAX_TESTS: usize = 100_000;

/// Parsed report of a test runner about one execution of the tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunnerReport {
    pub tests: Vec<ReportedTest>,
}

impl RunnerReport {
    /// Parses the report of a test runner; `None` if the report is invalid, incomplete or has too many tests.
    pub(crate) fn read(runner: TestRunner, bytes: &[u8]) -> Option<RunnerReport> {
        let text = String::from_utf8_lossy(bytes);
        let report = match runner {
            TestRunner::Pytest | TestRunner::Unittest | TestRunner::Node => lines(&text),
            TestRunner::Jest | TestRunner::Vitest => jest(&text),
            TestRunner::Cargo => cargo(&text),
            TestRunner::Go => go(&text),
        };
        report.filter(|report| report.tests.len() <= MAX_TESTS)
    }

    /// Returns the first failed test of the report.
    pub(crate) fn failed(&self) -> Option<&ReportedTest> {
        self.tests.iter().find(|test| test.outcome == TestOutcome::Failed)
    }

    /// Returns the tests whose only outcome is passed. A test with several outcomes does not count as passed, because
    /// the code under test may have written one of them.
    pub(crate) fn passed(&self) -> BTreeSet<TestKey<'_>> {
        let with = |passed: bool| {
            let tests = self.tests.iter();
            tests
                .filter(move |test| (test.outcome == TestOutcome::Passed) == passed)
                .map(ReportedTest::key)
        };
        let others: BTreeSet<TestKey<'_>> = with(false).collect();
        with(true).filter(|key| !others.contains(key)).collect()
    }

    /// Number of tests that were executed, whether they passed or failed.
    pub(crate) fn executed(&self) -> usize {
        self.tests.iter().filter(|test| test.outcome != TestOutcome::Skipped).count()
    }
}

/// Parses a report that one of the gate's helper files wrote: one JSON line per test, and a final line that marks the
/// end. `None` if the final line is missing.
fn lines(text: &str) -> Option<RunnerReport> {
    let mut tests = Vec::new();
    let mut finished = false;
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).ok()?;
        match value.get("finished") {
            Some(_) => finished = true,
            None => tests.push(serde_json::from_value(value).ok()?),
        }
    }
    finished.then_some(RunnerReport { tests })
}

/// Parses a report in the JSON format of Jest, which Vitest also writes.
fn jest(text: &str) -> Option<RunnerReport> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole {
        test_results: Vec<File>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct File {
        name: String,
        status: String,
        assertion_results: Vec<Assertion>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Assertion {
        full_name: String,
        status: String,
    }
    let whole: Whole = serde_json::from_str(text).ok()?;
    let mut tests = Vec::new();
    for file in whole.test_results {
        let (name, none) = (file.name, file.assertion_results.is_empty());
        for test in file.assertion_results {
            let outcome = match test.status.as_str() {
                "passed" => TestOutcome::Passed,
                "failed" => TestOutcome::Failed,
                _ => TestOutcome::Skipped,
            };
            tests.push(ReportedTest { name: test.full_name, file: Some(name.clone()), outcome });
        }
        // A failed file without tests could not be loaded. It counts as a failed test.
        if none && file.status == "failed" {
            tests.push(ReportedTest {
                name: name.clone(),
                file: Some(name),
                outcome: TestOutcome::Failed,
            });
        }
    }
    Some(RunnerReport { tests })
}

/// Beginning of the JSON lines that `cargo` prints.
const CARGO_JSON: &str = "{\"reason\":";

/// Parses the output of `cargo test`: JSON lines with the paths of the test executables, then for each executable the
/// line `Running tests/a.rs (PROGRAM)` and one line such as `test NAME ... ok` per test.
fn cargo(text: &str) -> Option<RunnerReport> {
    let mut tests = Vec::new();
    let mut sources = BTreeMap::new();
    let (mut file, mut open) = (None, 0_usize);
    let mut any = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(CARGO_JSON) {
            let built: Value = serde_json::from_str(line).unwrap_or_default();
            let source = built["target"]["src_path"].as_str();
            if let (Some(program), Some(source)) = (built["executable"].as_str(), source) {
                sources.insert(last_part(program).to_owned(), source.to_owned());
            }
        } else if let Some(running) = line.strip_prefix("Running ") {
            let program = running.rsplit_once(" (").map(|(_, path)| path.trim_end_matches(')'));
            file = program.and_then(|path| sources.get(last_part(path)).cloned());
        } else if line.starts_with("Doc-tests ") {
            file = None;
        } else if line.starts_with("running ") && line.ends_with(['t', 's']) {
            (any, open) = (true, open + 1);
        } else if line.starts_with("test result: ") {
            open = open.checked_sub(1)?;
        } else if let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... "))
        {
            let outcome = match outcome.split(',').next().unwrap_or_default() {
                "ok" => TestOutcome::Passed,
                "FAILED" => TestOutcome::Failed,
                "ignored" => TestOutcome::Skipped,
                _ => continue,
            };
            tests.push(ReportedTest { name: name.to_owned(), file: file.clone(), outcome });
        }
    }
    (any && open == 0).then_some(RunnerReport { tests })
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Event in a JSON line that `go test -json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    package: Option<String>,
    test: Option<String>,
    output: Option<String>,
}

/// Returns the output of a test command in readable form. For Cargo, the JSON lines of the report are removed. For Go,
/// the output is decoded from the JSON lines of the report.
pub(super) fn readable(runner: TestRunner, mut printed: Vec<u8>, report: Option<&[u8]>) -> Vec<u8> {
    match runner {
        TestRunner::Cargo => {
            let text = String::from_utf8_lossy(&printed);
            let lines = text.split_inclusive('\n').filter(|line| !line.starts_with(CARGO_JSON));
            lines.collect::<String>().into_bytes()
        }
        TestRunner::Go => {
            for line in String::from_utf8_lossy(report.unwrap_or_default()).split_inclusive('\n') {
                match serde_json::from_str::<Event>(line) {
                    Ok(event) => printed.extend(event.output.unwrap_or_default().into_bytes()),
                    Err(_) => printed.extend(line.as_bytes()),
                }
            }
            printed
        }
        _ => printed,
    }
}

/// Parses the output of `go test -json`, which has one JSON line per event. `None` if the final event of a package is
/// missing.
fn go(text: &str) -> Option<RunnerReport> {
    let mut tests = Vec::new();
    let mut packages: BTreeMap<String, bool> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let Ok(event) = serde_json::from_str::<Event>(line) else { continue };
        let outcome = match event.action.as_str() {
            "pass" => TestOutcome::Passed,
            "fail" => TestOutcome::Failed,
            "skip" => TestOutcome::Skipped,
            _ => {
                if let Some(package) = event.package {
                    packages.entry(package).or_insert(false);
                }
                continue;
            }
        };
        match (event.package, event.test) {
            (package, Some(name)) => tests.push(ReportedTest { name, file: package, outcome }),
            (Some(package), None) => {
                packages.insert(package, true);
            }
            (None, None) => {}
        }
    }
    (!packages.is_empty() && packages.values().all(|ended| *ended))
        .then_some(RunnerReport { tests })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(runner: TestRunner, text: &str) -> Option<(usize, usize)> {
        RunnerReport::read(runner, text.as_bytes())
            .map(|report| (report.tests.len(), report.executed()))
    }

    #[test]
    fn reported_test_with_two_outcomes_does_not_count_as_passed() {
        let test = |name: &str, outcome| ReportedTest { name: name.into(), file: None, outcome };
        let tests = vec![
            test("a", TestOutcome::Skipped),
            test("a", TestOutcome::Passed),
            test("b", TestOutcome::Passed),
        ];
        let report = RunnerReport { tests };
        assert_eq!(report.passed().into_iter().collect::<Vec<_>>(), [(None, "b")]);
    }

    #[test]
    fn reports_of_each_test_runner_are_parsed_and_incomplete_reports_are_rejected() {
        let line = r#"{"name": "a", "file": "a.py", "outcome": "passed"}"#;
        let skipped = line.replace("passed", "skipped");
        let end = r#"{"finished": true}"#;
        assert_eq!(
            counts(TestRunner::Pytest, &format!("{line}\n{skipped}\n{end}\n")),
            Some((2, 1))
        );
        assert_eq!(counts(TestRunner::Unittest, end), Some((0, 0)));
        for broken in
            ["", line, "junk\n{\"finished\": true}", "{\"name\": 1}\n{\"finished\": true}"]
        {
            assert_eq!(counts(TestRunner::Pytest, broken), None, "{broken}");
        }
        let jest = r#"{"testResults": [
            {"name": "/a.test.js", "status": "failed", "assertionResults": [
                {"fullName": "adds", "status": "passed"}, {"fullName": "x", "status": "pending"}]},
            {"name": "/b.test.js", "status": "failed", "assertionResults": []}]}"#;
        assert_eq!(counts(TestRunner::Jest, jest), Some((3, 2)));
        assert_eq!(counts(TestRunner::Vitest, "{}"), None);
        let cargo = "{\"reason\":\"compiler-artifact\",\"target\":{\"src_path\":\"/w/src/lib.rs\"},\"executable\":\"/w/d/a-1\"}\n     \
                     Running unittests src/lib.rs (d/a-1)\n\nrunning 2 tests\n\
                     test x::a ... ok\ntest x::b ... ignored, slow\n\ntest result: ok. 1 passed\n";
        assert_eq!(counts(TestRunner::Cargo, cargo), Some((2, 1)));
        let report = RunnerReport::read(TestRunner::Cargo, cargo.as_bytes()).unwrap();
        assert_eq!(report.tests[0].file.as_deref(), Some("/w/src/lib.rs"));
        let shown = String::from_utf8(readable(TestRunner::Cargo, cargo.into(), None)).unwrap();
        assert!(shown.starts_with("     Running"), "{shown}");
        assert_eq!(
            counts(TestRunner::Cargo, &cargo.replace("test result: ok. 1 passed", "")),
            None
        );
        assert_eq!(counts(TestRunner::Cargo, ""), None);
        let go = r#"{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestA"}
{"Action":"pass","Package":"m/a","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"m/a","Elapsed":0}"#;
        assert_eq!(counts(TestRunner::Go, go), Some((1, 1)));
        let output = "{\"Action\":\"output\",\"Output\":\"ok m\\n\"}\nnot JSON\n";
        let shown = readable(TestRunner::Go, b"# m\n".to_vec(), Some(output.as_bytes()));
        assert_eq!(shown, b"# m\nok m\nnot JSON\n");
        let early: String = go.lines().take(3).collect::<Vec<_>>().join("\n");
        assert_eq!(counts(TestRunner::Go, &early), None);
    }
}

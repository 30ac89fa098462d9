//! Canary tests: tests that must fail. The gate adds them to the test files that a test runner executed. The name of a
//! canary test consists mostly of words from the names of the real tests. If code forges the results of its tests, the
//! canary tests pass too or are missing from the report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::report::{ReportedTest, RunnerReport, TestOutcome};
use super::runner::TestRunner;

/// Maximum number of test files that get a canary test. Many files get a canary test, because a runner can execute each
/// file in a separate process or module, and code can forge the results of a single file.
const MAX_CANARIES: usize = 300;

/// Words for the names of canary tests, in addition to the words in the names of the real tests.
const WORDS: [&str; 12] = [
    "value", "input", "result", "empty", "order", "limit", "total", "first", "state", "update",
    "range", "default",
];

/// A canary test: a test that must fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Canary {
    /// File to add the canary test to, relative to the workspace. For Go, this is a new file.
    pub file: String,
    /// Name of the canary test. The name in the test report contains this text.
    pub name: String,
    /// Code of the canary test, to append to the file.
    pub code: String,
    /// Number of tests that the code adds under this name.
    pub count: usize,
}

/// Source files of the workspace, used to find the file that contains a test of a report.
pub(crate) struct TestSources<'a> {
    runner: TestRunner,
    files: BTreeSet<String>,
    text: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl<'a> TestSources<'a> {
    pub(crate) fn new(
        runner: TestRunner,
        files: impl IntoIterator<Item = String>,
        text: &'a (dyn Fn(&str) -> Option<String> + Sync),
    ) -> TestSources<'a> {
        TestSources { runner, files: files.into_iter().collect(), text }
    }

    /// Groups tests by the file that contains them.
    pub(crate) fn group_by_file<'t>(
        &self,
        tests: impl IntoIterator<Item = &'t ReportedTest>,
    ) -> BTreeMap<String, Vec<&'t ReportedTest>> {
        let mut found: BTreeMap<String, Vec<&ReportedTest>> = BTreeMap::new();
        // Locations are cached: many tests share a location, and locating a Go test searches all test files.
        let mut known: HashMap<(Option<&str>, &str), Option<String>> = HashMap::new();
        for test in tests {
            let key = (test.file.as_deref(), self.location_in_name(&test.name));
            let file = known.entry(key).or_insert_with(|| self.file(key.0?, key.1)).clone();
            if let Some(file) = file {
                found.entry(file).or_default().push(test);
            }
        }
        found
    }

    /// Returns the part of a test's name that identifies its location: the function in Go, the modules in Rust, and
    /// nothing for other runners.
    fn location_in_name<'t>(&self, name: &'t str) -> &'t str {
        match self.runner {
            TestRunner::Go => name.split('/').next().unwrap_or_default(),
            TestRunner::Cargo => name.rsplit_once("::").map_or("", |(modules, _)| modules),
            _ => "",
        }
    }

    /// Returns the workspace file that contains a test. Most runners report the absolute path of this file in the
    /// sandbox. Cargo reports the root file of a target, so this function looks for the module file next to the root
    /// file. Go reports the package, so this function searches the files of the package for the test.
    fn file(&self, named: &str, location: &str) -> Option<String> {
        if self.runner == TestRunner::Go {
            return self.file_of_package(named, location);
        }
        let path = named.strip_prefix(WORKSPACE)?;
        if self.runner == TestRunner::Cargo {
            let folder = path.rsplit_once('/').map_or(String::new(), |(f, _)| format!("{f}/"));
            let mut modules: Vec<&str> = location.split("::").collect();
            while !modules.is_empty() {
                let module = format!("{folder}{}", modules.join("/"));
                let names = [format!("{module}.rs"), format!("{module}/mod.rs")];
                if let Some(file) = names.into_iter().find(|name| self.files.contains(name)) {
                    return Some(file);
                }
                modules.pop();
            }
        }
        self.files.get(path).cloned()
    }

    /// Returns the test file of a Go package that contains a function. If several files contain the function, returns
    /// the file in the folder whose path best matches the end of the package name.
    fn file_of_package(&self, package: &str, function: &str) -> Option<String> {
        let fit = |file: &&String| {
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
            let parts = folder.rsplit('/').filter(|part| !part.is_empty());
            let in_common =
                parts.clone().zip(package.rsplit('/')).take_while(|(a, b)| a == b).count();
            (in_common, Reverse(parts.count() - in_common))
        };
        let function = format!("func {function}(");
        let tests = self.files.iter().filter(|file| file.ends_with("_test.go"));
        let with_function =
            tests.filter(|file| (self.text)(file).is_some_and(|text| text.contains(&function)));
        with_function.max_by_key(fit).cloned()
    }
}

/// Path of the workspace copy inside the sandbox.
const WORKSPACE: &str = "/tmp/workspace/";

/// Creates canary tests for the files of the passed tests in a report.
pub(crate) fn canaries(
    report: &RunnerReport,
    sources: &TestSources<'_>,
    rng: &mut fastrand::Rng,
) -> Vec<Canary> {
    let runner = sources.runner;
    let ran = report.tests.iter().filter(|test| test.outcome == TestOutcome::Passed);
    let ran = ran.filter(|test| is_function(runner, test));
    let mut files: Vec<(String, Vec<&ReportedTest>)> =
        sources.group_by_file(ran).into_iter().collect();
    rng.shuffle(&mut files);
    let names: String =
        report.tests.iter().map(|test| format!("{}\n", test.name.to_lowercase())).collect();
    let mut found: Vec<Canary> = Vec::new();
    for (file, tests) in files {
        if found.len() == MAX_CANARIES {
            break;
        }
        let Some(text) = (sources.text)(&file) else { continue };
        let lower = text.to_lowercase();
        let taken = |name: &str| {
            let name = name.to_lowercase();
            names.contains(&name)
                || found.iter().any(|canary| canary.name.to_lowercase().contains(&name))
                || lower.contains(&name)
        };
        let name = (0..50).map(|_| name(runner, &tests, rng)).find(|name| !taken(name));
        let Some(name) = name else { continue };
        let mut code = code(runner, &name, &text, rng);
        let mut count = 1;
        // Pytest also runs unittest tests. Add a canary test of each kind, because code may forge only one kind.
        if runner == TestRunner::Pytest && text.contains("TestCase") {
            code.push_str(&self::code(TestRunner::Unittest, &name, &text, rng));
            count = 2;
        }
        let file = match runner {
            // The canary test needs a new file, because the existing file may not import `testing` or may rename it.
            TestRunner::Go => file.replace("_test.go", &format!("_{:04x}_test.go", rng.u16(..))),
            _ => file,
        };
        found.push(Canary { file, name, code, count });
    }
    found
}

/// Whether a test is a function in a test file, and not, for example, a doctest.
fn is_function(runner: TestRunner, test: &ReportedTest) -> bool {
    match runner {
        TestRunner::Pytest => {
            test.file.as_ref().is_some_and(|file| file.ends_with(".py"))
                && function_of_pytest(test).is_some_and(|name| !name.contains(['.', ' ', '/']))
        }
        _ => true,
    }
}

/// Returns the function name of a pytest test: `test_b` for `tests/test_a.py::TestA::test_b[1]`.
fn function_of_pytest(test: &ReportedTest) -> Option<&str> {
    let (_, parts) = test.name.split_once("::")?;
    parts.split('[').next()?.rsplit("::").next()
}

/// Creates a random name for a canary test, in the naming style of the runner. It consists of three or four words,
/// which are taken from the names of the real tests and from [`WORDS`].
fn name(runner: TestRunner, tests: &[&ReportedTest], rng: &mut fastrand::Rng) -> String {
    let mut words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    for test in tests.iter().take(100) {
        let last = test.name.rsplit(['.', ':', '/', '>']).next().unwrap_or_default();
        let parts = last.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_lowercase);
        words.extend(parts.filter(|part| (3..=12).contains(&part.len()) && part != "test"));
    }
    let count = rng.usize(3..=4);
    let chosen: Vec<String> = (0..count).filter_map(|_| rng.choice(&words).cloned()).collect();
    match runner {
        TestRunner::Pytest => {
            // Use the prefix of the real tests, because a project may use another prefix than `test`.
            let first = tests.first().and_then(|test| function_of_pytest(test)?.split('_').next());
            format!("{}_{}", first.unwrap_or("test"), chosen.join("_"))
        }
        TestRunner::Unittest => format!("test_{}", chosen.join("_")),
        TestRunner::Cargo => chosen.join("_"),
        TestRunner::Go => {
            format!("Test{}", chosen.iter().map(|word| capitalize(word)).collect::<String>())
        }
        TestRunner::Node | TestRunner::Jest | TestRunner::Vitest => chosen.join(" "),
    }
}

/// Converts the first letter of a word to upper case.
fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// Returns the source code of a test that fails, for a test runner. `text` is the content of the test file.
fn code(runner: TestRunner, name: &str, text: &str, rng: &mut fastrand::Rng) -> String {
    let (a, b) = (rng.u32(2..60), rng.u32(2..60));
    let wrong = a + b + rng.u32(1..5);
    let class: String = name.trim_start_matches("test_").split('_').map(capitalize).collect();
    let is_module = text.lines().map(str::trim_start).any(|line| {
        line.starts_with("import ") && !line.starts_with("import type")
            || line.starts_with("import{")
            || line.starts_with("export ")
    });
    match runner {
        TestRunner::Pytest => format!("\n\ndef {name}():\n    assert {a} + {b} == {wrong}\n"),
        TestRunner::Unittest => format!(
            "\n\nimport unittest as _{name}\n\n\nclass Test{class}(_{name}.TestCase):\n    def {name}(self):\n        \
             self.assertEqual({a} + {b}, {wrong})\n"
        ),
        // A `require(` in the text suggests a CommonJS file, even if some lines look like those of an ES module.
        TestRunner::Node if is_module && !text.contains("require(") => format!(
            "\nimport {{ test as test{a}{wrong} }} from \"node:test\";\nimport assert{a}{wrong} from \"node:assert\";\n\
             test{a}{wrong}(\"{name}\", () => {{\n  assert{a}{wrong}.strictEqual({a} + {b}, {wrong});\n}});\n"
        ),
        TestRunner::Node => format!(
            "\nconst load{a}{wrong} = process.getBuiltinModule ?? require;\n\
             load{a}{wrong}(\"node:test\").test(\"{name}\", () => {{\n  \
             load{a}{wrong}(\"node:assert\").strictEqual({a} + {b}, {wrong});\n}});\n"
        ),
        // A file that imports `@jest/globals` may import only some of the names that are otherwise global.
        TestRunner::Jest if text.contains("@jest/globals") => {
            let import = match is_module {
                true => format!("import * as jest{a}{wrong} from \"@jest/globals\";"),
                false => format!("const jest{a}{wrong} = require(\"@jest/globals\");"),
            };
            format!(
                "\n{import}\njest{a}{wrong}.test(\"{name}\", () => {{\n  \
                 jest{a}{wrong}.expect({a} + {b}).toBe({wrong});\n}});\n"
            )
        }
        TestRunner::Jest => {
            format!("\ntest(\"{name}\", () => {{\n  expect({a} + {b}).toBe({wrong});\n}});\n")
        }
        TestRunner::Vitest => format!(
            "\nimport {{ test as test{a}{wrong}, expect as expect{a}{wrong} }} from \"vitest\";\n\
             test{a}{wrong}(\"{name}\", () => {{\n  expect{a}{wrong}({a} + {b}).toBe({wrong});\n}});\n"
        ),
        TestRunner::Cargo => format!(
            "\n#[cfg(test)]\nmod {name}_cases {{\n    #[test]\n    fn {name}() {{\n        assert_eq!({a} + {b}, {wrong});\n    }}\n}}\n"
        ),
        TestRunner::Go => format!(
            "{}\n\nimport \"testing\"\n\nfunc {name}(t *testing.T) {{\n\tif {a}+{b} != {wrong} {{\n\t\tt.Fatalf(\"got %d, want %d\", {a}+{b}, {wrong})\n\t}}\n}}\n",
            text.lines().find(|line| line.starts_with("package ")).unwrap_or_default()
        ),
    }
}

/// Checks the report of a test run with canary tests. Returns the reason why the test results are not reliable, or
/// `None` if the test results are reliable. `before` is the report of the unchanged workspace. `is_unchanged` returns
/// whether the file of a test is known and unchanged.
pub(crate) fn unreliable_reason(
    canaries: &[Canary],
    report: Option<&RunnerReport>,
    before: &RunnerReport,
    is_unchanged: &dyn Fn(&ReportedTest) -> bool,
) -> Option<String> {
    let Some(report) = report else {
        return Some("the test report is missing or incomplete".to_owned());
    };
    let is_canary =
        |test: &&ReportedTest| canaries.iter().any(|canary| test.name.contains(&canary.name));
    for canary in canaries {
        let outcomes: Vec<TestOutcome> = report
            .tests
            .iter()
            .filter(|test| test.name.contains(&canary.name))
            .map(|test| test.outcome)
            .collect();
        if outcomes.len() < canary.count {
            return Some("a canary test is missing from the test report".to_owned());
        }
        if outcomes.iter().any(|outcome| *outcome != TestOutcome::Failed) {
            return Some("a canary test, which must fail, did not fail".to_owned());
        }
    }
    let own: Vec<&ReportedTest> = report.tests.iter().filter(|test| !is_canary(test)).collect();
    if let Some(test) = own.iter().find(|test| test.outcome == TestOutcome::Failed) {
        let name = assize_types::text::shorten(&test.name, 200);
        return Some(format!(
            "the test `{name}` passed in the first run and failed in the second run"
        ));
    }
    let executed = own.iter().filter(|test| test.outcome != TestOutcome::Skipped).count();
    if executed == 0 {
        return Some("no test was run".to_owned());
    }
    if executed < before.executed() {
        let before = before.executed();
        return Some(format!(
            "fewer tests were run ({executed}) than on the unchanged workspace ({before})"
        ));
    }
    let (passed, passed_before) = (report.passed(), before.passed());
    let missing = before.tests.iter().find(|test| {
        passed_before.contains(&test.key()) && !passed.contains(&test.key()) && is_unchanged(test)
    });
    missing.map(|test| {
        let name = assize_types::text::shorten(&test.name, 200);
        format!("the test `{name}` passed on the unchanged workspace but not with the change")
    })
}

#[cfg(test)]
mod tests {
    use super::TestOutcome::{Failed, Passed, Skipped};
    use super::*;

    fn test(name: &str, outcome: TestOutcome) -> ReportedTest {
        ReportedTest {
            name: name.to_owned(),
            file: Some("/tmp/workspace/t.py".to_owned()),
            outcome,
        }
    }

    /// Creates the report entry of a passed test.
    fn passed(file: &str, name: &str) -> ReportedTest {
        ReportedTest { name: name.to_owned(), file: Some(file.to_owned()), outcome: Passed }
    }

    #[test]
    fn canary_tests_are_named_like_real_tests_and_added_to_executed_test_files() {
        let report = RunnerReport { tests: vec![test("t.py::test_add_small", Passed)] };
        let text = |_: &str| Some("def test_add_small(): pass\n".to_owned());
        let sources = TestSources::new(TestRunner::Pytest, ["t.py".to_owned()], &text);
        let mut rng = fastrand::Rng::with_seed(7);
        let found = canaries(&report, &sources, &mut rng);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "t.py");
        assert!(found[0].name.starts_with("test_") && !found[0].name.contains("canary"));
        assert!(found[0].code.contains(&format!("def {}():\n    assert ", found[0].name)));
        let again = canaries(&report, &sources, &mut rng);
        assert_ne!(found, again, "the names and numbers of canary tests must be random");
        let skipped = RunnerReport { tests: vec![test("t.py::test_add", Skipped)] };
        assert!(canaries(&skipped, &sources, &mut rng).is_empty());
        let example = RunnerReport { tests: vec![test("t.py::t.add", Passed)] };
        assert!(canaries(&example, &sources, &mut rng).is_empty());
        let checks = RunnerReport { tests: vec![test("t.py::check_add[1]", Passed)] };
        assert!(canaries(&checks, &sources, &mut rng)[0].name.starts_with("check_"));
    }

    #[test]
    fn every_test_file_gets_a_canary_test_with_a_unique_name() {
        let name = |number: usize| format!("t{number}.py");
        let test =
            |file: String| passed(&format!("{WORKSPACE}{file}"), &format!("{file}::test_add"));
        let report = RunnerReport { tests: (0..20).map(name).map(test).collect() };
        let text = |_: &str| Some("def test_add(): pass\n".to_owned());
        let sources = TestSources::new(TestRunner::Pytest, (0..20).map(name), &text);
        let found = canaries(&report, &sources, &mut fastrand::Rng::with_seed(7));
        let names: BTreeSet<&str> = found.iter().map(|canary| canary.name.as_str()).collect();
        assert_eq!((found.len(), names.len()), (20, 20));
    }

    /// Returns the workspace file that contains a test, given the file and the name of the test in a report.
    fn file(sources: &TestSources<'_>, file: &str, name: &str) -> Option<String> {
        sources.group_by_file([&passed(file, name)]).into_keys().next()
    }

    #[test]
    fn file_of_a_go_test_is_found_by_its_test_function() {
        let files = ["a_test.go", "b_test.go", "sub/deep/a_test.go", "deep/a_test.go"];
        let text = |file: &str| {
            let name = if file == "a_test.go" { "TestTagged" } else { "TestAdd" };
            Some(format!("package p\nfunc {name}(t *testing.T) {{}}\n"))
        };
        let sources = TestSources::new(TestRunner::Go, files.map(str::to_owned), &text);
        let file = |package: &str| file(&sources, package, "TestAdd/one").unwrap();
        assert_eq!(file("example.org/m"), "b_test.go");
        assert_eq!(file("example.org/m/sub/deep"), "sub/deep/a_test.go");
        assert_eq!(file("example.org/m/deep"), "deep/a_test.go");
        let report = RunnerReport { tests: vec![passed("m/deep", "TestAdd")] };
        let found = canaries(&report, &sources, &mut fastrand::Rng::with_seed(7));
        assert!(found[0].file.starts_with("deep/a_") && found[0].file.ends_with("_test.go"));
        assert!(found[0].code.starts_with("package p\n\nimport \"testing\"\n"));
    }

    #[test]
    fn file_of_a_rust_test_is_found_by_its_module() {
        let files = ["a/src/lib.rs", "a/src/ops.rs", "a/src/deep/mod.rs", "a/tests/t.rs"];
        let text = |_: &str| None;
        let sources = TestSources::new(TestRunner::Cargo, files.map(str::to_owned), &text);
        for (named, name, expected) in [
            ("a/src/lib.rs", "tests::adds", "a/src/lib.rs"),
            ("a/src/lib.rs", "ops::tests::halves", "a/src/ops.rs"),
            ("a/src/lib.rs", "deep::inner::tests::x", "a/src/deep/mod.rs"),
            ("a/tests/t.rs", "adds", "a/tests/t.rs"),
        ] {
            let found = file(&sources, &format!("{WORKSPACE}{named}"), name);
            assert_eq!(found.as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn forged_test_reports_are_detected_and_the_reason_is_returned() {
        let (canary, add) = ("t.py::test_order_total", "t.py::test_add");
        let name = "test_order_total".to_owned();
        let canaries = [Canary { file: "t.py".into(), name, code: String::new(), count: 1 }];
        let unchanged = |test: &ReportedTest| test.name.starts_with("t.py");
        let report = |tests: &[(&str, TestOutcome)]| RunnerReport {
            tests: tests.iter().map(|(name, outcome)| test(name, *outcome)).collect(),
        };
        for (tests, before, why) in [
            (&[(canary, Failed), (add, Passed)][..], &[add][..], ""),
            (&[(canary, Failed), (add, Passed)], &["changed.py::test_a"], ""),
            (&[(add, Passed)], &[add], "is missing"),
            (&[(canary, Passed)], &[], "did not fail"),
            (&[(canary, Skipped)], &[], "did not fail"),
            (&[(canary, Failed)], &[], "no test was run"),
            (&[(canary, Failed), (add, Skipped)], &[], "no test was run"),
            (&[(canary, Failed), (add, Passed)], &[add, "b"], "on the unchanged workspace (2)"),
            (&[(canary, Failed), (add, Failed)], &[add], "failed in the second"),
            (&[(canary, Failed), ("other", Passed)], &[add], "but not with the change"),
            (&[(canary, Failed), (add, Skipped), (add, Passed)], &[add], "but not with the change"),
        ] {
            let before: Vec<_> = before.iter().map(|name| (*name, Passed)).collect();
            let doubt =
                unreliable_reason(&canaries, Some(&report(tests)), &report(&before), &unchanged);
            assert_eq!(doubt.is_none(), why.is_empty(), "{doubt:?}");
            assert!(doubt.unwrap_or_default().contains(why), "{why}");
        }
        let missing = unreliable_reason(&canaries, None, &report(&[]), &unchanged);
        assert!(missing.unwrap().contains("missing or incomplete"));
    }
}

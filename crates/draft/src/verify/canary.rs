//! Canary tests: tests that must fail. The host adds them to the files that a test runner ran, under names made of the
//! words of the real ones. Code that forges its own test result makes them pass too, or makes them disappear.

use std::collections::BTreeSet;

use super::report::{Report, Test, TestOutcome};
use super::runner::Runner;

/// Files that get a canary, at most.
const MOST: usize = 3;

/// Words for names where the real tests have too few.
const WORDS: [&str; 12] = [
    "value", "input", "result", "empty", "order", "limit", "total", "first", "state", "update",
    "range", "default",
];

/// A test that must fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Canary {
    /// The file that it is added to, below the workspace's folder.
    pub file: String,
    /// What its name in the report contains.
    pub name: String,
    /// What is added to the end of the file.
    pub code: String,
    /// How many tests of that name are added.
    pub count: usize,
}

/// Canaries for the files of a report. `files` are those of the workspace, and `text` reads one.
pub(crate) fn canaries(
    runner: Runner,
    report: &Report,
    files: &[String],
    text: &dyn Fn(&str) -> Option<String>,
    rng: &mut fastrand::Rng,
) -> Vec<Canary> {
    let ran = report.tests.iter().filter(|test| test.outcome == TestOutcome::Passed);
    let found = ran.filter_map(|test| file_of(runner, test, files, text));
    let mut files: Vec<String> = found.collect::<BTreeSet<_>>().into_iter().collect();
    rng.shuffle(&mut files);
    let mut found: Vec<Canary> = Vec::new();
    for file in files {
        if found.len() == MOST {
            break;
        }
        let Some(text) = text(&file) else { continue };
        let taken = |name: &str| {
            let name = name.to_lowercase();
            report.tests.iter().any(|test| test.name.to_lowercase().contains(&name))
                || found.iter().any(|canary| canary.name.to_lowercase() == name)
                || text.to_lowercase().contains(&name)
        };
        let name = (0..50).map(|_| name(runner, report, rng)).find(|name| !taken(name));
        let Some(name) = name else { continue };
        let mut code = code(runner, &name, &text, rng);
        let mut count = 1;
        // Pytest runs both kinds of tests, and either may be forged.
        if runner == Runner::Pytest && text.contains("TestCase") {
            code.push_str(&self::code(Runner::Unittest, &name, &text, rng));
            count = 2;
        }
        found.push(Canary { file, name, code, count });
    }
    found
}

/// Where the copy of the workspace is in the sandbox.
const WORKSPACE: &str = "/tmp/workspace/";

/// The file of the workspace that a test is in. Runners name it by its full path in the sandbox; Go names the package, whose
/// files have to be searched.
fn file_of(
    runner: Runner,
    test: &Test,
    files: &[String],
    text: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let named = test.file.as_deref()?;
    if runner != Runner::Go {
        let path = named.strip_prefix(WORKSPACE)?;
        return files.iter().find(|file| *file == path).cloned();
    }
    let function = format!("func {}(", test.name.split('/').next().unwrap_or_default());
    let in_package = |file: &&String| {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        file.ends_with("_test.go") && (folder.is_empty() || named.ends_with(&format!("/{folder}")))
    };
    let mut fitting: Vec<&String> = files.iter().filter(in_package).collect();
    // The module's own folder fits every package.
    fitting.sort_by_key(|file| std::cmp::Reverse(file.matches('/').count()));
    fitting
        .into_iter()
        .find(|file| text(file).is_some_and(|text| text.contains(&function)))
        .cloned()
}

/// A name of two or three words of the real names, written as the runner's users write names.
fn name(runner: Runner, report: &Report, rng: &mut fastrand::Rng) -> String {
    let mut words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    for test in &report.tests {
        let last = test.name.rsplit(['.', ':', '/', '>']).next().unwrap_or_default();
        let parts = last.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_lowercase);
        words.extend(parts.filter(|part| (3..=12).contains(&part.len()) && part != "test"));
    }
    let count = rng.usize(2..=3);
    let chosen: Vec<String> = (0..count).filter_map(|_| rng.choice(&words).cloned()).collect();
    let capital = |word: &String| {
        let mut chars = word.chars();
        chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
    };
    match runner {
        Runner::Pytest | Runner::Unittest => format!("test_{}", chosen.join("_")),
        Runner::Cargo => chosen.join("_"),
        Runner::Go => format!("Test{}", chosen.iter().map(capital).collect::<String>()),
        Runner::Node | Runner::Jest | Runner::Vitest => chosen.join(" "),
    }
}

/// A failing test, as it is written in the runner's language.
fn code(runner: Runner, name: &str, text: &str, rng: &mut fastrand::Rng) -> String {
    let (a, b) = (rng.u32(2..60), rng.u32(2..60));
    let wrong = a + b + rng.u32(1..5);
    let words = name.trim_start_matches("test_").split('_');
    let class: String = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect();
    let is_module = text.lines().map(str::trim_start).any(|line| {
        line.starts_with("import ") && !line.starts_with("import type")
            || line.starts_with("export ")
    });
    match runner {
        Runner::Pytest => format!("\n\ndef {name}():\n    assert {a} + {b} == {wrong}\n"),
        Runner::Unittest => format!(
            "\n\nimport unittest as _{name}\n\n\nclass Test{class}(_{name}.TestCase):\n    def {name}(self):\n        \
             self.assertEqual({a} + {b}, {wrong})\n"
        ),
        Runner::Node if is_module => format!(
            "\nimport {{ test as test{a}{wrong} }} from \"node:test\";\nimport assert{a}{wrong} from \"node:assert\";\n\
             test{a}{wrong}(\"{name}\", () => {{\n  assert{a}{wrong}.strictEqual({a} + {b}, {wrong});\n}});\n"
        ),
        Runner::Node => format!(
            "\nrequire(\"node:test\").test(\"{name}\", () => {{\n  require(\"node:assert\").strictEqual({a} + {b}, {wrong});\n}});\n"
        ),
        // Such a file may have only some of the names that are global elsewhere.
        Runner::Jest if text.contains("@jest/globals") => {
            let import = match is_module {
                true => format!("import * as jest{a}{wrong} from \"@jest/globals\";"),
                false => format!("const jest{a}{wrong} = require(\"@jest/globals\");"),
            };
            format!(
                "\n{import}\njest{a}{wrong}.test(\"{name}\", () => {{\n  \
                 jest{a}{wrong}.expect({a} + {b}).toBe({wrong});\n}});\n"
            )
        }
        Runner::Jest => {
            format!("\ntest(\"{name}\", () => {{\n  expect({a} + {b}).toBe({wrong});\n}});\n")
        }
        Runner::Vitest => format!(
            "\nimport {{ test as test{a}{wrong}, expect as expect{a}{wrong} }} from \"vitest\";\n\
             test{a}{wrong}(\"{name}\", () => {{\n  expect{a}{wrong}({a} + {b}).toBe({wrong});\n}});\n"
        ),
        Runner::Cargo => format!(
            "\n#[cfg(test)]\nmod {name}_cases {{\n    #[test]\n    fn {name}() {{\n        assert_eq!({a} + {b}, {wrong});\n    }}\n}}\n"
        ),
        Runner::Go => format!(
            "\nfunc {name}(t *testing.T) {{\n\tif {a}+{b} != {wrong} {{\n\t\tt.Fatalf(\"got %d, want %d\", {a}+{b}, {wrong})\n\t}}\n}}\n"
        ),
    }
}

/// What a report with canaries shows: nothing, or why the tests cannot be relied on.
pub(crate) fn doubt(canaries: &[Canary], report: Option<&Report>, before: usize) -> Option<String> {
    let Some(report) = report else {
        return Some("the tests left no complete report".to_owned());
    };
    let is_canary = |test: &&Test| canaries.iter().any(|canary| test.name.contains(&canary.name));
    for canary in canaries {
        let outcomes: Vec<TestOutcome> = report
            .tests
            .iter()
            .filter(|test| test.name.contains(&canary.name))
            .map(|test| test.outcome)
            .collect();
        if outcomes.len() < canary.count {
            return Some(
                "a test that was added and must fail is missing from the report".to_owned(),
            );
        }
        if outcomes.iter().any(|outcome| *outcome != TestOutcome::Failed) {
            return Some("a test that was added and must fail did not fail".to_owned());
        }
    }
    let own: Vec<&Test> = report.tests.iter().filter(|test| !is_canary(test)).collect();
    if let Some(test) = own.iter().find(|test| test.outcome == TestOutcome::Failed) {
        let name = assize_types::text::shorten(&test.name, 200);
        return Some(format!("`{name}` passed in the first run and failed in the second"));
    }
    let passed = own.iter().filter(|test| test.outcome == TestOutcome::Passed).count();
    if passed == 0 {
        return Some("no test was run".to_owned());
    }
    (passed < before).then(|| {
        format!("{passed} tests were run, and {before} are run on the unchanged workspace")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, outcome: TestOutcome) -> Test {
        Test { name: name.to_owned(), file: Some("/tmp/workspace/t.py".to_owned()), outcome }
    }

    #[test]
    fn canaries_are_placed_in_files_that_ran_and_look_like_their_tests() {
        let report = Report { tests: vec![test("t.py::test_add_small", TestOutcome::Passed)] };
        let files = ["t.py".to_owned()];
        let text = |_: &str| Some("def test_add_small(): pass\n".to_owned());
        let mut rng = fastrand::Rng::with_seed(7);
        let found = canaries(Runner::Pytest, &report, &files, &text, &mut rng);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "t.py");
        assert!(found[0].name.starts_with("test_") && !found[0].name.contains("canary"));
        assert!(found[0].code.contains(&format!("def {}():\n    assert ", found[0].name)));
        let again = canaries(Runner::Pytest, &report, &files, &text, &mut rng);
        assert_ne!(found, again, "names and numbers are random");
        let skipped = Report { tests: vec![test("t.py::test_add", TestOutcome::Skipped)] };
        assert!(canaries(Runner::Pytest, &skipped, &files, &text, &mut rng).is_empty());
    }

    #[test]
    fn canary_of_go_is_placed_in_the_file_of_the_test() {
        let files = ["a_test.go", "b_test.go", "sub/deep/a_test.go", "deep/a_test.go"];
        let files = files.map(str::to_owned);
        let text = |file: &str| {
            let name = if file == "a_test.go" { "TestTagged" } else { "TestAdd" };
            Some(format!("package p\nfunc {name}(t *testing.T) {{}}\n"))
        };
        let file = |package: &str| {
            let file = Some(package.to_owned());
            let test = Test { name: "TestAdd/one".into(), file, outcome: TestOutcome::Passed };
            file_of(Runner::Go, &test, &files, &text)
        };
        assert_eq!(file("example.org/m").as_deref(), Some("b_test.go"));
        assert_eq!(file("example.org/m/sub/deep").as_deref(), Some("sub/deep/a_test.go"));
        assert_eq!(file("example.org/m/deep").as_deref(), Some("deep/a_test.go"));
    }

    #[test]
    fn forged_reports_are_doubted() {
        let canary = Canary {
            file: "t.py".into(),
            name: "test_order_total".into(),
            code: String::new(),
            count: 1,
        };
        let canaries = [canary];
        let failed = || test("t.py::test_order_total", TestOutcome::Failed);
        let own = |outcome| test("t.py::test_add", outcome);
        let doubt = |tests: Vec<Test>, before| doubt(&canaries, Some(&Report { tests }), before);
        assert_eq!(doubt(vec![failed(), own(TestOutcome::Passed)], 1), None);
        for (tests, before, why) in [
            (vec![own(TestOutcome::Passed)], 1, "is missing"),
            (vec![test("t.py::test_order_total", TestOutcome::Passed)], 0, "did not fail"),
            (vec![test("t.py::test_order_total", TestOutcome::Skipped)], 0, "did not fail"),
            (vec![failed()], 0, "no test was run"),
            (vec![failed(), own(TestOutcome::Skipped)], 0, "no test was run"),
            (vec![failed(), own(TestOutcome::Passed)], 2, "and 2 are run on the unchanged"),
            (vec![failed(), own(TestOutcome::Failed)], 1, "failed in the second"),
        ] {
            assert!(doubt(tests, before).unwrap().contains(why), "{why}");
        }
        assert!(super::doubt(&canaries, None, 0).unwrap().contains("no complete report"));
    }
}

//! Canary tests: tests that must fail. The host adds them to the files that a test runner ran, under names made of the
//! words of the real ones. Code that forges its own test result makes them pass too, or makes them disappear.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::report::{Report, Test, TestOutcome};
use super::runner::Runner;

/// Files that get a canary, at most. Runners have a process or a module for each, and each may be forged alone.
const MOST: usize = 300;

/// Words for names where the real tests have too few.
const WORDS: [&str; 12] = [
    "value", "input", "result", "empty", "order", "limit", "total", "first", "state", "update",
    "range", "default",
];

/// A test that must fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Canary {
    /// The file that it is added to, below the workspace's folder; a new one in Go.
    pub file: String,
    /// What its name in the report contains.
    pub name: String,
    /// What is added to the end of the file.
    pub code: String,
    /// How many tests of that name are added.
    pub count: usize,
}

/// Where tests are: the files of the workspace, and what is in them.
pub(crate) struct Sources<'a> {
    runner: Runner,
    files: BTreeSet<String>,
    text: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

impl<'a> Sources<'a> {
    pub(crate) fn new(
        runner: Runner,
        files: impl IntoIterator<Item = String>,
        text: &'a (dyn Fn(&str) -> Option<String> + Sync),
    ) -> Sources<'a> {
        Sources { runner, files: files.into_iter().collect(), text }
    }

    /// The files that tests are in, each with its tests.
    pub(crate) fn of<'t>(
        &self,
        tests: impl IntoIterator<Item = &'t Test>,
    ) -> BTreeMap<String, Vec<&'t Test>> {
        let mut found: BTreeMap<String, Vec<&Test>> = BTreeMap::new();
        // Many tests are in the same place, which takes a search in Go.
        let mut known: HashMap<(Option<&str>, &str), Option<String>> = HashMap::new();
        for test in tests {
            let key = (test.file.as_deref(), self.place_in_name(&test.name));
            let file = known.entry(key).or_insert_with(|| self.file(key.0?, key.1)).clone();
            if let Some(file) = file {
                found.entry(file).or_default().push(test);
            }
        }
        found
    }

    /// The part of a test's name that says where it is: the function in Go, the modules in Rust.
    fn place_in_name<'t>(&self, name: &'t str) -> &'t str {
        match self.runner {
            Runner::Go => name.split('/').next().unwrap_or_default(),
            Runner::Cargo => name.rsplit_once("::").map_or("", |(modules, _)| modules),
            _ => "",
        }
    }

    /// The file of the workspace that a test is in. Runners name it by its full path in the sandbox. Cargo names the first
    /// file of a program, beside which its modules are; Go names the package, whose files have to be searched.
    fn file(&self, named: &str, place: &str) -> Option<String> {
        if self.runner == Runner::Go {
            return self.file_of_package(named, place);
        }
        let path = named.strip_prefix(WORKSPACE)?;
        if self.runner == Runner::Cargo {
            let folder = path.rsplit_once('/').map_or(String::new(), |(f, _)| format!("{f}/"));
            let mut modules: Vec<&str> = place.split("::").collect();
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

    /// The file of a package of Go with a function: of those with the function, the one whose folder has most in common with
    /// the end of the package's name.
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

/// Where the copy of the workspace is in the sandbox.
const WORKSPACE: &str = "/tmp/workspace/";

/// Canaries for the files of a report.
pub(crate) fn canaries(
    report: &Report,
    sources: &Sources<'_>,
    rng: &mut fastrand::Rng,
) -> Vec<Canary> {
    let runner = sources.runner;
    let ran = report.tests.iter().filter(|test| test.outcome == TestOutcome::Passed);
    let ran = ran.filter(|test| is_function(runner, test));
    let mut files: Vec<(String, Vec<&Test>)> = sources.of(ran).into_iter().collect();
    rng.shuffle(&mut files);
    let names: String =
        report.tests.iter().map(|test| format!("{}\n", test.name.to_lowercase())).collect();
    let mut found: Vec<Canary> = Vec::new();
    for (file, tests) in files {
        if found.len() == MOST {
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
        // Pytest runs both kinds of tests, and either may be forged.
        if runner == Runner::Pytest && text.contains("TestCase") {
            code.push_str(&self::code(Runner::Unittest, &name, &text, rng));
            count = 2;
        }
        let file = match runner {
            // The file may lack the import, or have it under another name.
            Runner::Go => file.replace("_test.go", &format!("_{:04x}_test.go", rng.u16(..))),
            _ => file,
        };
        found.push(Canary { file, name, code, count });
    }
    found
}

/// Whether a test is a function in a file of tests, not something else that the runner found, such as an example in a text.
fn is_function(runner: Runner, test: &Test) -> bool {
    match runner {
        Runner::Pytest => {
            test.file.as_ref().is_some_and(|file| file.ends_with(".py"))
                && function_of_pytest(test).is_some_and(|name| !name.contains(['.', ' ', '/']))
        }
        _ => true,
    }
}

/// The name of a function of pytest: `tests/test_a.py::TestA::test_b[1]` is `test_b`.
fn function_of_pytest(test: &Test) -> Option<&str> {
    let (_, parts) = test.name.split_once("::")?;
    parts.split('[').next()?.rsplit("::").next()
}

/// A name of three or four words of the real names, written as the runner's users write names.
fn name(runner: Runner, tests: &[&Test], rng: &mut fastrand::Rng) -> String {
    let mut words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
    for test in tests.iter().take(100) {
        let last = test.name.rsplit(['.', ':', '/', '>']).next().unwrap_or_default();
        let parts = last.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_lowercase);
        words.extend(parts.filter(|part| (3..=12).contains(&part.len()) && part != "test"));
    }
    let count = rng.usize(3..=4);
    let chosen: Vec<String> = (0..count).filter_map(|_| rng.choice(&words).cloned()).collect();
    match runner {
        Runner::Pytest => {
            // A project may have its functions begin with another word.
            let first = tests.first().and_then(|test| function_of_pytest(test)?.split('_').next());
            format!("{}_{}", first.unwrap_or("test"), chosen.join("_"))
        }
        Runner::Unittest => format!("test_{}", chosen.join("_")),
        Runner::Cargo => chosen.join("_"),
        Runner::Go => {
            format!("Test{}", chosen.iter().map(|word| capital(word)).collect::<String>())
        }
        Runner::Node | Runner::Jest | Runner::Vitest => chosen.join(" "),
    }
}

/// A word with a capital at its beginning.
fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

/// A failing test, as it is written in the runner's language.
fn code(runner: Runner, name: &str, text: &str, rng: &mut fastrand::Rng) -> String {
    let (a, b) = (rng.u32(2..60), rng.u32(2..60));
    let wrong = a + b + rng.u32(1..5);
    let class: String = name.trim_start_matches("test_").split('_').map(capital).collect();
    let is_module = text.lines().map(str::trim_start).any(|line| {
        line.starts_with("import ") && !line.starts_with("import type")
            || line.starts_with("import{")
            || line.starts_with("export ")
    });
    match runner {
        Runner::Pytest => format!("\n\ndef {name}():\n    assert {a} + {b} == {wrong}\n"),
        Runner::Unittest => format!(
            "\n\nimport unittest as _{name}\n\n\nclass Test{class}(_{name}.TestCase):\n    def {name}(self):\n        \
             self.assertEqual({a} + {b}, {wrong})\n"
        ),
        // The lines may be part of a text.
        Runner::Node if is_module && !text.contains("require(") => format!(
            "\nimport {{ test as test{a}{wrong} }} from \"node:test\";\nimport assert{a}{wrong} from \"node:assert\";\n\
             test{a}{wrong}(\"{name}\", () => {{\n  assert{a}{wrong}.strictEqual({a} + {b}, {wrong});\n}});\n"
        ),
        Runner::Node => format!(
            "\nconst load{a}{wrong} = process.getBuiltinModule ?? require;\n\
             load{a}{wrong}(\"node:test\").test(\"{name}\", () => {{\n  \
             load{a}{wrong}(\"node:assert\").strictEqual({a} + {b}, {wrong});\n}});\n"
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
            "{}\n\nimport \"testing\"\n\nfunc {name}(t *testing.T) {{\n\tif {a}+{b} != {wrong} {{\n\t\tt.Fatalf(\"got %d, want %d\", {a}+{b}, {wrong})\n\t}}\n}}\n",
            text.lines().find(|line| line.starts_with("package ")).unwrap_or_default()
        ),
    }
}

/// What a report with canaries shows: nothing, or why the tests cannot be relied on. `before` is the report of the unchanged
/// workspace; `is_unchanged` says whether the file of a test is known and stays as it is.
pub(crate) fn doubt(
    canaries: &[Canary],
    report: Option<&Report>,
    before: &Report,
    is_unchanged: &dyn Fn(&Test) -> bool,
) -> Option<String> {
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
    if passed < before.executed() {
        let before = before.executed();
        return Some(format!(
            "fewer tests were run ({passed}) than on the unchanged workspace ({before})"
        ));
    }
    let (passed, passed_before) = (report.passed(), before.passed());
    let missing = before.tests.iter().find(|test| {
        passed_before.contains(&test.key()) && !passed.contains(&test.key()) && is_unchanged(test)
    });
    missing.map(|test| {
        let name = assize_types::text::shorten(&test.name, 200);
        format!("`{name}` was not run, although its file is unchanged")
    })
}

#[cfg(test)]
mod tests {
    use super::TestOutcome::{Failed, Passed, Skipped};
    use super::*;

    fn test(name: &str, outcome: TestOutcome) -> Test {
        Test { name: name.to_owned(), file: Some("/tmp/workspace/t.py".to_owned()), outcome }
    }

    /// A test in a file that passed.
    fn passed(file: &str, name: &str) -> Test {
        Test { name: name.to_owned(), file: Some(file.to_owned()), outcome: Passed }
    }

    #[test]
    fn canaries_are_placed_in_files_that_ran_and_look_like_their_tests() {
        let report = Report { tests: vec![test("t.py::test_add_small", Passed)] };
        let text = |_: &str| Some("def test_add_small(): pass\n".to_owned());
        let sources = Sources::new(Runner::Pytest, ["t.py".to_owned()], &text);
        let mut rng = fastrand::Rng::with_seed(7);
        let found = canaries(&report, &sources, &mut rng);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "t.py");
        assert!(found[0].name.starts_with("test_") && !found[0].name.contains("canary"));
        assert!(found[0].code.contains(&format!("def {}():\n    assert ", found[0].name)));
        let again = canaries(&report, &sources, &mut rng);
        assert_ne!(found, again, "names and numbers are random");
        let skipped = Report { tests: vec![test("t.py::test_add", Skipped)] };
        assert!(canaries(&skipped, &sources, &mut rng).is_empty());
        let example = Report { tests: vec![test("t.py::t.add", Passed)] };
        assert!(canaries(&example, &sources, &mut rng).is_empty());
        let checks = Report { tests: vec![test("t.py::check_add[1]", Passed)] };
        assert!(canaries(&checks, &sources, &mut rng)[0].name.starts_with("check_"));
    }

    #[test]
    fn every_file_of_tests_gets_a_canary() {
        let name = |number: usize| format!("t{number}.py");
        let test =
            |file: String| passed(&format!("{WORKSPACE}{file}"), &format!("{file}::test_add"));
        let report = Report { tests: (0..20).map(name).map(test).collect() };
        let text = |_: &str| Some("def test_add(): pass\n".to_owned());
        let sources = Sources::new(Runner::Pytest, (0..20).map(name), &text);
        let found = canaries(&report, &sources, &mut fastrand::Rng::with_seed(7));
        let names: BTreeSet<&str> = found.iter().map(|canary| canary.name.as_str()).collect();
        assert_eq!((found.len(), names.len()), (20, 20));
    }

    /// The file that a test is in.
    fn file(sources: &Sources<'_>, file: &str, name: &str) -> Option<String> {
        sources.of([&passed(file, name)]).into_keys().next()
    }

    #[test]
    fn file_of_a_test_in_go_has_its_function() {
        let files = ["a_test.go", "b_test.go", "sub/deep/a_test.go", "deep/a_test.go"];
        let text = |file: &str| {
            let name = if file == "a_test.go" { "TestTagged" } else { "TestAdd" };
            Some(format!("package p\nfunc {name}(t *testing.T) {{}}\n"))
        };
        let sources = Sources::new(Runner::Go, files.map(str::to_owned), &text);
        let file = |package: &str| file(&sources, package, "TestAdd/one").unwrap();
        assert_eq!(file("example.org/m"), "b_test.go");
        assert_eq!(file("example.org/m/sub/deep"), "sub/deep/a_test.go");
        assert_eq!(file("example.org/m/deep"), "deep/a_test.go");
        let report = Report { tests: vec![passed("m/deep", "TestAdd")] };
        let found = canaries(&report, &sources, &mut fastrand::Rng::with_seed(7));
        assert!(found[0].file.starts_with("deep/a_") && found[0].file.ends_with("_test.go"));
        assert!(found[0].code.starts_with("package p\n\nimport \"testing\"\n"));
    }

    #[test]
    fn file_of_a_test_in_rust_is_its_module() {
        let files = ["a/src/lib.rs", "a/src/ops.rs", "a/src/deep/mod.rs", "a/tests/t.rs"];
        let text = |_: &str| None;
        let sources = Sources::new(Runner::Cargo, files.map(str::to_owned), &text);
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
    fn forged_reports_are_doubted() {
        let (canary, add) = ("t.py::test_order_total", "t.py::test_add");
        let name = "test_order_total".to_owned();
        let canaries = [Canary { file: "t.py".into(), name, code: String::new(), count: 1 }];
        let unchanged = |test: &Test| test.name.starts_with("t.py");
        let report = |tests: &[(&str, TestOutcome)]| Report {
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
            (&[(canary, Failed), ("other", Passed)], &[add], "was not run, although"),
            (&[(canary, Failed), (add, Skipped), (add, Passed)], &[add], "was not run, although"),
        ] {
            let before: Vec<_> = before.iter().map(|name| (*name, Passed)).collect();
            let doubt = doubt(&canaries, Some(&report(tests)), &report(&before), &unchanged);
            assert_eq!(doubt.is_none(), why.is_empty(), "{doubt:?}");
            assert!(doubt.unwrap_or_default().contains(why), "{why}");
        }
        let missing = doubt(&canaries, None, &report(&[]), &unchanged);
        assert!(missing.unwrap().contains("no complete report"));
    }
}

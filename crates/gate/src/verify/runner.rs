//! Known test runners: how to recognise each and make it report every test.

use crate::pattern::among;

/// A test runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestRunner {
    Pytest,
    Unittest,
    Node,
    Jest,
    Vitest,
    Cargo,
    Go,
}

/// Additions to a command that make it write a report.
pub(super) struct ReportArguments {
    /// Variable assignments, each followed by a space.
    pub environment: String,
    /// Insert `words` after this word; `None` appends them.
    pub after: Option<&'static str>,
    pub words: Vec<String>,
    /// File to redirect the output to.
    pub into: Option<String>,
}

/// Keeps npm from contacting a registry.
const OFFLINE: &str = "npm_config_offline=true ";

/// File name of the report.
pub(super) const REPORT: &str = "report";

/// Options of `cargo test` that take their value from the next word.
const CARGO_VALUES: &str = "-p --package --exclude --features -F --test --bin --example --bench \
    --target --target-dir --manifest-path --profile -j --jobs --config --color -Z";

/// Options of Rust test executables that do not select tests.
const RUST_OPTIONS: [&str; 4] =
    ["--include-ignored", "--show-output", "--nocapture", "--no-capture"];

impl TestRunner {
    /// The runner that a command starts, if it runs whole test files.
    pub(super) fn of(words: &[String]) -> Option<TestRunner> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (first, rest) = words.split_first()?;
        let program = first.rsplit('/').next().unwrap_or_default();
        let module = rest.iter().position(|word| *word == "-m");
        let module = module.and_then(|at| Some((*rest.get(at + 1)?, &rest[at + 2..])));
        let script = rest.iter().position(|word| !word.starts_with('-'));
        let (runner, arguments) = match program {
            "pytest" | "py.test" => (TestRunner::Pytest, rest),
            _ if program == "python" || program.starts_with("python3") => match module? {
                ("pytest", arguments) => (TestRunner::Pytest, arguments),
                ("unittest", arguments) => (TestRunner::Unittest, arguments),
                _ => return None,
            },
            "node" if rest.contains(&"--test") => (TestRunner::Node, rest),
            "node" => match rest[script?].rsplit('/').next()? {
                "jest.js" | "jest" => (TestRunner::Jest, &rest[script? + 1..]),
                "vitest.mjs" | "vitest" => (TestRunner::Vitest, &rest[script? + 1..]),
                _ => return None,
            },
            "jest" => (TestRunner::Jest, rest),
            "vitest" => (TestRunner::Vitest, rest),
            "cargo" if matches!(rest.first(), Some(&("test" | "t"))) => {
                (TestRunner::Cargo, &rest[1..])
            }
            "go" if rest.first() == Some(&"test") => (TestRunner::Go, &rest[1..]),
            _ => return None,
        };
        let whole = match runner {
            TestRunner::Cargo => cargo_runs_all(arguments),
            _ => !arguments.contains(&"--"),
        };
        let is_unsupported = |word: &&str| {
            let name = word.split('=').next().unwrap_or_default();
            among(name, runner.unsupported()) || word.contains("::") || runner.selects(word)
        };
        (whole && !arguments.iter().any(is_unsupported)).then_some(runner)
    }

    /// Whether an argument selects tests by name.
    fn selects(self, word: &str) -> bool {
        match self {
            TestRunner::Pytest => word.starts_with("-k"),
            // A class or a method of a module.
            TestRunner::Unittest => {
                let of_class = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
                word.starts_with("-k") || !word.contains('/') && word.split('.').any(of_class)
            }
            _ => false,
        }
    }

    /// Arguments with which a canary test would not run or there would be no report.
    fn unsupported(self) -> &'static str {
        match self {
            TestRunner::Pytest => "-m --lf --last-failed --ff --sw --stepwise --co --collect-only",
            TestRunner::Unittest => "",
            TestRunner::Node => {
                "--test-name-pattern --test-only --test-skip-pattern --test-reporter \
                --test-reporter-destination --watch"
            }
            TestRunner::Jest => {
                "-t --testNamePattern -o --onlyChanged --changedSince --findRelatedTests --shard \
                --watch --watchAll --listTests --json --outputFile"
            }
            TestRunner::Vitest => {
                "-t --testNamePattern --changed --shard --outputFile --watch -w watch dev \
                related bench list init"
            }
            TestRunner::Cargo => "--no-run --doc --message-format",
            TestRunner::Go => "-run -skip -list -c -fuzz -exec",
        }
    }

    /// Whether to drop an argument for the report: it stops at the first failure or hides tests.
    pub(super) fn drops(self, word: &str) -> bool {
        let name = word.split('=').next().unwrap_or_default();
        match self {
            TestRunner::Jest => ["-b", "--bail"].contains(&name),
            TestRunner::Vitest => name == "--bail",
            TestRunner::Cargo => among(
                name,
                "-q --quiet -v -vv --verbose --color --nocapture --no-capture --no-fail-fast",
            ),
            TestRunner::Go => ["-json", "-failfast"].contains(&name),
            TestRunner::Pytest | TestRunner::Unittest | TestRunner::Node => false,
        }
    }

    /// Additions for a report. `folder` contains the report and its helper.
    pub(super) fn report(self, folder: &str) -> ReportArguments {
        let report = format!("{folder}/{REPORT}");
        let asking = |after: Option<&'static str>, words: &[&str]| ReportArguments {
            environment: String::new(),
            after,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            into: None,
        };
        let file = format!("--outputFile={report}");
        match self {
            TestRunner::Pytest => ReportArguments {
                // An empty component would mean the current folder.
                environment: format!(
                    "ASSIZE_REPORT={report} PYTHONPATH={folder}${{PYTHONPATH:+:$PYTHONPATH}} "
                ),
                ..asking(None, &["-p", "assize_pytest_report", "--maxfail=0"])
            },
            TestRunner::Unittest => {
                asking(Some("unittest"), &[&format!("{folder}/unittest_report.py"), &report])
            }
            TestRunner::Node => asking(
                Some("--test"),
                &[
                    "--test-reporter=spec",
                    "--test-reporter-destination=stdout",
                    &format!("--test-reporter={folder}/node_report.mjs"),
                    &format!("--test-reporter-destination={report}"),
                ],
            ),
            // Without a network, npx would try for a minute to download a missing runner.
            TestRunner::Jest => ReportArguments {
                environment: OFFLINE.to_owned(),
                ..asking(None, &["--bail=0", "--json", &file])
            },
            TestRunner::Vitest => {
                let words = ["--run", "--bail=0", "--reporter=default", "--reporter=json", &file];
                ReportArguments { environment: OFFLINE.to_owned(), ..asking(None, &words) }
            }
            TestRunner::Cargo => {
                let format = "--message-format=json-render-diagnostics";
                asking(Some("test"), &["--no-fail-fast", "--color=never", format])
            }
            // The report may exceed the limit on printed output.
            TestRunner::Go => {
                ReportArguments { into: Some(report), ..asking(Some("test"), &["-json"]) }
            }
        }
    }

    /// Name and content of the helper file that the report needs.
    pub(super) fn helper(self) -> Option<(&'static str, &'static str)> {
        match self {
            TestRunner::Pytest => Some((
                "assize_pytest_report.py",
                include_str!("../../data/reporters/assize_pytest_report.py"),
            )),
            TestRunner::Unittest => Some((
                "unittest_report.py",
                include_str!("../../data/reporters/unittest_report.py"),
            )),
            TestRunner::Node => {
                Some(("node_report.mjs", include_str!("../../data/reporters/node_report.mjs")))
            }
            TestRunner::Jest | TestRunner::Vitest | TestRunner::Cargo | TestRunner::Go => None,
        }
    }
}

/// Whether `cargo test` arguments select no tests: any word that is not an option selects by name.
fn cargo_runs_all(arguments: &[&str]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if *word == "--" {
            return words
                .all(|word| RUST_OPTIONS.contains(word) || word.starts_with("--test-threads="));
        }
        if among(word, CARGO_VALUES) {
            words.next();
        } else if !word.starts_with('-') {
            return false;
        }
    }
    true
}

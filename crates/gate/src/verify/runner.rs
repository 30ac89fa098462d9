//! Known test runners: how to recognise the command of each runner, and how to make it report every test.

use crate::pattern::among;

/// A known test runner.
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

/// Additions to a test command that make the runner write a report of all tests.
pub(super) struct ReportArguments {
    /// Variable assignments to put before the command, each followed by a space.
    pub environment: String,
    /// Word of the command after which the additional words are inserted; `None` to append them.
    pub after: Option<&'static str>,
    /// Additional words of the test command.
    pub words: Vec<String>,
    /// File to redirect the output of the command to.
    pub redirect_to: Option<String>,
}

/// Variable assignment that prevents npm from contacting a package registry.
const OFFLINE: &str = "npm_config_offline=true ";

/// File name of the test report.
pub(super) const REPORT: &str = "report";

/// Options of `cargo test` whose value is the next word.
const CARGO_VALUES: &str = "-p --package --exclude --features -F --test --bin --example --bench \
    --target --target-dir --manifest-path --profile -j --jobs --config --color -Z";

/// Options of Rust test executables that do not select tests by name.
const RUST_OPTIONS: [&str; 4] =
    ["--include-ignored", "--show-output", "--nocapture", "--no-capture"];

impl TestRunner {
    /// Returns the test runner that a command starts; `None` if the command starts no known runner, or does not run
    /// whole test files.
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

    /// Whether an argument of the runner selects tests by name.
    fn selects(self, word: &str) -> bool {
        match self {
            TestRunner::Pytest => word.starts_with("-k"),
            // A name like `tests.test_calc.CalcTest` selects a class or a method of a module.
            TestRunner::Unittest => {
                let of_class = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
                word.starts_with("-k") || !word.contains('/') && word.split('.').any(of_class)
            }
            _ => false,
        }
    }

    /// Arguments of the runner that are not supported: with them, canary tests would not run, or there would be no
    /// report.
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

    /// Whether an argument must be removed from the command to get a full report, because it stops the run at the first
    /// failure or changes the format of the output.
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

    /// Returns the additions to a command that make the runner write a report. `folder` is the folder in the sandbox
    /// for the report and the helper file.
    pub(super) fn report(self, folder: &str) -> ReportArguments {
        let report = format!("{folder}/{REPORT}");
        let asking = |after: Option<&'static str>, words: &[&str]| ReportArguments {
            environment: String::new(),
            after,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            redirect_to: None,
        };
        let file = format!("--outputFile={report}");
        match self {
            TestRunner::Pytest => ReportArguments {
                // If `PYTHONPATH` is empty, no colon is added: an empty component would mean the current folder.
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
            // Without `OFFLINE`, npx would try for a minute to download a missing runner, although there is no network.
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
            // The output is redirected to a file, because the report may exceed the output limit.
            TestRunner::Go => {
                ReportArguments { redirect_to: Some(report), ..asking(Some("test"), &["-json"]) }
            }
        }
    }

    /// Name and content of the helper file that writes the report; `None` if the runner can write a report itself.
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

/// Whether the arguments of `cargo test` select no tests by name. A word that is not an option selects tests.
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

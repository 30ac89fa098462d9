//! Test runners that the gate knows: how each is started, and asked for a report of every test.

use crate::pattern::among;

/// A test runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    Pytest,
    Unittest,
    Node,
    Jest,
    Vitest,
    Cargo,
    Go,
}

/// What a command needs to be given for a report.
pub(super) struct Asking {
    /// Assignments, each with a space after it.
    pub environment: String,
    /// The words are put after this one, or at the end.
    pub after: Option<&'static str>,
    pub words: Vec<String>,
    /// The file that gets what the command prints.
    pub into: Option<String>,
}

/// Keeps npm from asking a registry.
const OFFLINE: &str = "npm_config_offline=true ";

/// The name of the report in its folder.
pub(super) const REPORT: &str = "report";

/// Options of `cargo test` with a value in the next word.
const CARGO_VALUES: &str = "-p --package --exclude --features -F --test --bin --example --bench \
    --target --target-dir --manifest-path --profile -j --jobs --config --color -Z";

/// Options of Rust's test programs that select no tests.
const RUST_OPTIONS: [&str; 4] =
    ["--include-ignored", "--show-output", "--nocapture", "--no-capture"];

impl Runner {
    /// The runner that a command starts, if it runs whole files of tests.
    pub(super) fn of(words: &[String]) -> Option<Runner> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (first, rest) = words.split_first()?;
        let program = first.rsplit('/').next().unwrap_or_default();
        let module = rest.iter().position(|word| *word == "-m");
        let module = module.and_then(|at| Some((*rest.get(at + 1)?, &rest[at + 2..])));
        let script = rest.iter().position(|word| !word.starts_with('-'));
        let (runner, arguments) = match program {
            "pytest" | "py.test" => (Runner::Pytest, rest),
            _ if program == "python" || program.starts_with("python3") => match module? {
                ("pytest", arguments) => (Runner::Pytest, arguments),
                ("unittest", arguments) => (Runner::Unittest, arguments),
                _ => return None,
            },
            "node" if rest.contains(&"--test") => (Runner::Node, rest),
            "node" => match rest[script?].rsplit('/').next()? {
                "jest.js" | "jest" => (Runner::Jest, &rest[script? + 1..]),
                "vitest.mjs" | "vitest" => (Runner::Vitest, &rest[script? + 1..]),
                _ => return None,
            },
            "jest" => (Runner::Jest, rest),
            "vitest" => (Runner::Vitest, rest),
            "cargo" if matches!(rest.first(), Some(&("test" | "t"))) => (Runner::Cargo, &rest[1..]),
            "go" if rest.first() == Some(&"test") => (Runner::Go, &rest[1..]),
            _ => return None,
        };
        let whole = match runner {
            Runner::Cargo => runs_all_of_cargo(arguments),
            _ => !arguments.contains(&"--"),
        };
        let is_refused = |word: &&str| {
            let name = word.split('=').next().unwrap_or_default();
            among(name, runner.refused()) || word.contains("::") || runner.selects(word)
        };
        (whole && !arguments.iter().any(is_refused)).then_some(runner)
    }

    /// Whether an argument names a test or a part of its name.
    fn selects(self, word: &str) -> bool {
        match self {
            Runner::Pytest => word.starts_with("-k"),
            // A class or a method of a module.
            Runner::Unittest => {
                let of_class = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
                word.starts_with("-k") || !word.contains('/') && word.split('.').any(of_class)
            }
            _ => false,
        }
    }

    /// Arguments under which a canary test would not run, or the report could not be had.
    fn refused(self) -> &'static str {
        match self {
            Runner::Pytest => "-m --lf --last-failed --ff --sw --stepwise --co --collect-only",
            Runner::Unittest => "",
            Runner::Node => {
                "--test-name-pattern --test-only --test-skip-pattern --test-reporter \
                --test-reporter-destination --watch"
            }
            Runner::Jest => {
                "-t --testNamePattern -o --onlyChanged --changedSince --findRelatedTests --shard \
                --watch --watchAll --listTests --json --outputFile"
            }
            Runner::Vitest => {
                "-t --testNamePattern --changed --shard --outputFile --watch -w watch dev \
                related bench list init"
            }
            Runner::Cargo => "--no-run --doc --message-format",
            Runner::Go => "-run -skip -list -c -fuzz -exec",
        }
    }

    /// Whether an argument is left out of a command with a report: it ends the tests at the first failure, or hides them.
    pub(super) fn drops(self, word: &str) -> bool {
        let name = word.split('=').next().unwrap_or_default();
        match self {
            Runner::Jest => ["-b", "--bail"].contains(&name),
            Runner::Vitest => name == "--bail",
            Runner::Cargo => among(
                name,
                "-q --quiet -v -vv --verbose --color --nocapture --no-capture --no-fail-fast",
            ),
            Runner::Go => ["-json", "-failfast"].contains(&name),
            Runner::Pytest | Runner::Unittest | Runner::Node => false,
        }
    }

    /// What asks for a report. `folder` is where it and its helper are.
    pub(super) fn report(self, folder: &str) -> Asking {
        let report = format!("{folder}/{REPORT}");
        let asking = |after: Option<&'static str>, words: &[&str]| Asking {
            environment: String::new(),
            after,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            into: None,
        };
        let file = format!("--outputFile={report}");
        match self {
            Runner::Pytest => Asking {
                // An empty part would be the current folder.
                environment: format!(
                    "ASSIZE_REPORT={report} PYTHONPATH={folder}${{PYTHONPATH:+:$PYTHONPATH}} "
                ),
                ..asking(None, &["-p", "assize_pytest_report", "--maxfail=0"])
            },
            Runner::Unittest => {
                asking(Some("unittest"), &[&format!("{folder}/unittest_report.py"), &report])
            }
            Runner::Node => asking(
                Some("--test"),
                &[
                    "--test-reporter=spec",
                    "--test-reporter-destination=stdout",
                    &format!("--test-reporter={folder}/node_report.mjs"),
                    &format!("--test-reporter-destination={report}"),
                ],
            ),
            // Without a network npx would try for a minute to get a missing runner.
            Runner::Jest => Asking {
                environment: OFFLINE.to_owned(),
                ..asking(None, &["--bail=0", "--json", &file])
            },
            Runner::Vitest => {
                let words = ["--run", "--bail=0", "--reporter=default", "--reporter=json", &file];
                Asking { environment: OFFLINE.to_owned(), ..asking(None, &words) }
            }
            Runner::Cargo => {
                let format = "--message-format=json-render-diagnostics";
                asking(Some("test"), &["--no-fail-fast", "--color=never", format])
            }
            // More than may be printed.
            Runner::Go => Asking { into: Some(report), ..asking(Some("test"), &["-json"]) },
        }
    }

    /// The file that the report needs in its folder.
    pub(super) fn helper(self) -> Option<(&'static str, &'static str)> {
        match self {
            Runner::Pytest => Some((
                "assize_pytest_report.py",
                include_str!("../../data/reporters/assize_pytest_report.py"),
            )),
            Runner::Unittest => Some((
                "unittest_report.py",
                include_str!("../../data/reporters/unittest_report.py"),
            )),
            Runner::Node => {
                Some(("node_report.mjs", include_str!("../../data/reporters/node_report.mjs")))
            }
            Runner::Jest | Runner::Vitest | Runner::Cargo | Runner::Go => None,
        }
    }
}

/// Whether `cargo test` with these arguments names no test: any word that is no option selects tests by their names.
fn runs_all_of_cargo(arguments: &[&str]) -> bool {
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

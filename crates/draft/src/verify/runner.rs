//! Test runners that the gate knows: how each is asked for a report of every test.

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

impl Runner {
    /// Options that choose tests by name or mark, under which a canary test would not run.
    fn selecting(self) -> &'static [&'static str] {
        match self {
            Runner::Pytest => {
                &["-k", "-m", "--lf", "--last-failed", "--ff", "--co", "--collect-only"]
            }
            Runner::Unittest => &["-k"],
            Runner::Node => &["--test-name-pattern", "--test-only", "--test-skip-pattern"],
            Runner::Jest | Runner::Vitest => &["-t", "--testNamePattern", "--onlyChanged", "-o"],
            Runner::Cargo => &["--exact", "--no-run", "--doc"],
            Runner::Go => &["-run", "-skip", "-list"],
        }
    }

    /// The file of the workspace that a report means. Runners name it by its full path in the sandbox, by its path below a
    /// package (Cargo), or by its package (Go); what several files could be is none.
    pub(crate) fn file_of(self, named: &str, files: &[String]) -> Option<String> {
        let exact = |path: &str| files.iter().find(|file| *file == path).cloned();
        let only = |fits: &dyn Fn(&str) -> bool| {
            let mut fitting = files.iter().filter(|file| fits(file));
            fitting.next().filter(|_| fitting.next().is_none()).cloned()
        };
        match self {
            Runner::Cargo => only(&|file| file == named || file.ends_with(&format!("/{named}"))),
            Runner::Go => {
                let tests = |file: &&String| file.ends_with("_test.go");
                let folder =
                    |file: &str| file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
                let fits = |file: &&String| {
                    let folder = folder(file);
                    !folder.is_empty() && named.ends_with(&format!("/{folder}"))
                };
                let deepest =
                    files.iter().filter(tests).filter(fits).max_by_key(|file| folder(file).len());
                deepest
                    .or_else(|| files.iter().filter(tests).find(|file| !file.contains('/')))
                    .cloned()
            }
            _ => exact(named.strip_prefix(WORKSPACE)?),
        }
    }
}

/// Where the copy of the workspace is in the sandbox.
const WORKSPACE: &str = "/tmp/workspace/";

/// A verification command that starts a known test runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestCommand {
    pub runner: Runner,
    command: String,
}

impl TestCommand {
    /// Recognises a command. It must be a single one, perhaps after `cd FOLDER &&`, and run whole files of tests.
    pub(crate) fn recognise(command: &str) -> Option<TestCommand> {
        let command = command.trim();
        let main = match command.split_once("&&") {
            Some((first, rest)) if first.trim_start().starts_with("cd ") => rest,
            Some(_) => return None,
            None => command,
        };
        let whole = command.replacen("&&", "", 1);
        if whole.contains(|c: char| ";|&<>`$(){}#\n\\'\"".contains(c)) {
            return None;
        }
        let words: Vec<&str> = main.split_whitespace().collect();
        let assignment = |word: &&str| word.contains('=') && !word.starts_with('-');
        let start = words.iter().position(|word| !assignment(word))?;
        let words = &words[start..];
        let program = words[0].rsplit('/').next().unwrap_or_default();
        let python = program == "python" || program.starts_with("python3");
        let runner = match (program, words.get(1..).unwrap_or_default()) {
            ("pytest" | "py.test", _) => Runner::Pytest,
            (_, ["-m", "pytest", ..]) if python => Runner::Pytest,
            (_, ["-m", "unittest", ..]) if python => Runner::Unittest,
            ("node", ["--test", ..]) => Runner::Node,
            ("jest", _) | ("npx", ["jest", ..]) => Runner::Jest,
            ("vitest", ["run", ..]) | ("npx", ["vitest", "run", ..]) => Runner::Vitest,
            ("cargo", ["test" | "t", rest @ ..]) if !rest.contains(&"--") => Runner::Cargo,
            ("go", ["test", ..]) => Runner::Go,
            _ => return None,
        };
        let selecting = runner.selecting();
        let selects = |word: &&str| {
            let name = word.split('=').next().unwrap_or_default();
            selecting.contains(&name) || word.contains("::")
        };
        // After `-m RUNNER`.
        let first = if python { 3 } else { 1 };
        if words.iter().skip(first).any(selects) {
            return None;
        }
        Some(TestCommand { runner, command: command.to_owned() })
    }

    /// The command with a report of all its tests. `folder` is where the report and its helper are.
    pub(crate) fn with_report(&self, folder: &str) -> String {
        let report = format!("{folder}/{REPORT}");
        let (before, main) = match self.command.split_once("&&") {
            Some((first, rest)) => (format!("{first}&& "), rest.trim_start()),
            None => (String::new(), &*self.command),
        };
        let main = match self.runner {
            Runner::Pytest => format!(
                "ASSIZE_REPORT={report} PYTHONPATH={folder}:$PYTHONPATH {main} -p assize_pytest_report --maxfail=0"
            ),
            Runner::Unittest => {
                main.replacen("-m unittest", &format!("{folder}/unittest_report.py {report}"), 1)
            }
            Runner::Node => main.replacen(
                "--test",
                &format!(
                    "--test --test-reporter=spec --test-reporter-destination=stdout \
                     --test-reporter={folder}/node_report.mjs --test-reporter-destination={report}"
                ),
                1,
            ),
            Runner::Jest => format!("{main} --bail=0 --json --outputFile={report}"),
            Runner::Vitest => {
                format!("{main} --bail=0 --reporter=default --reporter=json --outputFile={report}")
            }
            Runner::Cargo => format!("{main} --no-fail-fast"),
            Runner::Go => main.replacen("go test", "go test -json", 1),
        };
        format!("{before}{main}")
    }

    /// The files that the report needs in its folder.
    pub(crate) fn helper(&self) -> Option<(&'static str, &'static str)> {
        match self.runner {
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

    /// Whether the report is what the command prints, not a file.
    pub(crate) fn prints_report(&self) -> bool {
        matches!(self.runner, Runner::Cargo | Runner::Go)
    }
}

/// The name of the report in its folder.
pub(crate) const REPORT: &str = "report";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_runners_are_recognised() {
        for (command, runner) in [
            ("pytest", Runner::Pytest),
            ("pytest -q tests/unit", Runner::Pytest),
            ("python3 -m pytest -x", Runner::Pytest),
            ("cd app && .venv/bin/pytest", Runner::Pytest),
            ("DEBUG=1 python -m unittest", Runner::Unittest),
            ("python3.11 -m unittest discover -s tests -t .", Runner::Unittest),
            ("node --test", Runner::Node),
            ("node --test tests/*.test.js", Runner::Node),
            ("npx jest --ci", Runner::Jest),
            ("npx vitest run", Runner::Vitest),
            ("cargo test --workspace", Runner::Cargo),
            ("go test ./...", Runner::Go),
        ] {
            let found = TestCommand::recognise(command).map(|command| command.runner);
            assert_eq!(found, Some(runner), "{command}");
        }
        for command in [
            "",
            "make test",
            "npm test",
            "pytest; true",
            "pytest || true",
            "pytest > log",
            "pytest -k add",
            "pytest tests/test_a.py::test_b",
            "python3 -m pytest -m slow",
            "python3 test.py",
            "vitest",
            "cargo test -- --nocapture",
            "go test -run X ./...",
            "true && pytest",
            "sh -c 'pytest'",
        ] {
            assert_eq!(TestCommand::recognise(command), None, "{command}");
        }
    }

    #[test]
    fn report_is_asked_for_and_the_rest_of_the_command_stays() {
        let with_report =
            |command: &str| TestCommand::recognise(command).unwrap().with_report("/tmp/r");
        assert_eq!(
            with_report("cd app && A=1 python3 -m unittest discover -s t"),
            "cd app && A=1 python3 /tmp/r/unittest_report.py /tmp/r/report discover -s t"
        );
        assert_eq!(
            with_report("pytest -q"),
            "ASSIZE_REPORT=/tmp/r/report PYTHONPATH=/tmp/r:$PYTHONPATH pytest -q -p assize_pytest_report --maxfail=0"
        );
        assert_eq!(with_report("go test ./..."), "go test -json ./...");
    }
}

//! Recognises verification commands that start a known test runner.

use serde_json::Value;

use super::runner::TestRunner;

/// A verification command that starts a known test runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestCommand {
    pub runner: TestRunner,
    /// Text before the command: `cd FOLDER && ` and variable assignments.
    before: String,
    /// Words of the command and its arguments.
    words: Vec<String>,
    /// Index of the word that names the test runner. The words before it are a launcher, such as `npx` or `uv run`.
    runner_index: usize,
}

/// Launchers: commands that start other programs in the environment of a project.
const LAUNCHERS: [&[&str]; 10] = [
    &["npx", "--no-install"],
    &["npx", "--no"],
    &["npx"],
    &["yarn"],
    &["pnpm", "exec"],
    &["pnpm"],
    &["uv", "run"],
    &["poetry", "run"],
    &["pipenv", "run"],
    &["pdm", "run"],
];

/// Programs that need the folder `node_modules` of the workspace.
const NODE_PROGRAMS: [&str; 9] =
    ["node", "npm", "npx", "yarn", "pnpm", "jest", "vitest", "tsx", "corepack"];

/// Whether a command runs a program that needs Node.js packages.
pub(super) fn needs_node_packages(command: &str) -> bool {
    command.split(|c: char| c.is_whitespace() || ";&|()".contains(c)).any(|word| {
        let program = word.rsplit('/').next().unwrap_or_default();
        NODE_PROGRAMS.contains(&program)
    })
}

impl TestCommand {
    /// Recognises a command that starts a known test runner; `None` for other commands. The command must be a single
    /// command, optionally after `cd FOLDER &&`, and must run whole test files. If the command runs a script of
    /// `package.json`, the script is recognised instead. `file` reads a file of the workspace.
    pub(crate) fn recognise(
        command: &str,
        file: &dyn Fn(&str) -> Option<String>,
    ) -> Option<TestCommand> {
        let (folder, main) = match command.split_once("&&") {
            Some((first, rest)) => (Some(first.trim().strip_prefix("cd ")?.trim()), rest),
            None => (None, command),
        };
        let mut found = TestCommand::single(main).or_else(|| {
            let package = folder.map_or("package.json".to_owned(), |f| format!("{f}/package.json"));
            TestCommand::of_script(main, &file(&package)?)
        })?;
        if let Some(folder) = folder {
            if folder.contains(is_shell_syntax) || folder.contains(char::is_whitespace) {
                return None;
            }
            found.before.insert_str(0, &format!("cd {folder} && "));
        }
        Some(found)
    }

    /// Recognises a test command without shell operators.
    fn single(command: &str) -> Option<TestCommand> {
        let (before, words) = split(command)?;
        let starts = |launcher: &&&[&str]| {
            words.iter().map(String::as_str).take(launcher.len()).eq(launcher.iter().copied())
        };
        let at = LAUNCHERS.iter().find(starts).map_or(0, |launcher| launcher.len());
        let runner = TestRunner::of(&words[at..])?;
        Some(TestCommand { runner, before, words, runner_index: at })
    }

    /// Recognises `npm test` and similar commands by the script that they run. If the test runner accepts the report
    /// arguments at the end of its command, the returned command runs `npm`, which passes these arguments to the test
    /// runner. If the test runner needs the arguments at a different position, the returned command runs the test
    /// runner without `npm`. In this case, returns `None` if `npm` would also run a `pre` or `post` script.
    fn of_script(command: &str, package: &str) -> Option<TestCommand> {
        let (before, mut all) = split(command)?;
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        let (name, rest) = match &words[..] {
            ["npm", "run" | "run-script", name, rest @ ..]
            | ["yarn" | "pnpm", "run", name, rest @ ..]
            | ["yarn" | "pnpm", name, rest @ ..] => (*name, rest),
            ["npm", "test" | "t" | "tst", rest @ ..] => ("test", rest),
            _ => return None,
        };
        let arguments = match rest {
            ["--", arguments @ ..] => arguments,
            [] => &[],
            arguments if words[0] != "npm" => arguments,
            _ => return None,
        };
        let package: Value = serde_json::from_str(package).ok()?;
        let scripts = package.get("scripts")?;
        let script = [&[scripts.get(name)?.as_str()?], arguments].concat().join(" ");
        let mut found = TestCommand::single(&script)?;
        let around = ["pre", "post"].map(|when| scripts.get(format!("{when}{name}")));
        if found.runner.report("").after.is_none() {
            if found.words.iter().any(|word| found.runner.drops(word)) {
                return None;
            }
            if words[0] == "npm" && rest.is_empty() {
                all.push("--".to_owned());
            }
            let at = all.len() - 1;
            return Some(TestCommand { before, words: all, runner_index: at, ..found });
        }
        if around.iter().any(Option::is_some) {
            return None;
        }
        // Set the variables that npm sets for scripts, but only if their values need no shell quoting.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "@/._+-".contains(c);
        let mut environment = format!("npm_lifecycle_event={name} ");
        for key in ["name", "version"] {
            let value = package.get(key).and_then(Value::as_str);
            if let Some(value) = value.filter(|value| value.chars().all(is_plain)) {
                environment.push_str(&format!("npm_package_{key}={value} "));
            }
        }
        let path = "PATH=\"$PWD/node_modules/.bin:$PATH\"";
        found.before = format!("{before}{environment}{path} {}", found.before);
        Some(found)
    }

    /// Returns the command with additional arguments, so that the test runner reports all tests. `folder` is the folder
    /// in the sandbox for the report and for the helper file that writes the report.
    pub(crate) fn with_report(&self, folder: &str) -> String {
        let mut words: Vec<String> = Vec::new();
        let mut dropped = false;
        for (at, word) in self.words.iter().enumerate() {
            let value =
                dropped && (word.parse::<u32>().is_ok() || word == "always" || word == "auto");
            dropped = at > self.runner_index && self.runner.drops(word);
            if !dropped && !value {
                words.push(word.clone());
            }
        }
        let more = self.runner.report(folder);
        let runner_word =
            |after| words.iter().skip(self.runner_index).position(|word| word == after);
        let at = more.after.and_then(runner_word);
        let at = at.map_or(words.len(), |at| self.runner_index + at + 1);
        // For unittest, the path of the helper file replaces the two words `-m unittest`.
        let replaced = if self.runner == TestRunner::Unittest { at - 2..at } else { at..at };
        words.splice(replaced, more.words);
        let into = more.redirect_to.map_or(String::new(), |file| format!(" > {file}"));
        format!("{}{}{}{into}", self.before, more.environment, words.join(" "))
    }
}

/// Whether a character has a special meaning for the shell.
fn is_shell_syntax(c: char) -> bool {
    ";|&<>`$(){}#\n\\'\"".contains(c)
}

/// Splits a command into variable assignments and words; `None` if the command uses other shell syntax.
fn split(command: &str) -> Option<(String, Vec<String>)> {
    if command.contains(is_shell_syntax) {
        return None;
    }
    let words: Vec<&str> = command.split_whitespace().collect();
    let assignment = |word: &&str| word.contains('=') && !word.starts_with('-');
    let start = words.iter().position(|word| !assignment(word))?;
    let before: String = words[..start].iter().map(|word| format!("{word} ")).collect();
    Some((before, words[start..].iter().map(|word| (*word).to_owned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: &str = r#"{"name": "$(rm)", "version": "1.0.0", "scripts": {
        "test": "NODE_ENV=test jest --ci", "unit": "vitest run", "all": "eslint . && jest",
        "e2e": "node --test e2e", "pree2e": "node build.js", "nodes": "node --test", "one": "jest --bail"}}"#;

    fn recognise(command: &str) -> Option<TestCommand> {
        TestCommand::recognise(command, &|path| {
            ["package.json", "web/package.json"].contains(&path).then(|| PACKAGE.to_owned())
        })
    }

    #[test]
    fn commands_of_known_test_runners_are_recognised_and_others_are_not() {
        for (command, runner) in [
            ("pytest", TestRunner::Pytest),
            ("pytest -q tests/unit", TestRunner::Pytest),
            ("python3 -m pytest -x", TestRunner::Pytest),
            ("python3 -W error -m pytest", TestRunner::Pytest),
            ("cd app && .venv/bin/pytest", TestRunner::Pytest),
            ("uv run pytest -q", TestRunner::Pytest),
            ("DEBUG=1 python -m unittest", TestRunner::Unittest),
            ("python3.11 -m unittest discover -s tests -t .", TestRunner::Unittest),
            ("node --test", TestRunner::Node),
            ("node --test tests/*.test.js", TestRunner::Node),
            ("node --test-concurrency=1 --test", TestRunner::Node),
            ("npx jest --ci", TestRunner::Jest),
            ("node_modules/.bin/jest", TestRunner::Jest),
            ("node --experimental-vm-modules node_modules/jest/bin/jest.js", TestRunner::Jest),
            ("npx vitest run", TestRunner::Vitest),
            ("vitest", TestRunner::Vitest),
            ("cargo test --workspace", TestRunner::Cargo),
            ("cargo test -q -p calc --test more -- --nocapture", TestRunner::Cargo),
            ("go test ./...", TestRunner::Go),
            ("npm test", TestRunner::Jest),
            ("cd web && npm test -- --coverage", TestRunner::Jest),
            ("npm run unit", TestRunner::Vitest),
            ("yarn unit", TestRunner::Vitest),
            ("pnpm test --ci", TestRunner::Jest),
        ] {
            let found = recognise(command).map(|command| command.runner);
            assert_eq!(found, Some(runner), "{command}");
        }
        for command in [
            "",
            "make test",
            "npm run all",
            "npm run e2e",
            "npm run one",
            "python3 -m unittest tests.test_calc.CalcTest",
            "pytest -kadd",
            "npm run missing",
            "cd elsewhere && npm test",
            "npm test -- -t adds",
            "pytest; true",
            "pytest || true",
            "pytest > log",
            "pytest -k add",
            "pytest tests/test_a.py::test_b",
            "python3 -m pytest -m slow",
            "python3 test.py",
            "vitest watch",
            "vitest --outputFile=x",
            "jest --json",
            "cargo test adds",
            "cargo test -- adds",
            "cargo test --features all adds",
            "go test -run X ./...",
            "true && pytest",
            "sh -c 'pytest'",
            "cd 'a b' && pytest",
        ] {
            assert_eq!(recognise(command), None, "{command}");
        }
    }

    #[test]
    fn test_command_with_report_gets_report_arguments_and_keeps_other_arguments() {
        let with_report = |command: &str| recognise(command).unwrap().with_report("/tmp/r");
        assert_eq!(
            with_report("cd app && A=1 python3 -B -m unittest discover -s t"),
            "cd app && A=1 python3 -B /tmp/r/unittest_report.py /tmp/r/report discover -s t"
        );
        assert_eq!(
            with_report("uv run pytest -q"),
            "ASSIZE_REPORT=/tmp/r/report PYTHONPATH=/tmp/r${PYTHONPATH:+:$PYTHONPATH} uv run pytest -q \
             -p assize_pytest_report --maxfail=0"
        );
        assert_eq!(with_report("go test -failfast ./..."), "go test -json ./... > /tmp/r/report");
        assert_eq!(
            with_report("cargo test -q --color always --lib -- --nocapture --test-threads=1"),
            "cargo test --no-fail-fast --color=never --message-format=json-render-diagnostics --lib -- --test-threads=1"
        );
        assert_eq!(
            with_report("cd web && npm test"),
            "cd web && npm_config_offline=true npm test -- --bail=0 --json --outputFile=/tmp/r/report"
        );
        assert_eq!(
            with_report("vitest run --bail 1"),
            "npm_config_offline=true vitest run --run --bail=0 --reporter=default --reporter=json \
             --outputFile=/tmp/r/report"
        );
        assert!(
            with_report("npm run nodes")
                .starts_with(
            "npm_lifecycle_event=nodes npm_package_version=1.0.0 PATH=\"$PWD/node_modules/.bin:$PATH\" node --test "
        )
        );
        assert!(
            with_report("node --test-concurrency=1 --test t")
                .starts_with("node --test-concurrency=1 --test --test-reporter=spec")
        );
    }

    #[test]
    fn commands_that_need_node_packages_are_recognised() {
        for command in ["npm ci && npm test", "cd web && npx jest", "A=1 node --test"] {
            assert!(needs_node_packages(command), "{command}");
        }
        for command in ["pytest", "cargo test -p node-tools", "go test ./node/..."] {
            assert!(!needs_node_packages(command), "{command}");
        }
    }
}

//! Uses a test harness to run a user's tests against a program. The harness is a script; each language has its own.
//!
//! The tests and the program run in the same process, so that tests can call the program's functions. Therefore exit
//! code 0 does not prove that the tests passed: a program can exit before the first test. So the harness writes a
//! report to a file with a random name in the sandbox after all tests have finished. The harness reads the tests and
//! the name of the report file from standard input before the program runs, so the program can change neither the tests
//! nor the name.

use std::collections::BTreeMap;

use assize_sandbox::{FinishedProgram, Language, ProgramCommand, Sandbox, SandboxError};
use serde_json::json;

use crate::execution::TestReport;

/// Maximum size of a test report in bytes.
const MAX_REPORT: u64 = 1 << 20;

/// Returns the source code of the test harness for a language, and its path in the sandbox.
fn harness(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::Python => (include_str!("python.py"), "/tmp/harness.py"),
        Language::JavaScript => (include_str!("javascript.js"), "/tmp/harness.js"),
        Language::Bash => (include_str!("bash.sh"), "/tmp/harness.sh"),
    }
}

/// Whether the source code of tests imports pytest, which must then be installed in the sandbox.
pub(crate) fn imports_pytest(tests: &str) -> bool {
    let imports = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next();
        let module = words.next().unwrap_or_default();
        matches!(first, Some("import" | "from"))
            && module.split(['.', ',']).next() == Some("pytest")
    };
    tests.lines().any(imports)
}

/// Runs tests against a program in a sandbox. The report is `None` if the tests did not finish.
pub(crate) async fn run(
    sandbox: &Sandbox,
    language: Language,
    code: &str,
    tests: &str,
    env: BTreeMap<String, String>,
) -> Result<(FinishedProgram, Option<TestReport>), SandboxError> {
    let (harness, place) = harness(language);
    for (path, text) in [(language.code_path(), code), (place, harness)] {
        sandbox.write(path, text.as_bytes()).await?;
    }
    let record = format!("{:032x}{:032x}", fastrand::u128(..), fastrand::u128(..));
    let mut command = ProgramCommand::script(language, place).stdin(true);
    command.env = env;
    let running = sandbox.exec(command).await?;
    let stdin = running.stdin();
    let todo = match language {
        Language::Bash => format!("{record}\n{tests}"),
        _ => json!({"record": record, "tests": tests}).to_string(),
    };
    // The result is ignored: it is `false` if the harness process has already ended.
    stdin.write(todo.as_bytes()).await?;
    stdin.close();
    let finished = running.finish().await?;
    let report = match sandbox.read(&format!("/tmp/{record}"), MAX_REPORT).await {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(error) if error.cause().is_some() => None,
        Err(error) => return Err(error),
    };
    Ok((finished, report))
}

//! How a user's tests are run against a program.
//!
//! Tests and program share a process, so that a test can call a function. That the process ends well
//! says little then: a program can end it before the first test. So the harness leaves a record in the
//! sandbox once the tests are through, under a name that nobody knew before. The tests and that name come
//! on standard input, which is read before anything of the program runs: there is no file to change.

use std::collections::BTreeMap;

use assize_sandbox::{Command, Finished, Language, Sandbox, SandboxError};
use serde_json::json;

use crate::execution::TestReport;

/// The largest record.
const LARGEST: u64 = 1 << 20;

/// The harness of a language, and where it is put.
fn harness(language: Language) -> (&'static str, &'static str) {
    match language {
        Language::Python => (include_str!("python.py"), "/tmp/harness.py"),
        Language::JavaScript => (include_str!("javascript.js"), "/tmp/harness.js"),
        Language::Bash => (include_str!("bash.sh"), "/tmp/harness.sh"),
    }
}

/// Whether tests are written for pytest, which must be there then.
pub(crate) fn wants_pytest(tests: &str) -> bool {
    let imports = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next();
        let module = words.next().unwrap_or_default();
        matches!(first, Some("import" | "from"))
            && module.split(['.', ',']).next() == Some("pytest")
    };
    tests.lines().any(imports)
}

/// Runs tests against code. The report is `None` if they never came to their end.
pub(crate) async fn run(
    sandbox: &Sandbox,
    language: Language,
    code: &str,
    tests: &str,
    env: BTreeMap<String, String>,
) -> Result<(Finished, Option<TestReport>), SandboxError> {
    let (harness, place) = harness(language);
    for (path, text) in [(language.code_path(), code), (place, harness)] {
        sandbox.write(path, text.as_bytes()).await?;
    }
    let record = format!("{:032x}{:032x}", fastrand::u128(..), fastrand::u128(..));
    let mut command = Command::script(language, place).stdin(true);
    command.env = env;
    let running = sandbox.exec(command).await?;
    let stdin = running.stdin();
    let todo = match language {
        Language::Bash => format!("{record}\n{tests}"),
        _ => json!({"record": record, "tests": tests}).to_string(),
    };
    // It may be over already.
    stdin.write(todo.as_bytes()).await?;
    stdin.close();
    let finished = running.finish().await?;
    let report = match sandbox.read(&format!("/tmp/{record}"), LARGEST).await {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(error) if error.cause().is_some() => None,
        Err(error) => return Err(error),
    };
    Ok((finished, report))
}

//! How a user's tests are run against a program.
//!
//! Tests and program share a process, so that a test can call a function. That the process ends well
//! says little then: a program can end it before the first test. So the harness leaves a record in the
//! sandbox once the tests are through, under a name that nobody knew before.

use std::collections::BTreeMap;

use assize_sandbox::{Command, Finished, Language, Sandbox, SandboxError};

use crate::execution::TestReport;

/// The largest record.
const LARGEST: u64 = 1 << 20;

struct Harness {
    text: &'static str,
    path: &'static str,
    tests: &'static str,
}

fn of(language: Language) -> Harness {
    match language {
        Language::Python => Harness {
            text: include_str!("python.py"),
            path: "/tmp/harness.py",
            tests: "/tmp/tests.py",
        },
        Language::JavaScript => Harness {
            text: include_str!("javascript.js"),
            path: "/tmp/harness.js",
            tests: "/tmp/tests.js",
        },
        Language::Bash => Harness {
            text: include_str!("bash.sh"),
            path: "/tmp/harness.sh",
            tests: "/tmp/tests.sh",
        },
    }
}

/// Runs tests against code. The report is `None` if they never came to their end.
pub(crate) async fn run(
    sandbox: &Sandbox,
    language: Language,
    code: &str,
    tests: &str,
    env: BTreeMap<String, String>,
) -> Result<(Finished, Option<TestReport>), SandboxError> {
    let harness = of(language);
    for (path, text) in
        [(language.code_path(), code), (harness.tests, tests), (harness.path, harness.text)]
    {
        sandbox.write(path, text.as_bytes()).await?;
    }
    let record = format!("{:032x}{:032x}", fastrand::u128(..), fastrand::u128(..));
    let mut command = Command::script(language, harness.path).stdin(true);
    command.env = env;
    let running = sandbox.exec(command).await?;
    let stdin = running.stdin();
    // It may be over already.
    stdin.write(format!("{record}\n").as_bytes()).await?;
    stdin.close();
    let finished = running.finish().await?;
    let report = match sandbox.read(&format!("/tmp/{record}"), LARGEST).await {
        Ok(bytes) => serde_json::from_slice(&bytes).ok(),
        Err(error) if error.cause().is_some() => None,
        Err(error) => return Err(error),
    };
    Ok((finished, report))
}

//! Cases as changes to a project whose own tests run in a sandbox.

use std::time::Duration;

use assize_draft::{Answer, NewContent, Options, Proposal, Seen};
use assize_gate::{Job, NotVerified, Verify};

use super::plan::Planned;
use super::workers::Workspace;
use super::{CaseKind, GateError, GateOptions, Tried};

/// How long a verdict may take: the tests run three times in sandboxes.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The rule of the project's own tests.
const VERIFY: &str = "verify";

/// Proposes each change to a project with tests, and has the gate decide on it.
pub(super) async fn try_all(
    runner: &str,
    cases: &[Planned],
    options: &GateOptions,
    report: &mut impl FnMut(&str),
) -> Result<Tried, GateError> {
    let verifier = Some(options.verifier.clone());
    let policy = options.policy.clone();
    let how = Options { policy, verifier, patience: PATIENCE, ..Options::default() };
    let workspace = Workspace::new(how)?;
    let files = assize_gate::corpus::project(runner)?;
    for (path, text) in &files {
        workspace.write(path, text)?;
    }
    let contract = workspace.desk.contract()?;
    let Some(verify) = contract.and_then(|contract| contract.verify) else {
        return Ok(Tried::NotApplicable(format!("there is no project for `{runner}`")));
    };
    if let Err(NotVerified(why)) = is_there(&verify, &workspace, options).await {
        return Ok(Tried::NotApplicable(why));
    }
    let mut tried = Vec::with_capacity(cases.len());
    for (index, case) in cases.iter().enumerate() {
        report(&case.name);
        let contents = [NewContent { path: case.path, content: &case.text, seen: Seen::NotShown }];
        let task_id = format!("t{index}");
        let proposal =
            Proposal { key: &task_id, task_id: &task_id, summary: "a change", contents: &contents };
        let submitted = workspace.desk.propose("worker", proposal).await?;
        let by_tests = submitted.reasons.iter().find(|reason| reason.rule == VERIFY);
        let stopped = match (by_tests, case.kind) {
            (Some(reason), _) => reason.message.lines().next().map(str::to_owned),
            (None, CaseKind::Control) if submitted.verified.is_none() => {
                let others: Vec<&str> = submitted.reasons.iter().map(|r| r.rule.as_str()).collect();
                Some(format!("its tests were not run ({})", others.join(", ")))
            }
            (None, _) => None,
        };
        tried.push(case.tried(stopped));
        if submitted.verdict == Answer::Accepted {
            workspace.desk.undo("worker", submitted.submission).await?;
        }
    }
    Ok(Tried::Cases(tried))
}

/// Whether the runner is there: the unchanged project's tests must pass in the sandbox.
async fn is_there(
    verify: &Verify,
    workspace: &Workspace,
    options: &GateOptions,
) -> Result<(), NotVerified> {
    let job = Job {
        how: verify,
        python: None,
        copy: &workspace.path(),
        command: verify.command.clone(),
        files: Vec::new(),
        report: None,
    };
    let ran = options.verifier.run(job).await?;
    if ran.passed {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&ran.printed);
    let last = printed.trim_end().lines().last().unwrap_or_default();
    Err(NotVerified(format!("`{}`: {}: {last}", verify.command, ran.outcome)))
}

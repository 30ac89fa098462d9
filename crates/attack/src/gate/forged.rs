//! Attacks the gate with forged test results: each case is a change to a project whose tests run in a sandbox.

use std::time::Duration;

use assize_draft::{DraftOptions, FileProposal, ProposedContent, SeenFile, SubmissionStatus};
use assize_gate::{VerifyCommand, VerifyError, VerifyJob};

use super::plan::PlannedCase;
use super::workers::TemporaryWorkspace;
use super::{CaseKind, ClassResult, GateAttackError, GateAttackOptions};

/// Maximum time to wait for the gate's verdict on one case. The gate runs the tests three times in sandboxes.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(1800);

/// Name of the gate rule that runs the tests of the project.
const VERIFY: &str = "verify";

/// Submits each case as a change to a project with tests, and records the decision of the gate.
pub(super) async fn try_all(
    runner: &str,
    cases: &[PlannedCase],
    options: &GateAttackOptions,
    report: &mut impl FnMut(&str),
) -> Result<ClassResult, GateAttackError> {
    let verifier = Some(options.verifier.clone());
    let policy = options.policy.clone();
    let draft_options = DraftOptions {
        policy,
        verifier,
        verdict_timeout: VERDICT_TIMEOUT,
        ..DraftOptions::default()
    };
    let workspace = TemporaryWorkspace::new(draft_options)?;
    let files = assize_gate::corpus::project(runner)?;
    for (path, text) in &files {
        workspace.write(path, text)?;
    }
    let contract = workspace.drafts.contract()?;
    let Some(verify) = contract.and_then(|contract| contract.verify) else {
        let why = format!("the corpus has no test project for the test runner `{runner}`");
        return Ok(ClassResult::NotApplicable(why));
    };
    if let Err(VerifyError(why)) = check_runner(&verify, &workspace, options).await {
        return Ok(ClassResult::NotApplicable(why));
    }
    let mut tried = Vec::with_capacity(cases.len());
    for (index, case) in cases.iter().enumerate() {
        report(&case.name);
        let contents =
            [ProposedContent { path: case.path, content: &case.text, seen: SeenFile::NotShown }];
        let task_id = format!("t{index}");
        let proposal = FileProposal {
            key: &task_id,
            task_id: &task_id,
            summary: "a change",
            contents: &contents,
        };
        let submitted = workspace.drafts.propose("worker", proposal).await?;
        let by_tests = submitted.reasons.iter().find(|reason| reason.rule == VERIFY);
        let stopped = match (by_tests, case.kind) {
            (Some(reason), _) => reason.message.lines().next().map(str::to_owned),
            (None, CaseKind::Control) if submitted.verified.is_none() => {
                let others: Vec<&str> = submitted.reasons.iter().map(|r| r.rule.as_str()).collect();
                Some(format!(
                    "the gate did not run the tests; rules with findings: {}",
                    others.join(", ")
                ))
            }
            (None, _) => None,
        };
        tried.push(case.tried(stopped));
        if submitted.verdict == SubmissionStatus::Accepted {
            workspace.drafts.undo("worker", submitted.submission).await?;
        }
    }
    Ok(ClassResult::Cases(tried))
}

/// Checks that the test runner works in the sandbox. The tests of the unchanged project must pass.
async fn check_runner(
    verify: &VerifyCommand,
    workspace: &TemporaryWorkspace,
    options: &GateAttackOptions,
) -> Result<(), VerifyError> {
    let job = VerifyJob {
        verify_command: verify,
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
    let printed = String::from_utf8_lossy(&ran.captured_output);
    let last = printed.trim_end().lines().last().unwrap_or_default();
    Err(VerifyError(format!(
        "the command `{}` for the tests of the unchanged project failed ({}): {last}",
        verify.command, ran.outcome
    )))
}

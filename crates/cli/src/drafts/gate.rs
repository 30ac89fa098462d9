//! `assize gate`: lists and shows submissions, and lets the user accept, reject or undo them.

use assize_draft::{
    Diff, DraftError, DraftService, DraftState, Force, ProposedFile, Submission, SubmissionStage,
};
use assize_draft::{SubmissionView, diff_since_draft};
use assize_service::Services;
use assize_types::text::{counted, one_line};
use assize_types::{Failure, FailureKind};
use serde_json::json;

use super::{
    current_user, draft_service_for_changes, draft_service_to_read, read_draft_state, show,
};
use crate::args::GateCommand;
use crate::terminal::{self, BOLD, DIM, note, out_json, out_line, paint};

pub(crate) async fn run(command: GateCommand, mut services: Services) -> Result<(), Failure> {
    match command {
        GateCommand::Ls { workspace, all, json } => {
            let state = read_draft_state(&workspace, &services).await?;
            list(&state, all, json)
        }
        GateCommand::Show { submission, workspace, json } => {
            let unknown = || no_such(&submission);
            let service =
                draft_service_to_read(&workspace, &services).await?.ok_or_else(unknown)?;
            let state = service.state().await?;
            let submission = state.submission_named(&submission).ok_or_else(unknown)?;
            match json {
                true => out_json(&json!(SubmissionView::new(&service, submission.clone()))),
                false => show_submission(&service, submission),
            }
        }
        GateCommand::Accept { submissions, workspace, force } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            let force = if force { Force::Yes } else { Force::No };
            for id in numbers(&service, &submissions).await? {
                service.accept(&current_user(&services.environment), id, force).await.map_err(|error| {
                    let hint = matches!(error, DraftError::Conflict(_)).then(|| {
                        format!(
                            "`assize gate show {id}` shows the changes of the draft and the newer changes to the file; \
                             `--force` overwrites the newer file; `assize gate reject {id}` rejects the submission, \
                             so that the agent can start again"
                        )
                    });
                    with_hint(error, hint)
                })?;
                done(&service, id, "accepted").await?;
            }
            Ok(())
        }
        GateCommand::Reject { submissions, workspace, reason } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            for id in numbers(&service, &submissions).await? {
                service
                    .reject(&current_user(&services.environment), id, &reason)
                    .await
                    .map_err(|e| with_hint(e, None))?;
                done(&service, id, "rejected").await?;
            }
            Ok(())
        }
        GateCommand::Undo { submissions, workspace } => {
            let service = draft_service_for_changes(&workspace, &mut services).await?;
            for id in numbers(&service, &submissions).await? {
                service.undo(&current_user(&services.environment), id).await.map_err(|error| {
                    let hint = matches!(error, DraftError::Conflict(_)).then(|| {
                        format!(
                            "nothing was undone; `assize gate show {id}` shows the applied changes"
                        )
                    });
                    with_hint(error, hint)
                })?;
                done(&service, id, "undone").await?;
            }
            Ok(())
        }
    }
}

/// Returns the ids of the submissions that the user named on the command line. Fails if a submission does not exist, so
/// that one mistyped id prevents all decisions of the command.
async fn numbers(service: &DraftService, names: &[String]) -> Result<Vec<u64>, Failure> {
    let state = service.state().await?;
    let number = |name: &String| state.submission_named(name).map(|submission| submission.id);
    names.iter().map(|name| number(name).ok_or_else(|| no_such(name))).collect()
}

fn with_hint(error: DraftError, hint: Option<String>) -> Failure {
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure.hint("`assize gate ls --all` lists all submissions"),
    }
}

fn no_such(name: &str) -> Failure {
    let message =
        format!("no submission `{}` in this workspace", terminal::replace_control_chars(name));
    Failure::new(FailureKind::Usage, message).hint(
        "`assize gate ls --all` lists all submissions; `--workspace` selects another workspace",
    )
}

/// Prints the decision on the submission `id`; `what` is the decision, such as `accepted`.
async fn done(service: &DraftService, id: u64, what: &str) -> Result<(), Failure> {
    let state = service.state().await?;
    let files = state.submissions.get(&id).map(|s| files(&s.files)).unwrap_or_default();
    out_line(&terminal::replace_control_chars(&format!("{what} {id}: {files}")))
}

/// Formats the paths of the files of a submission.
fn files(files: &[ProposedFile]) -> String {
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    names.join(", ")
}

fn list(state: &DraftState, all: bool, json: bool) -> Result<(), Failure> {
    let settled = |stage: SubmissionStage| {
        matches!(
            stage,
            SubmissionStage::Accepted | SubmissionStage::Rejected | SubmissionStage::Undone
        )
    };
    let is_open = |s: &&Submission| !settled(s.stage);
    let wanted: Vec<&Submission> =
        state.submissions.values().rev().filter(|s| all || is_open(s)).collect();
    if json {
        return out_json(&json!({"submissions": wanted, "refused": state.refused_calls}));
    }
    if wanted.is_empty() {
        note(match (all, state.submissions.is_empty()) {
            (false, false) => {
                "no submission waits for your decision; `--all` also lists decided submissions"
            }
            _ => "there are no submissions yet",
        });
    } else {
        let now = assize_types::unix_millis();
        let row = |s: &&Submission| {
            let (added, removed) =
                s.files.iter().fold((0, 0), |sum, file| (sum.0 + file.added, sum.1 + file.removed));
            let why = s.reasons.first().map(|r| format!("{}: {}", r.rule, one_line(&r.message)));
            let why = why.unwrap_or_else(|| one_line(&s.summary));
            vec![
                s.id.to_string(),
                s.stage.name().to_owned(),
                s.task.to_string(),
                files(&s.files),
                format!("+{added} -{removed}"),
                show::ago(s.settled, now),
                assize_types::text::shorten(&why, 70),
            ]
        };
        let rows: Vec<Vec<String>> = wanted.iter().map(row).collect();
        let heads = ["NO", "STATE", "TASK", "FILES", "LINES", "AGE", "WHY"];
        show::table(&heads, &rows).iter().try_for_each(|line| out_line(line))?;
    }
    if state.refused_calls > 0 {
        let calls = counted(state.refused_calls, "tool call was", "tool calls were");
        note(&format!(
            "{calls} refused because of the requested path; `assize audit show --refused` lists the paths"
        ));
    }
    Ok(())
}

fn show_submission(service: &DraftService, submission: &Submission) -> Result<(), Failure> {
    let Submission { id, stage, task, worker, .. } = submission;
    let by = submission.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
    let head = format!("{id}  {}{by}  {task}", stage.name());
    out_line(&paint(BOLD, terminal::replace_control_chars(&head)))?;
    let ago = show::ago(submission.at, assize_types::unix_millis());
    out_line(&paint(
        DIM,
        terminal::replace_control_chars(&format!("submitted {ago} ago by {worker}")),
    ))?;
    // The summary is text of the agent. A `|` before each line marks it, because the text may imitate assize's output.
    for line in submission.summary.lines() {
        out_line(&terminal::replace_control_chars(&format!("  | {line}")))?;
    }
    show::reasons(&submission.reasons).iter().try_for_each(|line| out_line(line))?;
    if let Some(verified) = &submission.verified {
        show::verified(verified).iter().try_for_each(|line| out_line(line))?;
    }
    for file in &submission.files {
        out_line("")?;
        let Ok((base, draft)) = service.old_and_new_text(file) else {
            out_line(&terminal::replace_control_chars(&format!(
                "{}: cannot show the changes, because the stored copies of the file were deleted",
                file.path
            )))?;
            continue;
        };
        show::diff(&Diff::unified(&file.path, &base, &draft))
            .iter()
            .try_for_each(|line| out_line(line))?;
        if let Some(other) = diff_since_draft(service, submission, file) {
            out_line("")?;
            out_line(&paint(BOLD, "changes to the file since the draft was created:"))?;
            show::diff(&other).iter().try_for_each(|line| out_line(line))?;
        }
    }
    let changed =
        submission.files.iter().any(|file| diff_since_draft(service, submission, file).is_some());
    let force = if changed { " --force" } else { "" };
    if *stage == SubmissionStage::Escalated {
        note(&format!(
            "\ndecide with `assize gate accept {id}{force}` or `assize gate reject {id} --reason \"…\"`"
        ));
    }
    Ok(())
}

//! Formats the result of `assize work` for the terminal.

use assize_draft::work::{WorkOutcome, WorkReport, WorkTask};
use assize_types::text::counted;

use crate::drafts::show;
use crate::terminal::{BAD, GOOD, WARN, paint, replace_control_chars};

/// Formats the submissions of a run, and the last message of the model.
pub(crate) fn report_lines(worked: &WorkReport) -> Vec<String> {
    let mut lines = Vec::new();
    for submission in &worked.submissions {
        let style = match submission.verdict.as_str() {
            "accepted" => GOOD,
            "rejected" => BAD,
            _ => WARN,
        };
        let number = submission.submission;
        let files = replace_control_chars(&submission.files.join(", "));
        lines.push(format!(
            "{} {number}: {files}",
            paint(style, replace_control_chars(&submission.verdict))
        ));
        lines.extend(show::reasons(&submission.reasons));
    }
    if worked.submissions.is_empty() {
        lines.push("the model submitted no draft".to_owned());
    }
    // File blocks in the message are not printed, because their content is in the submitted files.
    let message = worked.answer.split("FILE:").next().unwrap_or_default().trim();
    // A `|` before each line marks it as text of the model, because the text may imitate assize's output.
    lines.extend(message.lines().map(|line| replace_control_chars(&format!("  | {line}"))));
    lines
}

/// Formats the reason why the run stopped, and a hint about what the user can do next.
pub(super) fn next_steps(worked: &WorkReport, work: &WorkTask) -> Vec<String> {
    let number = |verdict: &str| {
        let last = worked.submissions.iter().rev().find(|submission| submission.verdict == verdict);
        last.map(|submission| submission.submission)
    };
    let mut lines = Vec::new();
    if worked.limit_reached {
        lines.push(match worked.steps >= work.max_steps {
            true => {
                let steps = counted(worked.steps, "step", "steps");
                format!("the run stopped after {steps} (`--max-steps`)")
            }
            false => {
                let rejections = counted(work.max_rejections, "rejection", "rejections");
                format!("the run stopped after {rejections} (`--max-rejections`)")
            }
        });
    }
    match worked.outcome {
        WorkOutcome::Accepted => lines.extend(number("accepted").map(|id| {
            format!(
                "`assize gate show {id}` shows the submission, `assize gate undo {id}` undoes it"
            )
        })),
        WorkOutcome::Escalated => {
            lines.extend(number("escalated").map(|id| {
                format!("submission {id} waits for your decision: `assize gate show {id}`")
            }))
        }
        WorkOutcome::Pending => {
            lines.push("the submission is still being verified; see `assize gate ls`".to_owned());
        }
        WorkOutcome::Rejected => {
            lines.push("no files were changed, because no draft was accepted".to_owned())
        }
        WorkOutcome::Nothing => {
            lines.push("no files were changed, because no draft was submitted".to_owned());
        }
    }
    lines
}

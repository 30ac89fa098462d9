//! Formats the result of `assize work` for the terminal.

use assize_draft::work::{WorkOutcome, WorkReport, WorkTask};

use crate::drafts::show;
use crate::terminal::{BAD, GOOD, WARN, harmless, paint};

/// Lines for each submission, and the model's last message.
pub(crate) fn worked(worked: &WorkReport) -> Vec<String> {
    let mut lines = Vec::new();
    for submission in &worked.submissions {
        let style = match submission.verdict.as_str() {
            "accepted" => GOOD,
            "rejected" => BAD,
            _ => WARN,
        };
        let number = submission.submission;
        let files = harmless(&submission.files.join(", "));
        lines.push(format!("{} {number}: {files}", paint(style, harmless(&submission.verdict))));
        lines.extend(show::reasons(&submission.reasons));
    }
    if worked.submissions.is_empty() {
        lines.push("nothing was submitted".to_owned());
    }
    // File blocks are left out: their content is in the files.
    let message = worked.said.split("FILE:").next().unwrap_or_default().trim();
    // Each line is marked as the model's, because its text may imitate our output.
    lines.extend(message.lines().map(|line| harmless(&format!("  | {line}"))));
    lines
}

/// Hints on what to do next.
pub(super) fn how_to_go_on(worked: &WorkReport, work: &WorkTask) -> Vec<String> {
    let number = |verdict: &str| {
        let last = worked.submissions.iter().rev().find(|submission| submission.verdict == verdict);
        last.map(|submission| submission.submission)
    };
    let mut lines = Vec::new();
    if worked.limit_reached {
        lines.push(match worked.steps >= work.max_steps {
            true => format!("stopped after {} steps (`--max-steps`)", worked.steps),
            false => {
                format!("stopped after {} rejections (`--max-rejections`)", work.max_rejections)
            }
        });
    }
    match worked.outcome {
        WorkOutcome::Accepted => lines.extend(number("accepted").map(|id| {
            format!("show it with `assize gate show {id}`, undo it with `assize gate undo {id}`")
        })),
        WorkOutcome::Escalated => lines.extend(
            number("escalated")
                .map(|id| format!("it waits for your decision: `assize gate show {id}`")),
        ),
        WorkOutcome::Pending => {
            lines.push("the submission is being verified: `assize gate ls`".to_owned());
        }
        WorkOutcome::Rejected => lines.push("rejected drafts changed no files".to_owned()),
        WorkOutcome::Nothing => {
            lines.push("no draft was submitted, and no files were changed".to_owned());
        }
    }
    lines
}

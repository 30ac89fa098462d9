//! What a worker came to, as people read it.

use assize_draft::work::{Work, WorkOutcome, Worked};

use crate::drafts::show;
use crate::terminal::{BAD, GOOD, WARN, harmless, paint};

/// Each submission in turn, and the last words.
pub(crate) fn worked(worked: &Worked) -> Vec<String> {
    let mut lines = Vec::new();
    for handed in &worked.submissions {
        let style = match handed.verdict.as_str() {
            "accepted" => GOOD,
            "rejected" => BAD,
            _ => WARN,
        };
        let number = handed.submission;
        let files = harmless(&handed.files.join(", "));
        lines.push(format!("{} {number}: {files}", paint(style, harmless(&handed.verdict))));
        lines.extend(show::reasons(&handed.reasons));
    }
    if worked.submissions.is_empty() {
        lines.push("nothing was handed in".to_owned());
    }
    // What is a file is in the file.
    let said = worked.said.split("FILE:").next().unwrap_or_default().trim();
    // Each line is marked as the model's: what it says may look like what we say.
    lines.extend(said.lines().map(|line| harmless(&format!("  | {line}"))));
    lines
}

/// What to do now.
pub(super) fn how_to_go_on(worked: &Worked, work: &Work) -> Vec<String> {
    let number = |verdict: &str| {
        let last = worked.submissions.iter().rev().find(|handed| handed.verdict == verdict);
        last.map(|handed| handed.submission)
    };
    let mut lines = Vec::new();
    if worked.limit_reached {
        lines.push(match worked.steps >= work.max_steps {
            true => format!("it stopped after {} steps (`--max-steps`)", worked.steps),
            false => {
                format!("it stopped after {} rejections (`--max-rejections`)", work.max_rejections)
            }
        });
    }
    match worked.outcome {
        WorkOutcome::Accepted => lines.extend(number("accepted").map(|id| {
            format!(
                "see it with `assize gate show {id}`, take it back with `assize gate undo {id}`"
            )
        })),
        WorkOutcome::Escalated => lines.extend(
            number("escalated").map(|id| format!("it waits for you: `assize gate show {id}`")),
        ),
        WorkOutcome::Pending => lines.push("it is being verified: `assize gate ls`".to_owned()),
        WorkOutcome::Rejected | WorkOutcome::Nothing => {
            lines.push("no file was changed by what was not accepted".to_owned());
        }
    }
    lines
}

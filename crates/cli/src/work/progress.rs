//! Progress of `assize work`: the current step of the model.

use assize_draft::tools;
use assize_run::{EffectStage, RunEvent, Signal};
use assize_types::text::one_line;
use serde_json::Value;

use crate::progress::{Activity, Progress};
use crate::terminal::replace_control_chars;

/// Shows the activity that a progress signal of the run announces, such as a model call or a tool call.
pub(super) fn show_signal(progress: &Progress<Activity>, signal: &Signal<'_>) {
    let activity = match signal {
        Signal::Effect { key, stage: EffectStage::Started } => {
            let key = key.to_string();
            let step = key.strip_prefix("step-").and_then(|key| key.split_once('/'));
            step.filter(|(_, what)| what.starts_with("think"))
                .map(|(step, _)| format!("step {step} · waiting for the model"))
        }
        Signal::Event { event, .. } => match RunEvent::read(&event.name, &event.payload) {
            Some(RunEvent::ToolCalled { step, tool, path, failed }) => {
                let refused = if failed { ": refused" } else { "" };
                let called = tool_call(&tool, &path.unwrap_or_default());
                Some(format!("step {step} · {called}{refused}"))
            }
            Some(RunEvent::DraftAccepted { reasons, .. }) => Some(decided("accepted", &reasons)),
            Some(RunEvent::DraftRejected { reasons, .. }) => Some(decided("rejected", &reasons)),
            Some(RunEvent::DraftEscalated { reasons, .. }) => Some(decided("escalated", &reasons)),
            Some(RunEvent::ModeChanged { why, .. }) => {
                Some(format!("the model continues without tools: {why}"))
            }
            _ => None,
        },
        _ => None,
    };
    if let Some(activity) = activity {
        progress.set_activity(replace_control_chars(&one_line(activity.trim())));
    }
}

/// Formats the verdict on a submission, followed by the first line of the first reason.
fn decided(verdict: &str, reasons: &Value) -> String {
    let first = reasons[0]["message"].as_str().and_then(|why| why.lines().next());
    match first.filter(|why| !why.is_empty()) {
        Some(why) => format!("{verdict}: {why}"),
        None => verdict.to_owned(),
    }
}

/// Describes a tool call of the model.
fn tool_call(tool: &str, path: &str) -> String {
    match tool {
        "list_files" => "the model lists the files".to_owned(),
        "read_file" => format!("the model reads {path}"),
        tools::REQUEST => format!("the model requests a draft of {path}"),
        tools::READ => "the model reads its draft".to_owned(),
        tools::WRITE => "the model writes its draft".to_owned(),
        tools::SUBMIT => "the model submits its draft".to_owned(),
        other => format!("the model calls {other}"),
    }
}

//! What a worker is doing.

use assize_draft::tools;
use assize_run::{EffectStage, RunEvent, Signal};
use assize_types::text::one_line;
use serde_json::Value;

use crate::progress::{Activity, Progress};
use crate::terminal::harmless;

/// Says what a signal is about.
pub(super) fn see(progress: &Progress<Activity>, signal: &Signal<'_>) {
    let told = match signal {
        // Where lines stay, what it does next says enough.
        Signal::Effect { key, stage: EffectStage::Started } if progress.is_live() => {
            let key = key.to_string();
            let step = key.strip_prefix("step-").and_then(|key| key.split_once('/'));
            step.filter(|(_, what)| what.starts_with("think"))
                .map(|(step, _)| format!("step {step} · thinking"))
        }
        Signal::Event { event, .. } => match RunEvent::read(&event.name, &event.payload) {
            Some(RunEvent::ToolCalled { step, tool, path, failed }) => {
                let refused = if failed { ": refused" } else { "" };
                let called = done(&tool, &path.unwrap_or_default());
                Some(format!("step {step} · {called}{refused}"))
            }
            Some(RunEvent::DraftAccepted { reasons, .. }) => Some(decided("accepted", &reasons)),
            Some(RunEvent::DraftRejected { reasons, .. }) => Some(decided("rejected", &reasons)),
            Some(RunEvent::DraftEscalated { reasons, .. }) => Some(decided("escalated", &reasons)),
            Some(RunEvent::ModeChanged { why, .. }) => {
                Some(format!("going on without tools: {why}"))
            }
            _ => None,
        },
        _ => None,
    };
    if let Some(told) = told {
        progress.say(harmless(&one_line(told.trim())));
    }
}

/// A verdict with the first line of its first reason.
fn decided(verdict: &str, reasons: &Value) -> String {
    let first = reasons[0]["message"].as_str().and_then(|why| why.lines().next());
    match first.filter(|why| !why.is_empty()) {
        Some(why) => format!("{verdict}: {why}"),
        None => verdict.to_owned(),
    }
}

/// What a tool does, in words.
fn done(tool: &str, path: &str) -> String {
    match tool {
        "list_files" => "looks at the files".to_owned(),
        "read_file" => format!("reads {path}"),
        tools::REQUEST => format!("asks for a draft of {path}"),
        tools::READ => "reads its draft".to_owned(),
        tools::WRITE => "writes its draft".to_owned(),
        tools::SUBMIT => "hands it in".to_owned(),
        other => format!("calls {other}"),
    }
}

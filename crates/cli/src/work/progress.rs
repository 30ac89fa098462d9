//! What a worker is doing.

use assize_draft::tools;
use assize_graph::{EffectStage, Signal};
use assize_types::text::one_line;

use crate::doing::Doing;
use crate::terminal::harmless;

/// Says what a signal is about.
pub(super) fn see(doing: &Doing, signal: &Signal<'_>) {
    let told = match signal {
        // Where lines stay, what it does next says enough.
        Signal::Effect { key, stage: EffectStage::Started } if doing.is_live() => {
            let key = key.to_string();
            let step = key.strip_prefix("step-").and_then(|key| key.split_once('/'));
            step.filter(|(_, what)| what.starts_with("think"))
                .map(|(step, _)| format!("step {step} · thinking"))
        }
        Signal::Event { event, .. } => {
            let word = |name: &str| event.payload[name].as_str().unwrap_or_default();
            match event.name.as_str() {
                "tool_called" => {
                    let refused = if event.payload["failed"] == true { ": refused" } else { "" };
                    let called = done(word("tool"), word("path"));
                    Some(format!("step {} · {called}{refused}", event.payload["step"]))
                }
                "DRAFT_ACCEPTED" | "DRAFT_REJECTED" | "DRAFT_ESCALATED" => {
                    let first = event.payload["reasons"][0]["message"].as_str();
                    let why = first.and_then(|why| why.lines().next()).unwrap_or_default();
                    let verdict = event.name["DRAFT_".len()..].to_lowercase();
                    Some(if why.is_empty() { verdict } else { format!("{verdict}: {why}") })
                }
                "mode_changed" => Some(format!("going on without tools: {}", word("why"))),
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(told) = told {
        doing.say(harmless(&one_line(told.trim())));
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

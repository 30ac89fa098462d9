//! What was said and answered in a run of file edits, as text.

use std::fmt::Write as _;

use assize_graph::{Outcome, Record};
use assize_llm::Response;
use serde_json::Value;

/// What was said and answered in each step.
pub fn transcript(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let key = record.key.to_string();
        // What the engine notes for itself is nobody's words.
        if !key.starts_with("step-") && !key.starts_with("file-") {
            continue;
        }
        let (Outcome::Done(body) | Outcome::Failed(body)) = &record.outcome;
        let _ = writeln!(text, "\n=== {key}");
        if let Ok(response) = serde_json::from_str::<Response>(body) {
            if !response.text.trim().is_empty() {
                let _ = writeln!(text, "{}", response.text.trim_end());
            }
            for call in &response.tool_calls {
                let _ = writeln!(text, "{} {}", call.name, told(&call.arguments));
            }
        } else if let Ok(answer) = serde_json::from_str::<Value>(body) {
            let _ = writeln!(text, "{}", told(answer.get("content").unwrap_or(&answer)));
        }
    }
    text
}

/// A value as people read it: text with its own line ends.
fn told(value: &Value) -> String {
    let field = |(name, value): (&String, &Value)| match value {
        Value::String(text) if text.contains('\n') => format!("{name}:\n{}", text.trim_end()),
        Value::String(text) => format!("{name}: {text}"),
        other => format!("{name}: {other}"),
    };
    match value {
        Value::Object(fields) => fields.iter().map(field).collect::<Vec<_>>().join("\n  "),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

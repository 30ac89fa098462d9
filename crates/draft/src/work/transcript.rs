//! Formats the transcript of a run in which a model edits files.

use std::fmt::Write as _;

use assize_graph::{EffectOutcome, EffectRecord};
use assize_llm::ModelResponse;
use serde_json::Value;

/// Formats the model's answers and the tool results of each step of a run as text.
pub fn transcript(records: &[EffectRecord]) -> String {
    let mut text = String::new();
    for record in records {
        let key = record.key.to_string();
        // Skip the internal records of the graph engine.
        if !key.starts_with("step-") && !key.starts_with("file-") {
            continue;
        }
        let (EffectOutcome::Done(body) | EffectOutcome::Failed(body)) = &record.outcome;
        let _ = writeln!(text, "\n=== {key}");
        if let Ok(response) = serde_json::from_str::<ModelResponse>(body) {
            if !response.text.trim().is_empty() {
                let _ = writeln!(text, "{}", response.text.trim_end());
            }
            for call in &response.tool_calls {
                let _ = writeln!(text, "{} {}", call.name, readable(&call.arguments));
            }
        } else if let Ok(answer) = serde_json::from_str::<Value>(body) {
            let _ = writeln!(text, "{}", readable(answer.get("content").unwrap_or(&answer)));
        }
    }
    text
}

/// Formats a JSON value for users. Text with several lines keeps its line breaks.
fn readable(value: &Value) -> String {
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

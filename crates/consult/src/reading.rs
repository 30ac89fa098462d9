//! Consultations as they are read: reports and conversations.

use std::collections::BTreeMap;

use assize_config::REHEARSAL_LABEL;
use assize_debate::{ConversationEntry, LogName, conversation_logs};
use assize_graph::Record;
use assize_run::{Run, read_result};
use assize_types::Failure;
use serde_json::{Value, json};

use crate::Report;

/// The report of a consultation that is over, with what was said.
pub fn consulted(run: &Run, records: &[Record]) -> Result<Option<Report>, Failure> {
    let Some(mut whole) = run.result.clone() else { return Ok(None) };
    for verdict in whole["policy_scores"].as_array_mut().into_iter().flatten() {
        let id = verdict["move_id"].as_str().unwrap_or_default().to_owned();
        verdict["conversation_logs"] = json!(logs_of_move(&id, records));
    }
    read_result(whole).map(Some)
}

/// What was said in a debate, by conversation.
pub type Conversations = BTreeMap<LogName, Vec<ConversationEntry>>;

/// What was said about one move of a consultation.
fn logs_of_move(id: &str, records: &[Record]) -> Conversations {
    let own = |record: &&Record| record.key.segments().next() == Some(id);
    let own: Vec<Record> = records.iter().filter(own).cloned().collect();
    conversation_logs(&own)
}

/// What was said so far about the moves of a consultation, by move.
pub fn moves_logs(records: &[Record]) -> BTreeMap<String, Conversations> {
    let is_move =
        |name: &str| name.strip_prefix('m').is_some_and(|rest| rest.parse::<u32>().is_ok());
    let mut moves = BTreeMap::new();
    for name in records.iter().filter_map(|record| record.key.segments().next()) {
        if is_move(name) && !moves.contains_key(name) {
            moves.insert(name.to_owned(), logs_of_move(name, records));
        }
    }
    moves
}

/// All of it as one object, under the names that the parts of a consultation have.
pub fn consultation(report: &Report, told: &Value) -> Value {
    let mut shown = json!(report);
    if let Some(made) = &report.made {
        for (name, value) in json!(made).as_object().into_iter().flatten() {
            shown[name] = value.clone();
        }
    }
    shown["cost_usd"] = json!(report.spent.cost.dollars());
    if report.spent.rehearsal {
        shown["label"] = json!(REHEARSAL_LABEL);
    }
    shown["conversation_logs"] = logs(report);
    shown["status_updates"] = told.clone();
    shown
}

/// What was said, move by move, by the logs' own names: i1, i2 and so on.
pub fn logs(report: &Report) -> Value {
    let logs = report.policy_scores.iter().map(|verdict| {
        let mut one = json!({"move_id": verdict.move_id});
        for (log, entries) in &verdict.conversation_logs {
            one[LogName::to_string(log)] = json!(entries);
        }
        one
    });
    logs.collect()
}

/// Everything, as files of a folder.
pub fn documents(report: &Report, told: &Value) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        report.documents().into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    let pretty = |value: &Value| serde_json::to_vec_pretty(value).unwrap_or_default();
    files.push(("report.json".to_owned(), pretty(&consultation(report, told))));
    files
}

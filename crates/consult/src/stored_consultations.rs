//! Reads the reports and conversations of stored consultations.

use std::collections::BTreeMap;

use assize_config::REHEARSAL_LABEL;
use assize_debate::{ConversationEntry, LogName, conversation_logs};
use assize_graph::EffectRecord;
use assize_run::{Run, read_result};
use assize_types::Failure;
use serde_json::{Value, json};

use crate::ConsultReport;

/// Reads the report of a finished consultation, with the conversations from its journal records. `None` if the run
/// has no result.
pub fn stored_report(
    run: &Run,
    records: &[EffectRecord],
) -> Result<Option<ConsultReport>, Failure> {
    let Some(mut whole) = run.result.clone() else { return Ok(None) };
    for verdict in whole["policy_scores"].as_array_mut().into_iter().flatten() {
        let id = verdict["move_id"].as_str().unwrap_or_default().to_owned();
        verdict["conversation_logs"] = json!(logs_of_move(&id, records));
    }
    read_result(whole).map(Some)
}

/// Entries of all conversations of a debate, by conversation name.
pub type Conversations = BTreeMap<LogName, Vec<ConversationEntry>>;

/// Rebuilds the conversations about one move from the journal records of a consultation.
fn logs_of_move(id: &str, records: &[EffectRecord]) -> Conversations {
    let own = |record: &&EffectRecord| record.key.segments().next() == Some(id);
    let own: Vec<EffectRecord> = records.iter().filter(own).cloned().collect();
    conversation_logs(&own)
}

/// Rebuilds the conversations of a consultation that may still be running, by move id.
pub fn conversations_by_move(records: &[EffectRecord]) -> BTreeMap<String, Conversations> {
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

/// Returns the report, the conversations and the events of a consultation as one JSON object.
pub fn consultation_json(report: &ConsultReport, events: &Value) -> Value {
    let mut shown = json!(report);
    if let Some(origin) = &report.origin {
        for (name, value) in json!(origin).as_object().into_iter().flatten() {
            shown[name] = value.clone();
        }
    }
    shown["cost_usd"] = json!(report.spent.cost.dollars());
    if report.spent.rehearsal {
        shown["label"] = json!(REHEARSAL_LABEL);
    }
    shown["conversation_logs"] = conversations_json(report);
    shown["status_updates"] = events.clone();
    shown
}

/// Returns the conversations of each move as JSON, under the conversation names `i1`, `i2` and so on.
pub fn conversations_json(report: &ConsultReport) -> Value {
    let logs = report.policy_scores.iter().map(|verdict| {
        let mut one = json!({"move_id": verdict.move_id});
        for (log, entries) in &verdict.conversation_logs {
            one[LogName::to_string(log)] = json!(entries);
        }
        one
    });
    logs.collect()
}

/// Returns all documents of a consultation as files: pairs of name and content.
pub fn document_files(report: &ConsultReport, events: &Value) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        report.documents().into_iter().map(|(name, text)| (name, text.into_bytes())).collect();
    let pretty = |value: &Value| serde_json::to_vec_pretty(value).unwrap_or_default();
    files.push(("report.json".to_owned(), pretty(&consultation_json(report, events))));
    files
}

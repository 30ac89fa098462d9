//! A run as it is read: what it came to, what was said, what it left.

use std::collections::BTreeMap;

use assize_code::{Attempt, LeftFile};
use assize_consult::Report;
use assize_debate::{ConversationEntry, LogName, conversation_logs};
use assize_gateway::REHEARSAL_LABEL;
use assize_graph::{Key, Outcome, Record};
use assize_run::{Run, RunKind, Store};
use assize_types::{Cost, Failure, FailureKind, Fingerprint};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kept;

/// Whether any of its answers is, or would be, a rehearsal.
pub fn is_rehearsal(run: &Run) -> bool {
    let spent = run.result.as_ref().map(|result| &result["spent"]["rehearsal"]);
    run.input["provider"] == "rehearsal" || spent == Some(&Value::Bool(true))
}

/// A run as one object, with what is not in the store: whether somebody still works on it.
pub fn described(run: &Run) -> Value {
    let mut value = json!(run);
    if is_rehearsal(run) {
        value["label"] = json!(REHEARSAL_LABEL);
    }
    value["status"] = json!(kept::status(run));
    value["holder"] = json!(kept::Holder::of(run).map(|holder| holder.pid));
    value
}

/// What a run came to, in its own shape.
pub fn result<T: DeserializeOwned>(result: Value) -> Result<T, Failure> {
    serde_json::from_value(result).map_err(|error| {
        Failure::new(FailureKind::Environment, format!("its verdict cannot be read: {error}"))
    })
}

/// The report of a consultation that is over, with what was said.
pub fn consulted(run: &Run, records: &[Record]) -> Result<Option<assize_consult::Report>, Failure> {
    let Some(mut whole) = run.result.clone() else { return Ok(None) };
    for verdict in whole["policy_scores"].as_array_mut().into_iter().flatten() {
        let id = verdict["move_id"].as_str().unwrap_or_default().to_owned();
        verdict["conversation_logs"] = json!(logs_of_move(&id, records));
    }
    result(whole).map(Some)
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
    shown["cost_usd"] = dollars(report.spent.cost);
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

/// The files that the program of a run left: of the last that left any, which is the one that succeeded, or of a
/// session the last.
pub fn left(history: &[Attempt]) -> Vec<LeftFile> {
    let executions = history.iter().filter_map(|attempt| attempt.execution.as_ref());
    let left = executions.map(|execution| &execution.files).rfind(|files| !files.is_empty());
    left.cloned().unwrap_or_default()
}

/// Journal record as it is shown, with its outcome as JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordView {
    #[schemars(with = "String")]
    key: Key,
    request: Fingerprint,
    #[serde(flatten)]
    outcome: RecordOutcome,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RecordOutcome {
    Done(Value),
    Failed(Value),
}

/// What was asked and answered in a run, in order.
pub fn records(records: &[Record]) -> Vec<RecordView> {
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    let record = |record: &Record| RecordView {
        key: record.key.clone(),
        request: record.request,
        outcome: match &record.outcome {
            Outcome::Done(text) => RecordOutcome::Done(read(text)),
            Outcome::Failed(text) => RecordOutcome::Failed(read(text)),
        },
    };
    records.iter().map(record).collect()
}

/// All that is kept of a run, as one object.
pub async fn export(store: &dyn Store, run: &Run) -> Result<Value, Failure> {
    let records = store.records(&run.id).await?;
    let mut artifacts = serde_json::Map::new();
    for artifact in store.artifacts(&run.id).await? {
        let bytes = store.artifact(artifact.id).await?;
        let content = match String::from_utf8(bytes) {
            Ok(text) => json!({"sha256": artifact.id, "text": text}),
            Err(error) => {
                let base64 = BASE64_STANDARD.encode(error.as_bytes());
                json!({"sha256": artifact.id, "base64": base64})
            }
        };
        artifacts.insert(artifact.name, content);
    }
    let mut value = json!({
        "format": "assize-run-1",
        "run": described(run),
        "artifacts": artifacts,
        "records": self::records(&records),
        "events": store.events(kept::of(run)).await?,
    });
    if run.kind == RunKind::Debate {
        value["conversation_logs"] = json!(conversation_logs(&records));
    }
    Ok(value)
}

/// What happened in a run, event by event, as one list.
pub async fn status_updates(store: &dyn Store, run: &Run) -> Result<Value, Failure> {
    let told = store.events(kept::of(run)).await?.into_iter().map(|event| {
        let mut update = json!({"event": event.name});
        for (name, value) in event.payload.as_object().into_iter().flatten() {
            update[name] = value.clone();
        }
        update
    });
    Ok(told.collect())
}

/// Dollars as a number, or null where they are unknown.
pub fn dollars(cost: Cost) -> Value {
    cost.known().map_or(Value::Null, |money| json!(money.dollars()))
}

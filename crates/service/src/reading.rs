//! Runs as they are shown: descriptions, records, events and whole exports.

use assize_config::{REHEARSAL, REHEARSAL_LABEL};
use assize_debate::conversation_logs;
use assize_graph::{Key, Outcome, Record};
use assize_run::{EventQuery, LeaseHolder, Run, RunInput, RunKind, RunState, Store};
use assize_types::{Failure, Fingerprint};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether any of its answers is, or would be, a rehearsal.
pub fn is_rehearsal(run: &Run) -> bool {
    let spent = run.result.as_ref().map(|result| &result["spent"]["rehearsal"]);
    RunInput::of(run).is_ok_and(|input| input.provider == REHEARSAL)
        || spent == Some(&Value::Bool(true))
}

/// A run as one object, with what is not in the store: whether somebody still works on it.
pub fn described(run: &Run) -> Value {
    let mut value = json!(run);
    if is_rehearsal(run) {
        value["label"] = json!(REHEARSAL_LABEL);
    }
    value["status"] = json!(RunState::of(run).name());
    value["holder"] = json!(LeaseHolder::of(run).map(|holder| holder.pid));
    value
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
        "events": store.events(EventQuery::of_run(run)).await?,
    });
    if run.kind == RunKind::Debate {
        value["conversation_logs"] = json!(conversation_logs(&records));
    }
    Ok(value)
}

/// What happened in a run, event by event, as one list.
pub async fn status_updates(store: &dyn Store, run: &Run) -> Result<Value, Failure> {
    let told = store.events(EventQuery::of_run(run)).await?.into_iter().map(|event| {
        let mut update = json!({"event": event.name});
        for (name, value) in event.payload.as_object().into_iter().flatten() {
            update[name] = value.clone();
        }
        update
    });
    Ok(told.collect())
}

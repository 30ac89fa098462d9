//! Converts runs to JSON: descriptions, journal records, events and whole exports.

use assize_config::{REHEARSAL, REHEARSAL_LABEL};
use assize_debate::conversation_logs;
use assize_graph::{EffectKey, EffectOutcome, EffectRecord};
use assize_run::{EventQuery, LeaseHolder, Run, RunInput, RunKind, RunState, Store};
use assize_types::{Failure, Fingerprint};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether the provider of a run is the rehearsal model, or the rehearsal model answered any call of a finished run.
pub fn is_rehearsal(run: &Run) -> bool {
    let spent = run.result.as_ref().map(|result| &result["spent"]["rehearsal"]);
    RunInput::of(run).is_ok_and(|input| input.provider == REHEARSAL)
        || spent == Some(&Value::Bool(true))
}

/// Converts a run to a JSON object. The values of `status` and `holder` depend on whether the lease holder is alive.
pub fn described(run: &Run) -> Value {
    let mut value = json!(run);
    if is_rehearsal(run) {
        value["label"] = json!(REHEARSAL_LABEL);
    }
    value["status"] = json!(RunState::of(run).name());
    value["holder"] = json!(LeaseHolder::of(run).map(|holder| holder.pid));
    value
}

/// Journal record of a run, with the recorded outcome as a JSON value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordView {
    #[schemars(with = "String")]
    key: EffectKey,
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

/// Converts journal records to their JSON form, in the same order.
pub fn records(records: &[EffectRecord]) -> Vec<RecordView> {
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    let record = |record: &EffectRecord| RecordView {
        key: record.key.clone(),
        request: record.request,
        outcome: match &record.outcome {
            EffectOutcome::Done(text) => RecordOutcome::Done(read(text)),
            EffectOutcome::Failed(text) => RecordOutcome::Failed(read(text)),
        },
    };
    records.iter().map(record).collect()
}

/// Exports everything that is stored about a run as one JSON object.
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

/// Returns the events of a run as a JSON list. Each element contains the event's name and the fields of its payload.
pub async fn status_updates(store: &dyn Store, run: &Run) -> Result<Value, Failure> {
    let updates = store.events(EventQuery::of_run(run)).await?.into_iter().map(|event| {
        let mut update = json!({"event": event.name});
        for (name, value) in event.payload.as_object().into_iter().flatten() {
            update[name] = value.clone();
        }
        update
    });
    Ok(updates.collect())
}

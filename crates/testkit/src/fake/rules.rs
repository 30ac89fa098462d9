//! Rules that several providers share.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Captured, Verdict};

/// The body as the strict type that the provider documents.
pub(super) fn strict<T: DeserializeOwned>(body: &Value) -> Result<T, String> {
    serde_json::from_value(body.clone()).map_err(|error| format!("body: {error} in {body}"))
}

pub(super) fn expect_header(captured: &Captured, name: &str, value: &str) -> Result<(), Verdict> {
    match captured.header(name) {
        Some(found) if found == value => Ok(()),
        _ => {
            let message = serde_json::json!({"error": {"message": format!("{name} is wrong"), "type": "authentication_error"}});
            Err(Verdict::Refuse(401, message))
        }
    }
}

pub(super) fn ensure(holds: bool, complaint: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.into()) }
}

/// Checks that a schema has only closed objects and none of the refused keywords.
pub(super) fn closed_schema(
    schema: &Value,
    refused: &str,
    all_required: bool,
) -> Result<(), String> {
    if let Some(object) = schema.as_object() {
        for keyword in refused.split(' ') {
            ensure(!object.contains_key(keyword), format!("schema has `{keyword}`: {schema}"))?;
        }
        if let Some(properties) = object.get("properties").and_then(Value::as_object) {
            ensure(
                object.get("additionalProperties") == Some(&Value::Bool(false)),
                format!("schema with an open object: {schema}"),
            )?;
            if all_required {
                let required = object.get("required").and_then(Value::as_array);
                let count = required.map_or(0, Vec::len);
                ensure(
                    count == properties.len(),
                    format!("not all properties required: {schema}"),
                )?;
            }
            properties.values().try_for_each(|sub| closed_schema(sub, refused, all_required))?;
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(sub) = object.get(keyword) {
                closed_schema(sub, refused, all_required)?;
            }
        }
        for keyword in ["anyOf", "allOf"] {
            for sub in object.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                closed_schema(sub, refused, all_required)?;
            }
        }
        ensure(!object.contains_key("oneOf"), "schema has `oneOf`")?;
        let format = object.get("format").and_then(Value::as_str);
        ensure(
            !format.is_some_and(|f| f.starts_with("uint") || f.starts_with("int") || f == "double"),
            "unknown format",
        )?;
    }
    Ok(())
}

//! Request checks shared by the fakes of several providers.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{CapturedRequest, RequestFault};

/// Parses a request body into a type that rejects unknown fields.
pub(super) fn parse_strict<T: DeserializeOwned>(body: &Value) -> Result<T, String> {
    serde_json::from_value(body.clone())
        .map_err(|error| format!("invalid request body: {error}: {body}"))
}

pub(super) fn expect_header(
    captured: &CapturedRequest,
    name: &str,
    value: &str,
) -> Result<(), RequestFault> {
    match captured.header(name) {
        Some(found) if found == value => Ok(()),
        _ => {
            let message = serde_json::json!({"error": {"message": format!("invalid {name}"), "type": "authentication_error"}});
            Err(RequestFault::Refuse(401, message))
        }
    }
}

pub(super) fn ensure(holds: bool, complaint: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.into()) }
}

/// Checks that all objects of a schema forbid additional properties, and that the schema has no unsupported keywords.
pub(super) fn closed_schema(
    schema: &Value,
    refused: &str,
    all_required: bool,
) -> Result<(), String> {
    let Some(object) = schema.as_object() else { return Ok(()) };
    for keyword in refused.split(' ').chain(["oneOf"]) {
        ensure(
            !object.contains_key(keyword),
            format!("unsupported keyword `{keyword}` in the schema {schema}"),
        )?;
    }
    let format = object.get("format").and_then(Value::as_str).unwrap_or_default();
    let odd = format.starts_with("uint") || format.starts_with("int") || format == "double";
    ensure(!odd, "unsupported `format` in a schema")?;
    let properties = object.get("properties").and_then(Value::as_object);
    if let Some(properties) = properties {
        let closed = schema["additionalProperties"] == false;
        ensure(closed, format!("an object of the schema allows additional properties: {schema}"))?;
        let required = schema["required"].as_array().map_or(0, Vec::len);
        let all = !all_required || required == properties.len();
        ensure(all, format!("not all properties are required in the schema {schema}"))?;
    }
    let lists = ["anyOf", "allOf"].into_iter().filter_map(|list| schema[list].as_array());
    let inner = ["items", "additionalProperties"].into_iter().filter_map(|name| object.get(name));
    let inner = inner.chain(properties.into_iter().flat_map(Map::values)).chain(lists.flatten());
    inner.into_iter().try_for_each(|inner| closed_schema(inner, refused, all_required))
}

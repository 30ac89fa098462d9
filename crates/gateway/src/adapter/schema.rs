//! Converts JSON schemas to the subset that each provider's constrained decoding supports.
//!
//! Keywords that a provider does not support are moved into the schema's `description`, where the model can read them.
//! The crate `assize_llm` validates every answer against the original schema.

use serde_json::{Map, Value};

/// Schema features that a provider supports or requires.
pub(super) struct SchemaRules {
    /// Schema keywords that the provider does not support, separated by spaces. The conversion moves each of these
    /// keywords, with its value, into the schema's `description`.
    pub(super) unsupported: &'static str,
    /// Values of the schema keyword `format` that the provider supports.
    pub(super) formats: &'static [&'static str],
    /// Whether every object must list all its properties as required.
    pub(super) require_all: bool,
    /// Whether every object must forbid additional properties.
    pub(super) close_objects: bool,
}

const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

pub(super) const ANTHROPIC: SchemaRules = SchemaRules {
    unsupported: "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength \
        minItems maxItems uniqueItems minProperties maxProperties",
    formats: FORMATS,
    require_all: false,
    close_objects: true,
};

pub(super) const OPENAI: SchemaRules = SchemaRules {
    unsupported: "minLength maxLength uniqueItems minProperties maxProperties default",
    formats: FORMATS,
    require_all: true,
    close_objects: true,
};

pub(super) const GOOGLE: SchemaRules = SchemaRules {
    unsupported: "exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern \
        uniqueItems minProperties maxProperties default",
    formats: &["date-time", "date", "time"],
    require_all: false,
    close_objects: false,
};

/// Converts a schema for a provider. Returns `None` if the rules `require_all` or `close_objects` would forbid objects
/// that the schema allows.
pub(super) fn convert_for_provider(schema: &Value, rules: &SchemaRules) -> Option<Value> {
    let Value::Object(keywords) = schema else {
        return Some(schema.clone());
    };
    let mut fitted = Map::new();
    let mut notes = Vec::new();
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("$schema" | "title" | "$id", _) => {}
            ("format", Value::String(format)) if !rules.formats.contains(&format.as_str()) => {}
            ("properties" | "$defs" | "definitions", Value::Object(subs)) => {
                let subs: Option<Map<String, Value>> = subs
                    .iter()
                    .map(|(name, sub)| Some((name.clone(), convert_for_provider(sub, rules)?)))
                    .collect();
                fitted.insert(keyword.clone(), Value::Object(subs?));
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(subs)) => {
                let subs: Option<Vec<Value>> =
                    subs.iter().map(|sub| convert_for_provider(sub, rules)).collect();
                let name = if keyword == "oneOf" { "anyOf" } else { keyword };
                fitted.insert(name.to_owned(), Value::Array(subs?));
            }
            ("items", _) => {
                fitted.insert(keyword.clone(), convert_for_provider(value, rules)?);
            }
            ("const", _) => {
                fitted.insert("enum".to_owned(), Value::Array(vec![value.clone()]));
            }
            // The provider requires that objects forbid additional properties, which this object allows.
            ("additionalProperties", Value::Object(_) | Value::Bool(true))
                if rules.close_objects =>
            {
                return None;
            }
            _ if rules.unsupported.split(' ').any(|refused| refused == keyword) => {
                notes.push(format!("{keyword}: {value}"))
            }
            _ => {
                fitted.insert(keyword.clone(), value.clone());
            }
        }
    }
    if let Some(Value::Object(properties)) = fitted.get("properties") {
        if rules.require_all {
            let required = require_all(properties, keywords.get("required"))?;
            fitted.insert("required".to_owned(), required);
        }
        if rules.close_objects {
            fitted.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    } else if rules.close_objects && fitted.get("type") == Some(&Value::from("object")) {
        return None;
    }
    if !notes.is_empty() {
        let text = fitted.get("description").and_then(Value::as_str).unwrap_or_default();
        let described = format!("{text} ({})", notes.join(", ")).trim_start().to_owned();
        fitted.insert("description".to_owned(), Value::String(described));
    }
    Some(Value::Object(fitted))
}

/// Returns the names of all properties, for the schema keyword `required`. Returns `None` if an optional property does
/// not allow null, because a model that must set this property could not express that the value is missing.
fn require_all(properties: &Map<String, Value>, required: Option<&Value>) -> Option<Value> {
    let required = required.and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let nullable = |schema: &Value| {
        let is_null = |kind: &Value| kind == "null";
        schema.get("type").is_some_and(|kind| match kind {
            Value::Array(kinds) => kinds.iter().any(is_null),
            kind => is_null(kind),
        }) || schema.get("anyOf").and_then(Value::as_array).is_some_and(|alternatives| {
            alternatives.iter().any(|sub| sub.get("type").is_some_and(is_null))
        })
    };
    properties
        .iter()
        .map(|(name, sub)| (is_required(name) || nullable(sub)).then(|| Value::from(name.clone())))
        .collect::<Option<Vec<Value>>>()
        .map(Value::Array)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsupported_schema_keywords_are_moved_into_the_description() {
        let schema = json!({
            "$schema": "x", "title": "Verdict", "type": "object", "required": ["impact"],
            "properties": {
                "impact": {"type": "integer", "format": "uint8", "minimum": 1, "maximum": 10, "description": "How big"},
                "note": {"type": ["string", "null"], "maxLength": 9}
            }
        });
        assert_eq!(
            convert_for_provider(&schema, &ANTHROPIC),
            Some(json!({
                "type": "object", "required": ["impact"],
                "properties": {
                    "impact": {"type": "integer", "description": "How big (minimum: 1, maximum: 10)"},
                    "note": {"type": ["string", "null"], "description": "(maxLength: 9)"}
                },
                "additionalProperties": false
            }))
        );
        let strict = convert_for_provider(&schema, &OPENAI).unwrap();
        assert_eq!(strict["required"], json!(["impact", "note"]));
        assert_eq!(strict["properties"]["impact"]["maximum"], 10);
        assert_eq!(
            convert_for_provider(&schema, &GOOGLE).unwrap().get("additionalProperties"),
            None
        );
    }

    #[test]
    fn schema_is_not_converted_if_the_result_would_forbid_valid_objects() {
        let open =
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}});
        let optional =
            json!({"type": "object", "required": [], "properties": {"a": {"type": "string"}}});
        let nested = json!({"type": "object", "required": ["a"], "properties": {"a": open}});
        assert_eq!(convert_for_provider(&open, &ANTHROPIC), None);
        assert_eq!(convert_for_provider(&nested, &OPENAI), None);
        assert_eq!(convert_for_provider(&optional, &OPENAI), None);
        assert!(convert_for_provider(&optional, &ANTHROPIC).is_some());
        assert!(convert_for_provider(&open, &GOOGLE).is_some());
    }

    #[test]
    fn schema_keyword_one_of_becomes_any_of_and_const_becomes_enum() {
        let schema = json!({"oneOf": [{"const": "a"}, {"type": "array", "items": {"type": "integer", "format": "int64"}}]});
        let fitted = convert_for_provider(&schema, &GOOGLE).unwrap();
        assert_eq!(
            fitted,
            json!({"anyOf": [{"enum": ["a"]}, {"type": "array", "items": {"type": "integer"}}]})
        );
    }
}

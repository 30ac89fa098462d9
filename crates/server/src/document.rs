//! OpenAPI document of the server. It is built from the declarations of the routes, and completed with properties that
//! utoipa cannot express.

use assize_config::Settings;
use serde_json::{Map, Value, json};

use crate::routes::described;

mod answers;
mod settings;

/// Builds the OpenAPI document. The settings of the server determine the bounds of the values in requests.
pub(crate) fn document(config: &Settings) -> Value {
    let (_, document) = described().split_for_parts();
    let mut document = json!(document);
    // OpenAPI has no wildcard path parameters: `{*name}` becomes `{name}`.
    if let Some(paths) = document["paths"].as_object_mut() {
        *paths = std::mem::take(paths)
            .into_iter()
            .map(|(path, methods)| (path.replace("{*", "{"), methods))
            .collect();
    }
    let problem = json!({
        "description": "The request failed, for the reason in `detail`",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    let mut operations: Vec<&mut Value> = Vec::new();
    for methods in
        document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut())
    {
        operations.extend(methods.as_object_mut().into_iter().flat_map(|all| all.values_mut()));
    }
    for operation in operations {
        // Every operation reports errors in the same format.
        operation["responses"]["default"] = problem.clone();
        if let Some(body) = operation.pointer_mut("/requestBody/content/application~1json/schema") {
            remove_null_choice(body);
        }
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            without_null(&mut parameter["schema"]);
        }
        if let Some(file) = operation.pointer_mut("/responses/200/content/*~1*") {
            // The response is a file with arbitrary content, so the schema accepts everything.
            file["schema"] = json!({});
        }
        if let Some(stream) = operation.pointer_mut("/responses/200/content/text~1event-stream") {
            *stream = json!({"itemSchema": {"$ref": "#/components/schemas/StreamEvent"}});
        }
    }
    let schemas = &mut document["components"]["schemas"];
    for (name, schema) in answers::schemas() {
        schemas[name] = schema;
    }
    schemas["StreamEvent"] = stream_event();
    schemas["RequestSettings"]["properties"] =
        settings::properties(config, &schemas["RequestSettings"]["properties"]);
    for (place, schema) in NARROWED {
        narrow(schemas, place, &schema());
    }
    describe_starts(schemas);
    bound_integers(&mut document);
    document["components"]["securitySchemes"] =
        json!({"token": {"type": "http", "scheme": "bearer"}});
    document["security"] = json!([{"token": []}]);
    document
}

/// JSON pointer to one of the schemas of the OpenAPI document, and a function that returns the keywords to add to
/// this schema.
type Narrowing = (&'static str, fn() -> Value);

/// Schemas that must accept fewer values than their Rust types do, each with the additional keywords.
const NARROWED: [Narrowing; 8] = [
    ("/ExecBody/properties/arguments/items", no_nul),
    ("/ExecBody/properties/env/additionalProperties", no_nul),
    ("/ExecBody/properties/env", variable_names),
    ("/RunProgram/properties/program/items", no_nul),
    ("/RunProgram/properties/env/additionalProperties", no_nul),
    ("/RunProgram/properties/env", variable_names),
    ("/RunProgram/properties/cwd", path),
    ("/Upload", one_content),
];

/// Keywords of a JSON schema that require a text without NUL bytes, which arguments and environment variables of
/// programs cannot contain.
fn no_nul() -> Value {
    json!({"pattern": "^[^\\x00]*$"})
}

fn path() -> Value {
    json!({"pattern": "^[^\\x00]+$"})
}

/// Keywords for an object whose field names are valid names of environment variables.
fn variable_names() -> Value {
    json!({"propertyNames": {"pattern": "^[^=\\x00]+$"}})
}

/// Keywords for an object that has exactly one of the fields `text` and `base64`.
fn one_content() -> Value {
    let base64 = json!({"type": "string", "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"});
    json!({"oneOf": [
        {"required": ["text"], "properties": {"text": {"type": "string"}, "base64": {"type": "null"}}},
        {"required": ["base64"], "properties": {"base64": base64, "text": {"type": "null"}}},
    ]})
}

/// Adds keywords to the schema at a JSON pointer.
fn narrow(schemas: &mut Value, place: &str, keywords: &Value) {
    let Some(schema) = schemas.pointer_mut(place) else { return };
    for (keyword, value) in keywords.as_object().into_iter().flatten() {
        schema[keyword] = value.clone();
    }
}

/// Schema of one server-sent event, with its SSE fields as properties.
fn stream_event() -> Value {
    json!({
        "type": "object",
        "description": "One server-sent event. docs/reference/events.md lists the event names and their data.",
        "required": ["event", "data"],
        "properties": {
            "id": {
                "type": "string", "pattern": "^[0-9]+$",
                "description": "Id of the event, for `Last-Event-ID`; absent from events that are not stored",
            },
            "event": {"type": "string", "description": "Name of the event, such as `snapshot` or `run_ended`"},
            "data": {
                "type": "string", "contentMediaType": "application/json",
                "contentSchema": {"type": "object"},
            },
            "retry": {
                "type": "integer",
                "description": "Number of milliseconds that the client waits before it reconnects",
            },
        },
    })
}

/// Replaces a `oneOf` of `null` and one other schema by that schema, because an optional body is omitted and never
/// null.
fn remove_null_choice(schema: &mut Value) {
    let choices = schema["oneOf"].as_array().cloned().unwrap_or_default();
    let mut others = choices.into_iter().filter(|choice| choice["type"] != "null");
    if let (Some(only), None) = (others.next(), others.next()) {
        *schema = only;
    }
}

/// Removes `null` from the schema of a parameter, because a header or query parameter is omitted and never null.
fn without_null(schema: &mut Value) {
    remove_null_choice(schema);
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [only] = &kinds[..] {
            schema["type"] = only.clone();
        }
    }
}

/// Replaces the formats of integers by minimum and maximum in all schemas, because OpenAPI has no unsigned formats.
fn bound_integers(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            if let Some((least, most)) = integer_bounds(fields) {
                fields.remove("format");
                fields.entry("minimum").or_insert(least);
                fields.entry("maximum").or_insert(most);
            }
            fields.values_mut().for_each(bound_integers);
        }
        Value::Array(parts) => parts.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

/// Minimum and maximum of an integer, from the `format` in its schema. utoipa uses the formats `int32` and `int64` also
/// for unsigned integers, but only the schemas of unsigned integers have a `minimum`.
fn integer_bounds(schema: &Map<String, Value>) -> Option<(Value, Value)> {
    let unsigned = schema.get("minimum").is_some();
    Some(match (schema.get("format")?.as_str()?, unsigned) {
        ("uint8", _) => (json!(0), json!(u8::MAX)),
        ("uint16", _) => (json!(0), json!(u16::MAX)),
        ("uint32", _) => (json!(0), json!(u32::MAX)),
        ("uint" | "uint64", _) => (json!(0), json!(u64::MAX)),
        ("int32", true) => (json!(0), json!(u32::MAX)),
        ("int32", false) => (json!(i32::MIN), json!(i32::MAX)),
        ("int64", true) => (json!(0), json!(u64::MAX)),
        ("int64", false) => (json!(i64::MIN), json!(i64::MAX)),
        _ => return None,
    })
}

/// Inlines the schemas of the variants of `StartBody`. Each variant has the field `kind` beside its other fields and
/// allows no additional fields, which an `allOf` of two schemas cannot express.
fn describe_starts(schemas: &mut Value) {
    let known = schemas.clone();
    for branch in schemas["StartBody"]["oneOf"].as_array_mut().into_iter().flatten() {
        let parts = branch["allOf"].as_array().cloned().unwrap_or_default();
        let named = parts.iter().find_map(|part| part["$ref"].as_str()?.rsplit('/').next());
        let kind = parts.iter().find(|part| !part["properties"]["kind"].is_null());
        let (Some(named), Some(kind)) = (named, kind) else { continue };
        let mut whole = known[named].clone();
        whole["properties"]["kind"] = kind["properties"]["kind"].clone();
        let required = whole["required"].as_array().cloned().unwrap_or_default();
        whole["required"] = required.into_iter().chain([json!("kind")]).collect();
        whole["description"] = branch["description"].clone();
        *branch = whole;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use assize_config::Environment;

    use super::*;
    use crate::pages;

    fn document() -> Value {
        let folder = tempfile::tempdir().unwrap();
        let variable = ("ASSIZE_SANDBOX_TIMEOUT_SECONDS".to_owned(), "7.5".to_owned());
        let environment = Environment::in_folder(folder.path(), [variable].into());
        super::document(&Settings::load(&environment, &[]).unwrap())
    }

    #[test]
    fn openapi_document_describes_every_route_once() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "duplicate operation id {id}");
                assert!(operation["summary"].is_string(), "{method} {path}");
                let tag = operation["tags"][0].as_str().unwrap();
                assert!(pages::TAGS.contains(&tag), "the API reference lacks the tag {tag}");
                assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            }
        }
        let kinds = document["components"]["schemas"]["StartBody"]["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), 5);
        for kind in kinds {
            assert_eq!(kind["additionalProperties"], false, "{kind}");
            assert!(!kind["properties"]["kind"].is_null(), "{kind}");
            assert!(kind["required"].as_array().unwrap().contains(&json!("kind")), "{kind}");
        }
    }

    #[test]
    fn every_reference_in_the_openapi_document_points_to_a_schema() {
        fn references<'d>(part: &'d Value, found: &mut BTreeSet<&'d str>) {
            match part {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|field| references(field, found));
                }
                Value::Array(parts) => parts.iter().for_each(|part| references(part, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in found {
            let schema = document.pointer(reference.trim_start_matches('#'));
            let schema = schema.unwrap_or_else(|| panic!("unknown schema {reference}"));
            assert_ne!(schema["$ref"], reference, "the schema refers to itself");
        }
    }

    #[test]
    fn names_of_response_schemas_in_the_openapi_document_are_unique() {
        let (_, declared) = described().split_for_parts();
        let declared = json!(declared);
        for name in answers::schemas().keys() {
            // If two types have the same name, schemars appends a number to the second name.
            assert!(
                !name.ends_with(|c: char| c.is_ascii_digit()),
                "two types have the name `{name}`"
            );
            let other = &declared["components"]["schemas"][name];
            let own = json!({"$ref": format!("#/components/schemas/{name}")});
            assert!(other.is_null() || *other == own, "`{name}` is also a request type: {other}");
        }
    }

    #[test]
    fn event_streams_have_an_item_schema_in_the_openapi_document() {
        let document = document();
        assert_eq!(document["openapi"], "3.2.0");
        let streams =
            ["/api/runs/{id}/events", "/api/events", "/api/workspaces/{workspace}/events"];
        for path in streams {
            let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
            let stream = &content["text/event-stream"];
            assert_eq!(stream["itemSchema"]["$ref"], "#/components/schemas/StreamEvent", "{path}");
            assert!(stream.get("schema").is_none(), "{path}: {stream}");
        }
        assert_eq!(
            document["components"]["schemas"]["StreamEvent"]["required"],
            json!(["event", "data"])
        );
    }

    #[test]
    fn narrowed_schemas_exist_in_the_openapi_document() {
        let document = document();
        for (place, _) in NARROWED {
            let there = document["components"]["schemas"].pointer(place);
            assert!(there.is_some(), "the schemas have no value at the JSON pointer {place}");
        }
    }

    #[test]
    fn bounds_in_the_openapi_document_match_the_limits_that_the_server_enforces() {
        let document = document();
        let text = document.to_string();
        assert!(!text.contains("\"int64\"") && !text.contains("\"int32\""));
        let after = document["paths"]["/api/events"]["get"]["parameters"].as_array().unwrap();
        let after = after.iter().find(|one| one["name"] == "after").unwrap();
        assert_eq!(after["schema"]["maximum"], json!(u64::MAX), "{after}");
        let settings = &document["components"]["schemas"]["RequestSettings"]["properties"];
        assert_eq!(settings["timeout_seconds"]["minimum"], json!(0.001), "{settings}");
        // The operator has set this timeout, so that value is the maximum for requests.
        assert_eq!(settings["timeout_seconds"]["maximum"], json!(7.5), "{settings}");
        assert_eq!(settings["processes"]["minimum"], json!(2), "{settings}");
        // The operator has not set the memory limit, so the setting `serve.max_memory` (4G) is the maximum for
        // requests.
        let memory = regex::Regex::new(settings["memory"]["pattern"].as_str().unwrap()).unwrap();
        assert!(
            memory.is_match("4G") && !memory.is_match("5G") && !memory.is_match("8M"),
            "{memory}"
        );
        let isolations = settings["isolation"]["enum"].as_array().unwrap();
        assert!(isolations.contains(&json!("at-least=docker")), "{settings}");
    }
}

//! Converts a value to match a schema where that needs no guess: a number in quotes, a key spelled
//! `Risk-Adjusted Return`. Every change is recorded as a [`Fix`]; values are never filled in, clamped or dropped.

use serde_json::{Map, Value};

use super::Fix;

/// Maximum depth of a value that is converted, so that recursion ends for a schema that refers to itself.
const MAX_DEPTH: usize = 64;

/// Converts `value` in place to match `schema`, and adds its changes to `fixes`.
pub(crate) fn conform(value: &mut Value, schema: &Value, fixes: &mut Vec<Fix>) {
    fit(value, schema, schema, fixes, 0);
}

fn fit(value: &mut Value, schema: &Value, root: &Value, fixes: &mut Vec<Fix>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let schema = resolve(schema, root);
    match value {
        Value::Object(members) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            respell_keys(members, properties, fixes);
            for (name, sub) in properties {
                if let Some(member) = members.get_mut(name) {
                    fit(member, sub, root, fixes, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            if let Some(sub) = schema.get("items") {
                for item in items {
                    fit(item, sub, root, fixes, depth + 1);
                }
            }
        }
        scalar => {
            let exact = !fixes.contains(&Fix::NumberFormat);
            if let Some(better) = retype(scalar, schema, exact) {
                *scalar = better;
                note(fixes, Fix::Retyped);
            }
        }
    }
}

/// Resolves local references, and reduces the schema of an optional field to its only alternative besides `null`.
fn resolve<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let mut schema = schema;
    for _ in 0..8 {
        let next = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => reference.strip_prefix('#').and_then(|path| root.pointer(path)),
            None => only_alternative(schema),
        };
        match next {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

fn only_alternative(schema: &Value) -> Option<&Value> {
    let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let mut others = alternatives.iter().filter(|a| a.get("type") != Some(&Value::from("null")));
    let only = others.next()?;
    others.next().is_none().then_some(only)
}

fn retype(value: &Value, schema: &Value, exact: bool) -> Option<Value> {
    let allows = |kind: &str| match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(many)) => many.iter().any(|t| t == kind),
        _ => false,
    };
    match value {
        Value::String(text) if !allows("string") => {
            let text = text.trim();
            if allows("integer") || allows("number") {
                let number: serde_json::Number = serde_json::from_str(text).ok()?;
                return Some(
                    whole(&number).filter(|_| allows("integer")).unwrap_or(Value::Number(number)),
                );
            }
            match (text.to_ascii_lowercase().as_str(), allows("boolean")) {
                ("true", true) => Some(Value::Bool(true)),
                ("false", true) => Some(Value::Bool(false)),
                _ => None,
            }
        }
        // `8.0` is an integer for JSON Schema, but not for serde.
        Value::Number(number) if allows("integer") && !number.is_i64() && !number.is_u64() => {
            whole(number)
        }
        // Only a number whose digits are exactly as the model wrote them.
        Value::Number(number)
            if exact
                && (number.is_i64() || number.is_u64())
                && allows("string")
                && !allows("number")
                && !allows("integer") =>
        {
            Some(Value::String(number.to_string()))
        }
        _ => None,
    }
}

/// Converts a number to an integer, if it is integral and exactly representable.
fn whole(number: &serde_json::Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.is_i64() || number.is_u64() {
        return Some(Value::Number(number.clone()));
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Value::from(float as i64))
}

/// Renames a key that differs from a missing property only in case, blanks, hyphens or underscores, if exactly one key
/// matches.
fn respell_keys(
    members: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    fixes: &mut Vec<Fix>,
) {
    let missing: Vec<&String> = properties.keys().filter(|k| !members.contains_key(*k)).collect();
    for property in missing {
        let plain = plain_key(property);
        let mut alike: Vec<String> = members
            .keys()
            .filter(|key| !properties.contains_key(*key) && plain_key(key) == plain)
            .cloned()
            .collect();
        if alike.len() == 1
            && let Some(value) = alike.pop().and_then(|key| members.remove(&key))
        {
            members.insert(property.clone(), value);
            note(fixes, Fix::KeySpelling);
        }
    }
}

/// Normalizes a key: lowercase letters and digits only.
pub(crate) fn plain_key(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn note(fixes: &mut Vec<Fix>, fix: Fix) {
    if !fixes.contains(&fix) {
        fixes.push(fix);
    }
}

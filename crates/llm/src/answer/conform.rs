//! Fits a value to a schema where that takes no guess: a number in quotes, a key spelled
//! `Risk-Adjusted Return`. Every change is a [`Fix`]; nothing is filled in, clamped or dropped.

use serde_json::{Map, Value};

use super::Fix;

/// References are followed at most this often, so that a schema that points at itself ends.
const MAX_DEPTH: usize = 64;

/// Fits `value` to `schema` in place and adds what it changed to `fixes`.
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

/// The schema that `schema` stands for: follows local references, and the one alternative beside
/// `null` of an optional field.
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
    let allows = |wanted: &str| match schema.get("type") {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(many)) => many.iter().any(|t| t == wanted),
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
        // `8.0` is an integer to JSON schema and none to Rust.
        Value::Number(number) if allows("integer") && !number.is_i64() && !number.is_u64() => {
            whole(number)
        }
        // Only a number whose digits are the ones that were written.
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

/// A number as an integer, if it is one exactly.
fn whole(number: &serde_json::Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.is_i64() || number.is_u64() {
        return Some(Value::Number(number.clone()));
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Value::from(float as i64))
}

/// Renames keys that differ from a missing property in case, blanks, hyphens or underscores alone,
/// where exactly one key and one property match.
fn respell_keys(
    members: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    fixes: &mut Vec<Fix>,
) {
    let missing: Vec<&String> = properties.keys().filter(|k| !members.contains_key(*k)).collect();
    for wanted in missing {
        let plain = plain_key(wanted);
        let mut alike: Vec<String> = members
            .keys()
            .filter(|key| !properties.contains_key(*key) && plain_key(key) == plain)
            .cloned()
            .collect();
        if alike.len() == 1
            && let Some(value) = alike.pop().and_then(|key| members.remove(&key))
        {
            members.insert(wanted.clone(), value);
            note(fixes, Fix::KeySpelling);
        }
    }
}

/// A key without what people write differently: case, blanks, hyphens, underscores.
pub(crate) fn plain_key(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn note(fixes: &mut Vec<Fix>, fix: Fix) {
    if !fixes.contains(&fix) {
        fixes.push(fix);
    }
}

//! Converts the parts of a parsed JSON value that do not match a schema, if only one conversion is possible. Examples
//! are a number in quotes, and the key `Risk-Adjusted Return` instead of `risk_adjusted_return`. Every change is
//! recorded as a [`Fix`]. Values are never added, clamped or removed.

use serde_json::{Map, Value};

use super::Fix;

/// Maximum nesting depth at which values are converted. The maximum ends the recursion if a schema refers to itself.
const MAX_DEPTH: usize = 64;

/// Converts `value` in place to match `schema`, and adds the changes to `fixes`.
pub(crate) fn conform(value: &mut Value, schema: &Value, fixes: &mut Vec<Fix>) {
    convert(value, schema, schema, fixes, 0);
}

fn convert(value: &mut Value, schema: &Value, root: &Value, fixes: &mut Vec<Fix>, depth: usize) {
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
                    convert(member, sub, root, fixes, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            if let Some(sub) = schema.get("items") {
                for item in items {
                    convert(item, sub, root, fixes, depth + 1);
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

/// Returns the schema that a local reference (`$ref`) points to, or the only alternative besides `null`, as for an
/// optional field. Returns other schemas unchanged.
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
        // JSON Schema accepts `8.0` as an integer, but serde does not.
        Value::Number(number) if allows("integer") && !number.is_i64() && !number.is_u64() => {
            whole(number)
        }
        // A number is converted to a string only if its digits are exactly as the model wrote them.
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

/// Converts a number to an integer. Returns `None` if the number has a fraction or is too large to be converted
/// exactly.
fn whole(number: &serde_json::Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.is_i64() || number.is_u64() {
        return Some(Value::Number(number.clone()));
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Value::from(float as i64))
}

/// Renames misspelt keys to the names of missing properties. A key matches a property if their names differ only in
/// case and punctuation. A key is renamed only if no other key matches the same property.
fn respell_keys(
    members: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    fixes: &mut Vec<Fix>,
) {
    let missing: Vec<&String> = properties.keys().filter(|k| !members.contains_key(*k)).collect();
    for property in missing {
        let plain = normalized_key(property);
        let mut alike: Vec<String> = members
            .keys()
            .filter(|key| !properties.contains_key(*key) && normalized_key(key) == plain)
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

/// Normalizes a key for comparison: keeps only letters and digits, in lower case.
pub(crate) fn normalized_key(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn note(fixes: &mut Vec<Fix>, fix: Fix) {
    if !fixes.contains(&fix) {
        fixes.push(fix);
    }
}

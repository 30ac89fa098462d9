//! Generates a random value that matches a JSON schema.

use assize_llm::Schema;
use assize_llm::answer::AnswerReader;
use serde_json::{Map, Value, json};

/// Maximum nesting depth of a generated value. A schema that requires a deeper value, for example because the schema
/// refers to itself, is an error.
const MAX_DEPTH: usize = 24;

/// Maximum number of items of a generated list.
const MAX_ITEMS: u64 = 1000;

/// Maximum number of characters of a generated text.
const MAX_CHARS: usize = 100_000;

/// Maximum absolute value of a generated integer. A float represents integers up to this value exactly.
const MAX_NUMBER: f64 = 9e15;

/// Generates a value that matches the schema. The error explains which part of the schema is not supported.
pub(super) fn fill(schema: &Value, dice: &mut fastrand::Rng) -> Result<Value, String> {
    let value = Filler { root: schema, dice }.value(schema, "answer", 0)?;
    // Validation catches schema keywords that the generator does not support.
    let whole =
        Schema::from_value("rehearsal", schema.clone()).map_err(|error| error.to_string())?;
    let reader = AnswerReader::new(&whole).ok_or("the schema is not valid")?;
    match reader.read(&value.to_string()) {
        Ok((value, _)) => Ok(value),
        Err(reason) => Err(format!("the generated value does not match the schema: {reason}")),
    }
}

struct Filler<'s, 'd> {
    root: &'s Value,
    dice: &'d mut fastrand::Rng,
}

impl<'s> Filler<'s, '_> {
    fn value(&mut self, schema: &'s Value, name: &str, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("the schema refers to itself without end".to_owned());
        }
        let get = |keyword: &str| schema.get(keyword);
        if let Some(reference) = get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            let target = target.ok_or_else(|| format!("unresolved reference `{reference}`"))?;
            return self.value(target, name, depth + 1);
        }
        if let Some(constant) = get("const") {
            return Ok(constant.clone());
        }
        for keyword in ["enum", "examples"] {
            if let Some(choices) = get(keyword).and_then(Value::as_array).filter(|c| !c.is_empty())
            {
                return Ok(choices[self.dice.usize(..choices.len())].clone());
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(choices) = get(keyword).and_then(Value::as_array) {
                return self.alternative(choices, name, depth);
            }
        }
        if let Some(parts) = get("allOf").and_then(Value::as_array) {
            return self.all_of(schema, parts, name, depth);
        }
        let kind = match get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            // A field that may be null gets a value, because a complete answer is a better example.
            Some(Value::Array(kinds)) => kinds
                .iter()
                .filter_map(Value::as_str)
                .find(|kind| *kind != "null")
                .unwrap_or("null"),
            _ if get("properties").is_some() => "object",
            _ => "string",
        };
        match kind {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" => self.integer(schema),
            "number" => self.number(schema),
            "boolean" => Ok(Value::Bool(self.dice.bool())),
            "null" => Ok(Value::Null),
            _ => self.string(schema, name),
        }
    }

    fn alternative(
        &mut self,
        choices: &'s [Value],
        name: &str,
        depth: usize,
    ) -> Result<Value, String> {
        let start = self.dice.usize(..choices.len().max(1));
        let mut reason = "there is no alternative to choose from".to_owned();
        for offset in 0..choices.len() {
            let choice = &choices[(start + offset) % choices.len()];
            if choice.get("type") == Some(&json!("null")) && choices.len() > 1 {
                continue;
            }
            match self.value(choice, name, depth + 1) {
                Ok(value) => return Ok(value),
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    fn all_of(
        &mut self,
        schema: &'s Value,
        parts: &'s [Value],
        name: &str,
        depth: usize,
    ) -> Result<Value, String> {
        let own = if schema.get("properties").is_some() {
            self.object(schema, depth)?
        } else {
            json!({})
        };
        let mut members = own.as_object().cloned().unwrap_or_default();
        for part in parts {
            match self.value(part, name, depth + 1)? {
                Value::Object(more) => members.extend(more),
                scalar => return Ok(scalar),
            }
        }
        Ok(Value::Object(members))
    }

    fn object(&mut self, schema: &'s Value, depth: usize) -> Result<Value, String> {
        let mut members = Map::new();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, sub) in properties {
                members.insert(name.clone(), self.value(sub, name, depth + 1)?);
            }
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self, schema: &'s Value, name: &str, depth: usize) -> Result<Value, String> {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
        let min = bound("minItems").unwrap_or(1);
        let max = bound("maxItems").unwrap_or_else(|| min.max(3)).max(min);
        if min > MAX_ITEMS {
            return Err(format!("a list of more than {MAX_ITEMS} items cannot be generated"));
        }
        let count = self.dice.u64(min..=max.min(min + 8));
        let any = Value::Bool(true);
        let items = schema.get("items");
        let unique = schema.get("uniqueItems") == Some(&any);
        let mut values: Vec<Value> = Vec::new();
        let mut tries = 0;
        while (values.len() as u64) < count && tries < 20 * count {
            tries += 1;
            let value = match items {
                Some(items) => self.value(items, name, depth + 1)?,
                None => Value::String(self.words(name)),
            };
            if !unique || !values.contains(&value) {
                values.push(value);
            }
        }
        Ok(Value::Array(values))
    }

    fn integer(&mut self, schema: &Value) -> Result<Value, String> {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let within = |number: f64| number.clamp(-MAX_NUMBER, MAX_NUMBER) as i64;
        let min = bound("minimum")
            .map(f64::ceil)
            .or_else(|| bound("exclusiveMinimum").map(|min| min.floor() + 1.0))
            .map(within);
        let max = bound("maximum")
            .map(f64::floor)
            .or_else(|| bound("exclusiveMaximum").map(|max| max.ceil() - 1.0))
            .map(within);
        let min = min.unwrap_or_else(|| max.filter(|max| *max < 0).map_or(0, |max| max - 100));
        let max = max.unwrap_or_else(|| min.saturating_add(100));
        if max < min {
            return Err("no integer within the schema's bounds can be generated".to_owned());
        }
        let step = bound("multipleOf").map_or(1, within).max(1);
        let drawn = self.dice.i64(min..=max);
        let floored = drawn - drawn.rem_euclid(step);
        Ok(json!(if floored < min { floored + step } else { floored }))
    }

    fn number(&mut self, schema: &Value) -> Result<Value, String> {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let max = bound("maximum").or(bound("exclusiveMaximum"));
        let min = bound("minimum").or(bound("exclusiveMinimum"));
        let min = min.unwrap_or_else(|| max.filter(|max| *max <= 0.0).map_or(0.0, |max| max - 1.0));
        let max = max.unwrap_or(min + 1.0);
        if max < min {
            return Err("no number within the schema's bounds can be generated".to_owned());
        }
        // The number has two decimals. If it is not between the bounds, the middle of the bounds is used, which never
        // equals an exclusive bound.
        let drawn = ((min + (max - min) * self.dice.f64()) * 100.0).round() / 100.0;
        let inside = min < drawn && drawn < max;
        Ok(json!(if inside { drawn } else { min + (max - min) / 2.0 }))
    }

    fn string(&mut self, schema: &Value, name: &str) -> Result<Value, String> {
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            return Err(format!("text for the pattern `{pattern}` cannot be generated"));
        }
        match schema.get("format").and_then(Value::as_str) {
            Some("date") => return Ok(json!("2026-01-15")),
            Some("date-time") => return Ok(json!("2026-01-15T09:30:00Z")),
            Some("time") => return Ok(json!("09:30:00Z")),
            Some("email") => return Ok(json!("someone@example.com")),
            Some("uri") => return Ok(json!("https://example.com/")),
            Some("uuid") => {
                let number = self.dice.u64(..1 << 48);
                return Ok(json!(format!("00000000-0000-4000-8000-{number:012x}")));
            }
            Some("ipv4") => return Ok(json!("192.0.2.1")),
            _ => {}
        }
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64).map(|n| n as usize);
        let mut text = self.words(name);
        if bound("minLength").is_some_and(|min| min > MAX_CHARS) {
            return Err(format!("a text of more than {MAX_CHARS} characters cannot be generated"));
        }
        while text.chars().count() < bound("minLength").unwrap_or(0) {
            text.push_str(", and so on");
        }
        if let Some(max) = bound("maxLength") {
            text = text.chars().take(max).collect();
        }
        Ok(Value::String(text))
    }

    fn words(&mut self, name: &str) -> String {
        let name = name.replace(['_', '-'], " ");
        let ways = [
            "as rehearsed",
            "in one line",
            "for the sake of the shape",
            "taken as given",
            "still to be argued",
        ];
        format!("{name}, {}", ways[self.dice.usize(..ways.len())])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (-50i64..50, 0i64..60).prop_map(|(min, more)| json!({"type": "integer", "minimum": min, "maximum": min + more})),
            (-50i64..50).prop_map(|max| json!({"type": "integer", "maximum": max})),
            (-5i64..5).prop_map(|max| json!({"type": "number", "exclusiveMaximum": max})),
            (-5i64..5, 1i64..9).prop_map(|(min, more)| json!({"type": "number", "exclusiveMinimum": min, "exclusiveMaximum": min + more})),
            (0u64..30, 0u64..60).prop_map(|(min, more)| json!({"type": "string", "minLength": min, "maxLength": min + more})),
            Just(json!({"enum": ["a", 2, null]})),
            Just(json!({"type": ["boolean", "null"]})),
            Just(json!({"type": "string", "format": "date"})),
            Just(json!({"const": {"k": 1}})),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                (inner.clone(), 0u64..3, 0u64..4).prop_map(|(items, min, more)| json!({"type": "array", "items": items, "minItems": min, "maxItems": min + more})),
                prop::collection::btree_map("[a-z]{1,5}", inner.clone(), 0..4).prop_map(|properties| {
                    let required: Vec<&String> = properties.keys().collect();
                    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
                }),
                prop::collection::vec(inner, 1..3).prop_map(|choices| json!({"anyOf": choices})),
            ]
        })
    }

    proptest! {
        #[test]
        fn generated_value_matches_its_schema(sub in any_schema(), seed in any::<u64>()) {
            let schema = json!({"type": "object", "properties": {"x": sub}, "required": ["x"]});
            let value = fill(&schema, &mut fastrand::Rng::with_seed(seed));
            prop_assert!(value.is_ok(), "{value:?} for {schema}");
            prop_assert_eq!(value, fill(&schema, &mut fastrand::Rng::with_seed(seed)));
        }
    }

    #[test]
    fn schema_with_excessive_bounds_is_rejected() {
        let mut dice = fastrand::Rng::with_seed(1);
        for sub in [
            json!({"type": "integer", "minimum": 1e300, "multipleOf": 10}),
            json!({"type": "array", "minItems": u64::MAX}),
            json!({"type": "string", "minLength": 3_000_000}),
            json!({"type": "integer", "multipleOf": 1e300, "minimum": 1}),
        ] {
            let schema = json!({"type": "object", "properties": {"x": sub}, "required": ["x"]});
            assert!(fill(&schema, &mut dice).is_err(), "{schema}");
        }
    }

    #[test]
    fn unsupported_schema_keywords_are_reported() {
        let mut dice = fastrand::Rng::with_seed(1);
        let pattern = json!({"type": "object", "properties": {"id": {"type": "string", "pattern": "^[A-Z]{3}$"}}, "required": ["id"]});
        assert!(fill(&pattern, &mut dice).unwrap_err().contains("pattern"));
        let endless =
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]});
        assert!(fill(&endless, &mut dice).unwrap_err().contains("without end"));
    }
}

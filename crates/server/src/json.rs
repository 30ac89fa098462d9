//! JSON parser for requests. It accepts integers that are written with a zero fraction, and rejects duplicate fields.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// JSON value from a request. A number such as `3500.0` is parsed as the integer 3500, as JSON Schema requires. An
/// object with a duplicate field is rejected.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Json(pub(crate) Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        from.deserialize_any(JsonVisitor).map(Json)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "the value is whole and within the bounds of the type"
    )]
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // The upper bound is exclusive, because `u64::MAX as f64` rounds up to a value that does not fit in a `u64`.
        Ok(match value {
            whole if whole.fract() == 0.0 && (0.0..u64::MAX as f64).contains(&whole) => {
                (whole as u64).into()
            }
            whole if whole.fract() == 0.0 && (i64::MIN as f64..0.0).contains(&whole) => {
                (whole as i64).into()
            }
            other => other.into(),
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Json(value)) = from.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((name, Json(value))) = from.next_entry::<String, Json>()? {
            if values.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            values.insert(name, value);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Value, serde_json::Error> {
        serde_json::from_str::<Json>(text).map(|Json(value)| value)
    }

    #[test]
    fn numbers_with_a_zero_fraction_are_parsed_as_integers() {
        for (text, value) in [
            ("3500.0", json!(3500)),
            ("-2.0", json!(-2)),
            ("1e3", json!(1000)),
            ("-0.0", json!(0)),
            ("0.5", json!(0.5)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1e30", json!(1e30)),
            ("[{\"a\": 1.0}, true, null, \"1.0\"]", json!([{"a": 1}, true, null, "1.0"])),
        ] {
            assert_eq!(read(text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn json_with_duplicate_fields_or_trailing_text_is_rejected() {
        assert!(
            read("{\"a\": 1, \"a\": 2}").unwrap_err().to_string().contains("duplicate field `a`")
        );
        assert!(read("{} {}").is_err());
        assert!(read("1e400").is_err());
    }
}

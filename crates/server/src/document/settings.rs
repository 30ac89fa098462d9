//! Schemas of the settings in a request. They are derived from the table of all settings and from the values that the
//! operator has set.

use assize_config::{Setting, SettingGuard, SettingKind, Settings};
use serde_json::{Value, json};

use crate::api::request_parts::SETTINGS;

/// Regular expression for a text without control characters.
const PLAIN_TEXT: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]+$";

/// All values of the setting `isolation`.
const ISOLATIONS: [&str; 7] =
    ["auto", "jail", "docker", "microvm", "at-least=jail", "at-least=docker", "at-least=microvm"];

/// Builds the properties of the schema of `settings`. The descriptions are copied from the schema that utoipa declared.
pub(super) fn properties(config: &Settings, declared: &Value) -> Value {
    let mut properties = declared.clone();
    for (field, key) in SETTINGS {
        let mut schema = schema(config, key.setting());
        if let Some(about) = declared[field].get("description") {
            schema["description"] = about.clone();
        }
        properties[field] = schema;
    }
    properties
}

/// Schema of the values that a request may use for a setting. The value null means that the request does not override
/// the setting.
fn schema(config: &Settings, setting: &Setting) -> Value {
    let accepts = |value: &str| config.with_request(&[(setting.key, value.to_owned())]).is_ok();
    let one_of = |values: &[&str]| {
        let mut values: Vec<Value> =
            values.iter().copied().filter(|value| accepts(value)).map(Value::from).collect();
        values.push(Value::Null);
        json!({"type": ["string", "null"], "enum": values})
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the maximum is a whole number: it was parsed as one, or it is a size in bytes"
    )]
    let at_most = |most: u64| ceiling(config, setting).map_or(most, |ceiling| ceiling as u64);
    match &setting.kind {
        SettingKind::Whole(least, most) => {
            let most = at_most(*most);
            json!({"type": ["integer", "null"], "minimum": least, "maximum": most})
        }
        SettingKind::Decimal(least, most) => {
            let most = ceiling(config, setting).unwrap_or(*most);
            json!({"type": ["number", "null"], "minimum": least, "maximum": most})
        }
        SettingKind::Size(least, most) => {
            json!({"type": ["string", "null"], "pattern": sizes(*least, at_most(*most))})
        }
        SettingKind::Choice(choices) => one_of(choices),
        SettingKind::Isolation => one_of(&ISOLATIONS),
        SettingKind::Text | SettingKind::Url | SettingKind::Variable | SettingKind::Servers => {
            json!({"type": ["string", "null"], "pattern": PLAIN_TEXT})
        }
    }
}

/// Maximum value that a request may use for a setting: the value that the operator has set for this setting, or else
/// the value of the corresponding `serve.max_*` setting. `None` if neither value exists or requests may exceed it.
fn ceiling(config: &Settings, setting: &Setting) -> Option<f64> {
    let set = config.text_of(setting.key).filter(|written| written.is_set());
    let most = set.or_else(|| config.text_of(setting.request_limit()?))?;
    setting.kind.as_number(most).filter(|_| setting.guard != SettingGuard::Open)
}

/// Regular expression that matches all sizes from `least` to `most` bytes, written with a unit such as `256M`.
fn sizes(least: u64, most: u64) -> String {
    let of_unit = |(shift, unit): (u32, &str)| {
        let (low, high) = (least.div_ceil(1 << shift).max(1), most >> shift);
        (low <= high).then(|| format!("({})[{unit}]", numbers(low, high)))
    };
    let units: Vec<String> =
        [(10, "Kk"), (20, "Mm"), (30, "Gg")].into_iter().filter_map(of_unit).collect();
    format!("^({})[Bb]?$", units.join("|"))
}

/// Regular expression that matches the decimal numbers from `low` to `high`, without leading zeros.
///
/// The range is split into smaller ranges. The numbers of one such range have the same first digits, then one digit
/// between two bounds, and then any digits.
fn numbers(low: u64, high: u64) -> String {
    let mut pieces = Vec::new();
    let mut start = low;
    while start <= high {
        // Find the longest piece that begins at `start`: lengthen the suffix of arbitrary digits while the piece stays
        // within the range.
        let mut power = 1;
        while start.is_multiple_of(power * 10) && start + (power * 10 - 1) <= high {
            power *= 10;
        }
        // Then increase the digit before the suffix as far as the range allows.
        let digit = start / power % 10;
        let steps = ((high + 1 - start) / power - 1).min(9 - digit);
        let end_digit = digit + steps;
        let head = start / power / 10;
        let head = if head == 0 { String::new() } else { head.to_string() };
        let varying = match steps {
            0 => digit.to_string(),
            _ => format!("[{digit}-{end_digit}]"),
        };
        let any = match power.ilog10() {
            0 => String::new(),
            count => format!("[0-9]{{{count}}}"),
        };
        pieces.push(format!("{head}{varying}{any}"));
        start += (steps + 1) * power;
    }
    pieces.join("|")
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn number_pattern_matches_exactly_its_range() {
        for (low, high) in
            [(1, 9), (1, 1024), (16, 1_048), (7, 7), (99, 101), (1, 1000), (950, 1999)]
        {
            let pattern = Regex::new(&format!("^({})$", numbers(low, high))).unwrap();
            for number in 0..2100_u64 {
                let expected = (low..=high).contains(&number);
                assert_eq!(pattern.is_match(&number.to_string()), expected, "{number}: {pattern}");
            }
        }
        assert_eq!(numbers(1, 1024), "[1-9]|[1-9][0-9]{1}|[1-9][0-9]{2}|10[0-1][0-9]{1}|102[0-4]");
    }

    #[test]
    fn size_pattern_matches_the_sizes_that_settings_accept() {
        for (least, most) in [(16 << 20, 1 << 40), (1 << 10, 8 << 20), (64 << 10, 3 << 30)] {
            let (kind, pattern) = (SettingKind::Size(least, most), sizes(least, most));
            let pattern = Regex::new(&pattern).unwrap();
            for number in [
                "0", "1", "2", "3", "4", "15", "16", "63", "64", "1024", "1025", "8192", "8193",
                "01", "x", "",
            ] {
                for unit in ["", "K", "k", "M", "G", "KB", "gb", "T", "KK"] {
                    let size = format!("{number}{unit}");
                    let accepted = kind.validation_error(&size).is_none() && number != "01";
                    assert_eq!(pattern.is_match(&size), accepted, "{size}: {pattern}");
                }
            }
        }
    }
}

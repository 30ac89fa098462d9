//! Lenient JSON parser that accepts common mistakes of models and reports each as a [`Fix`].
//!
//! The parser accepts malformed values but never invents a value: truncated input, ambiguous input and non-numbers such
//! as `NaN` are errors. For well-formed JSON, the parser returns the same value as `serde_json` and reports no fix.

use assize_types::text::{head, is_invisible};
use serde_json::{Map, Number, Value};

use super::Fix;

/// Maximum nesting depth of a JSON value. The maximum limits the parser's recursion; expected answers are less deep.
const MAX_DEPTH: usize = 96;

/// Why a JSON value cannot be parsed. The text of this error is part of the second request to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonFault {
    #[error("the JSON is cut off")]
    CutOff,
    #[error("the JSON is nested too deeply")]
    TooDeep,
    #[error("`{0}` is not a JSON number")]
    NotANumber(&'static str),
    #[error("the key `{0}` is given twice with different values")]
    DuplicateKey(String),
    #[error("unexpected {0}")]
    Unexpected(String),
    /// The answer needs more than the maximum number of parser steps.
    #[error("the answer contains too much text that is not JSON")]
    OutOfFuel,
}

/// Parser for one JSON value in an answer. All parsers of one answer share `fuel`, the number of remaining steps, so
/// that even malicious text is parsed in linear time.
pub(crate) struct LenientParser<'t, 'f> {
    text: &'t str,
    at: usize,
    fixes: Vec<Fix>,
    /// Whether the text is meant as JSON: the parser has read a key and its colon, and the key is quoted or a property
    /// of the schema. If this is false, the opening brace may be part of a sentence.
    meant_as_json: bool,
    /// Function that returns whether a name is a property of the schema.
    is_schema_property: &'f dyn Fn(&str) -> bool,
    objects: usize,
    fuel: &'f mut usize,
}

/// Error of parsing one JSON value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BrokenJson {
    pub(crate) fault: JsonFault,
    /// Whether the text was meant as JSON. If this is false, the opening brace is probably part of a sentence.
    pub(crate) meant_as_json: bool,
}

/// Parses one JSON value at the start of `text`. Returns the value, the fixes, and the length of the parsed text in
/// bytes. `is_ours` returns whether a name is a property of the schema.
pub(crate) fn read(
    text: &str,
    is_ours: &dyn Fn(&str) -> bool,
    fuel: &mut usize,
) -> Result<(Value, Vec<Fix>, usize), BrokenJson> {
    let mut reader = LenientParser {
        text,
        at: 0,
        fixes: Vec::new(),
        meant_as_json: false,
        is_schema_property: is_ours,
        objects: 0,
        fuel,
    };
    let value = reader.space().and_then(|()| reader.value(0));
    match value {
        Ok(value) => Ok((value, reader.fixes, reader.at)),
        Err(fault) => Err(BrokenJson { fault, meant_as_json: reader.meant_as_json }),
    }
}

impl<'t> LenientParser<'t, '_> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Result<Option<char>, JsonFault> {
        *self.fuel = self.fuel.checked_sub(1).ok_or(JsonFault::OutOfFuel)?;
        let next = self.peek();
        self.at += next.map_or(0, char::len_utf8);
        Ok(next)
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn fixed(&mut self, fix: Fix) {
        if !self.fixes.contains(&fix) {
            self.fixes.push(fix);
        }
    }

    fn unexpected<T>(&self) -> Result<T, JsonFault> {
        match self.peek() {
            None => Err(JsonFault::CutOff),
            Some(c) => Err(JsonFault::Unexpected(format!("`{}`", c.escape_default()))),
        }
    }

    /// Skips white space, comments and invisible characters.
    fn space(&mut self) -> Result<(), JsonFault> {
        loop {
            match self.peek() {
                Some(' ' | '\n' | '\r' | '\t') => {
                    self.bump()?;
                }
                Some(c) if is_invisible(c) || c.is_whitespace() => {
                    self.fixed(Fix::InvisibleCharacters);
                    self.bump()?;
                }
                // Outside an object, `//` and `#` rarely start a comment: `[#12]` contains none.
                Some('/') if self.objects > 0 && self.rest().starts_with("//") => {
                    self.comment("\n", false)?;
                }
                Some('#') if self.objects > 0 => self.comment("\n", false)?,
                Some('/') if self.rest().starts_with("/*") => self.comment("*/", true)?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self, end: &str, must_end: bool) -> Result<(), JsonFault> {
        self.fixed(Fix::Comments);
        loop {
            if self.eat(end) {
                return Ok(());
            }
            if self.bump()?.is_none() {
                return if must_end { Err(JsonFault::CutOff) } else { Ok(()) };
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonFault> {
        if depth > MAX_DEPTH {
            return Err(JsonFault::TooDeep);
        }
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some(c) if closing_quote(c).is_some() => self.string().map(Value::String),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(c) if c.is_ascii_alphabetic() => self.word(),
            _ => self.unexpected(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonFault> {
        self.objects += 1;
        self.bump()?;
        let mut members: Map<String, Value> = Map::new();
        loop {
            self.space()?;
            if self.eat("}") {
                self.objects -= 1;
                return Ok(Value::Object(members));
            }
            let quoted = self.peek() == Some('"') || self.peek() == Some('\'');
            let key = self.key()?;
            self.space()?;
            if !self.eat(":") {
                return self.unexpected();
            }
            self.meant_as_json |= quoted || (self.is_schema_property)(&key);
            self.space()?;
            let value = self.value(depth + 1)?;
            match members.get(&key) {
                Some(before) if *before == value => self.fixed(Fix::RepeatedKey),
                Some(_) => return Err(JsonFault::DuplicateKey(key)),
                None => {
                    members.insert(key, value);
                }
            }
            self.separator('}')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonFault> {
        self.bump()?;
        let mut items = Vec::new();
        loop {
            self.space()?;
            if self.eat("]") {
                return Ok(Value::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.separator(']')?;
        }
    }

    /// Parses the comma after an object member or array item. No comma is required before the closing bracket `end`.
    fn separator(&mut self, end: char) -> Result<(), JsonFault> {
        self.space()?;
        if self.peek() == Some(end) {
            return Ok(());
        }
        if !self.eat(",") {
            return self.unexpected();
        }
        self.space()?;
        if self.peek() == Some(end) {
            self.fixed(Fix::TrailingComma);
        }
        Ok(())
    }

    fn key(&mut self) -> Result<String, JsonFault> {
        let key = match self.peek() {
            Some(c) if closing_quote(c).is_some() => self.string()?,
            Some(c) if c.is_alphabetic() || c == '_' => {
                self.fixed(Fix::UnquotedKey);
                let start = self.at;
                while self.peek().is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
                    self.bump()?;
                }
                self.text[start..self.at].to_owned()
            }
            _ => return self.unexpected(),
        };
        if key.chars().any(is_invisible) {
            self.fixed(Fix::InvisibleCharacters);
            return Ok(key.chars().filter(|c| !is_invisible(*c)).collect());
        }
        Ok(key)
    }

    fn string(&mut self) -> Result<String, JsonFault> {
        let open = self.bump()?.ok_or(JsonFault::CutOff)?;
        let close = closing_quote(open).ok_or(JsonFault::CutOff)?;
        if open != '"' {
            self.fixed(Fix::Quotes);
        }
        let mut text = String::new();
        loop {
            match self.bump()?.ok_or(JsonFault::CutOff)? {
                c if c == close => return Ok(text),
                '\\' => self.escape(&mut text)?,
                c if c < ' ' => {
                    self.fixed(Fix::RawControlCharacters);
                    text.push(c);
                }
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), JsonFault> {
        match self.bump()?.ok_or(JsonFault::CutOff)? {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            c @ ('"' | '\\' | '/') => text.push(c),
            'u' => {
                let first = self.hex4()?;
                let mut code = first;
                if (0xD800..0xDC00).contains(&first) && self.eat("\\u") {
                    let second = self.hex4()?;
                    if (0xDC00..0xE000).contains(&second) {
                        code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    }
                }
                match char::from_u32(code) {
                    Some(c) => text.push(c),
                    None => return Err(JsonFault::Unexpected("half of a surrogate pair".into())),
                }
            }
            c => {
                self.fixed(Fix::BadEscape);
                // A backslash before punctuation (`\'`, `\_`) has no meaning and is dropped. A backslash before a
                // letter or digit is part of the text, for example in a path, a regular expression or a formula.
                if c.is_alphanumeric() {
                    text.push('\\');
                }
                text.push(c);
            }
        }
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, JsonFault> {
        let digits = self.rest().get(..4).ok_or(JsonFault::CutOff)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(JsonFault::Unexpected(
                "character in a `\\u` escape, which must have four hexadecimal digits".into(),
            ));
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| JsonFault::CutOff)
    }

    fn number(&mut self) -> Result<Value, JsonFault> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'))
        {
            self.bump()?;
        }
        let written = &self.text[start..self.at];
        if self.rest().starts_with("Infinity") {
            return Err(JsonFault::NotANumber("Infinity"));
        }
        if self.peek().is_none() && start > 0 {
            // The text may be cut off within the number: `{"impact": 1` may be the start of `{"impact": 10}`.
            return Err(JsonFault::CutOff);
        }
        if let Ok(number) = serde_json::from_str::<Number>(written) {
            return Ok(Value::Number(number));
        }
        // `+8`, `.5` and `5.` have only one possible meaning, so they are accepted. `08` is rejected, because it may be
        // a part of a longer value.
        let unsigned = written.strip_prefix('+').unwrap_or(written);
        let (sign, digits) =
            unsigned.strip_prefix('-').map_or(("", unsigned), |digits| ("-", digits));
        let digits = digits.strip_suffix('.').unwrap_or(digits);
        let lead = if digits.starts_with('.') { "0" } else { "" };
        let number = serde_json::from_str::<Number>(&format!("{sign}{lead}{digits}"))
            .map_err(|_| JsonFault::Unexpected(format!("`{}`", head(written, 20))))?;
        self.fixed(Fix::NumberFormat);
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Result<Value, JsonFault> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.bump()?;
        }
        let word = &self.text[start..self.at];
        match word {
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            "null" => return Ok(Value::Null),
            "NaN" | "nan" => return Err(JsonFault::NotANumber("NaN")),
            "Infinity" | "inf" => return Err(JsonFault::NotANumber("Infinity")),
            _ => {}
        }
        let value = match word {
            "True" | "TRUE" => Value::Bool(true),
            "False" | "FALSE" => Value::Bool(false),
            "None" | "NULL" | "Null" | "nil" | "undefined" => Value::Null,
            _ => return Err(JsonFault::Unexpected(format!("`{}`", head(word, 20)))),
        };
        self.fixed(Fix::Literal);
        Ok(value)
    }
}

fn closing_quote(open: char) -> Option<char> {
    match open {
        '"' => Some('"'),
        '\'' => Some('\''),
        '\u{201c}' | '\u{201d}' => Some('\u{201d}'),
        '`' => Some('`'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e12f64..1e12).prop_map(Value::from),
            ".*".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::vec(("[a-z]{1,6}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn lenient_parser_agrees_with_serde_json_on_well_formed_json(value in any_json(), pretty in any::<bool>()) {
            let text = if pretty {
                serde_json::to_string_pretty(&value)
            } else {
                serde_json::to_string(&value)
            }
            .unwrap();
            let mut fuel = 10 * text.len() + 100;
            let (read, fixes, length) = read(&text, &|_| true, &mut fuel).unwrap();
            prop_assert_eq!(read, value);
            prop_assert!(fixes.is_empty(), "{:?}", fixes);
            prop_assert_eq!(length, text.len());
        }

        #[test]
        fn lenient_parser_does_not_panic_on_arbitrary_text(text in "(?s).{0,200}") {
            let mut fuel = 1000;
            let _ = read(&text, &|_| true, &mut fuel);
        }

        #[test]
        fn lenient_parser_rejects_truncated_json(value in any_json(), cut in 1usize..1000) {
            let wrapped = serde_json::json!({ "value": value });
            let text = serde_json::to_string(&wrapped).unwrap();
            let end = cut.min(text.len() - 1);
            prop_assume!(text.is_char_boundary(end));
            let mut fuel = 100_000;
            prop_assert!(read(&text[..end], &|_| true, &mut fuel).is_err());
        }
    }
}

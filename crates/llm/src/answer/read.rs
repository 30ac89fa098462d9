//! Parser for answers: finds the single JSON value in an answer's text that matches the schema.

use std::collections::HashSet;

use assize_types::text::{is_invisible, shorten};
use jsonschema::Validator;
use serde_json::Value;

use super::conform::{conform, normalized_key};
use super::lenient::{self, BrokenJson, JsonFault};
use super::{Fix, Schema};

/// Maximum number of parser steps per byte of an answer. An answer that needs more steps is rejected.
const FUEL_PER_BYTE: usize = 40;

/// Maximum size of an answer in bytes. No model writes answers of this size.
const MAX_ANSWER: usize = 4 << 20;

/// Maximum length of a validation error, in characters.
const MAX_REASON: usize = 300;

/// Why an answer could not be parsed. The text of this error is part of the second request to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerParseError {
    #[error("the answer is empty")]
    Empty,
    #[error("there is no JSON object in the answer")]
    NoJson,
    #[error("{0}")]
    Broken(String),
    #[error("{0}")]
    SchemaMismatch(String),
    #[error(
        "the answer contains {0} different JSON objects that match the schema; exactly one is expected"
    )]
    Ambiguous(usize),
}

/// Parser for answers that must match one schema.
#[derive(Debug)]
pub struct AnswerReader {
    schema: Value,
    validator: Validator,
    /// Names of the schema's properties, normalized by [`normalized_key`].
    properties: HashSet<String>,
}

/// A JSON value that matches the schema, found in the text of an answer.
struct Found {
    value: Value,
    fixes: Vec<Fix>,
    /// Whether the answer's text ends after this value.
    is_last: bool,
}

/// State of the scan for the model's thinking, which is enclosed in tags such as `<think>` outside of JSON values.
#[derive(Default)]
struct Thinking {
    open: bool,
    /// Byte offset after the last closing tag of thinking; 0 if there was none.
    end: usize,
}

const THINKING_TAGS: [&str; 4] = ["think", "thinking", "reasoning", "scratchpad"];

impl AnswerReader {
    /// Creates a reader for a schema. Returns `None` if the schema is invalid; the schemas of [`Schema::of`] and
    /// [`Schema::from_value`] are always valid.
    pub fn new(schema: &Schema) -> Option<AnswerReader> {
        let validator = jsonschema::validator_for(&schema.value).ok()?;
        let mut properties = HashSet::new();
        property_names(&schema.value, &mut properties);
        Some(AnswerReader { schema: schema.value.clone(), validator, properties })
    }

    /// Returns the value in `text` that matches the schema, and the repairs that were needed.
    pub fn read(&self, text: &str) -> Result<(Value, Vec<Fix>), AnswerParseError> {
        self.find(text).map(|found| (found.value, found.fixes))
    }

    /// Like [`read`](Self::read), but for an answer that was cut off. A value is accepted only if no text follows it,
    /// because the missing end of the answer might correct the value.
    pub fn read_truncated(&self, text: &str) -> Result<(Value, Vec<Fix>), AnswerParseError> {
        let found = self.find(text)?;
        if found.is_last {
            return Ok((found.value, found.fixes));
        }
        Err(AnswerParseError::Broken("the answer is cut off in the text after its JSON".to_owned()))
    }

    fn find(&self, text: &str) -> Result<Found, AnswerParseError> {
        if text.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c)).is_empty() {
            return Err(AnswerParseError::Empty);
        }
        if text.len() > MAX_ANSWER {
            return Err(AnswerParseError::Broken(format!(
                "the answer has more than {MAX_ANSWER} bytes"
            )));
        }
        let is_ours = |name: &str| self.properties.contains(&normalized_key(name));
        let mut fuel = text.len().saturating_mul(FUEL_PER_BYTE).saturating_add(1000);
        let mut found: Vec<Found> = Vec::new();
        let mut best_reason = AnswerParseError::NoJson;
        // JSON inside the model's thinking is only a draft of the answer.
        let mut thinking = Thinking::default();
        let mut broken = false;
        let mut at = 0;
        while let Some(start) = text[at..].find(['{', '[', '<']).map(|offset| at + offset) {
            if text[start..].starts_with('<') {
                if thinking.closes_at(text, start) {
                    found.clear();
                }
                at = start + 1;
                continue;
            }
            match lenient::read(&text[start..], &is_ours, &mut fuel) {
                Ok((value, fixes, length)) => {
                    at = start + length;
                    match self.accept(value, fixes) {
                        Ok((value, mut fixes)) => {
                            let before = &text[thinking.end..start];
                            fixes.extend(surrounding_fix(before, &text[at..]));
                            let is_last = is_end(&text[at..]);
                            match found.iter_mut().find(|other| other.value == value) {
                                Some(same) => same.is_last |= is_last,
                                None => found.push(Found { value, fixes, is_last }),
                            }
                        }
                        Err(reason) => best_reason = best_reason.more_informative(reason),
                    }
                }
                Err(BrokenJson { fault: JsonFault::OutOfFuel, .. }) => {
                    return Err(AnswerParseError::Broken(JsonFault::OutOfFuel.to_string()));
                }
                // Malformed text that was meant as JSON is skipped completely. All values found before it are
                // discarded, because they are uncertain.
                Err(BrokenJson { fault, meant_as_json: true }) => {
                    let reason = AnswerParseError::Broken(fault.to_string());
                    let Some(length) = closed(&text[start..]) else { return Err(reason) };
                    best_reason = best_reason.more_informative(reason);
                    broken = true;
                    found.clear();
                    at = start + length;
                }
                Err(BrokenJson { fault, .. }) => {
                    best_reason =
                        best_reason.more_informative(AnswerParseError::Broken(fault.to_string()));
                    at = start + 1;
                    if fault == JsonFault::TooDeep {
                        break;
                    }
                }
            }
        }
        if thinking.open {
            let reason = "the answer ends before the closing tag of the thinking";
            return Err(AnswerParseError::Broken(reason.to_owned()));
        }
        // If the answer contains malformed JSON (for example a template), only a value at the answer's end is accepted.
        found.retain(|candidate| !broken || candidate.is_last);
        match found.len() {
            0 => Err(best_reason),
            1 => {
                let mut found = found.swap_remove(0);
                if thinking.end > 0 {
                    found.fixes.push(Fix::Thinking);
                }
                Ok(found)
            }
            several => Err(AnswerParseError::Ambiguous(several)),
        }
    }

    fn accept(
        &self,
        mut value: Value,
        mut fixes: Vec<Fix>,
    ) -> Result<(Value, Vec<Fix>), AnswerParseError> {
        conform(&mut value, &self.schema, &mut fixes);
        let misfit = self.validator.iter_errors(&value).next().map(|error| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the answer".to_owned() } else { format!("`{path}`") };
            format!("{place}: {}", shorten(&error.to_string(), MAX_REASON))
        });
        match misfit {
            None => Ok((value, fixes)),
            Some(reason) => Err(AnswerParseError::SchemaMismatch(reason)),
        }
    }
}

impl AnswerParseError {
    /// Returns the more informative of two errors. A schema mismatch ranks above malformed JSON, and malformed JSON
    /// ranks above other errors. If both errors rank equally, returns `self`.
    fn more_informative(self, other: AnswerParseError) -> AnswerParseError {
        let rank = |reason: &AnswerParseError| match reason {
            AnswerParseError::SchemaMismatch(_) => 2,
            AnswerParseError::Broken(_) => 1,
            _ => 0,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }
}

impl Thinking {
    /// Updates the state if there is a thinking tag at `start`. Returns whether this tag ends the model's thinking. If
    /// so, the caller discards the values found before the tag.
    fn closes_at(&mut self, text: &str, start: usize) -> bool {
        let tag = &text[start + 1..];
        let closes = tag.starts_with('/');
        let name = tag.trim_start_matches('/');
        let is_tag = |known: &&&str| {
            name.get(..known.len()).is_some_and(|name| name.eq_ignore_ascii_case(known))
                && name[known.len()..].starts_with('>')
        };
        let Some(known) = THINKING_TAGS.iter().find(is_tag) else { return false };
        self.open = !closes;
        if closes {
            self.end = start + 1 + usize::from(closes) + known.len() + 1;
        }
        closes
    }
}

/// Collects the names of all properties in a schema, at every depth.
fn property_names(schema: &Value, names: &mut HashSet<String>) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::Object(properties)) = keywords.get("properties") {
                names.extend(properties.keys().map(|name| normalized_key(name)));
            }
            keywords.values().for_each(|sub| property_names(sub, names));
        }
        Value::Array(items) => items.iter().for_each(|sub| property_names(sub, names)),
        _ => {}
    }
}

/// Length in bytes of the bracketed text at the start of `text`, found by counting brackets; `None` if the first
/// bracket is not closed.
fn closed(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some(offset + c.len_utf8());
        }
    }
    None
}

/// Whether `rest` contains only white space or the end of a code fence.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_matches(|c: char| c.is_whitespace() || is_invisible(c));
    rest.is_empty() || rest == "```"
}

/// The repair needed for the text before and after a JSON value: none, or the removal of invisible characters, a code
/// fence or other text.
fn surrounding_fix(before: &str, after: &str) -> Option<Fix> {
    let before = before.trim();
    let after = after.trim();
    if before.is_empty() && after.is_empty() {
        return None;
    }
    if before.chars().chain(after.chars()).all(|c| is_invisible(c) || c.is_whitespace()) {
        return Some(Fix::InvisibleCharacters);
    }
    let opens = before.strip_prefix("```").is_some_and(|tag| !tag.contains(char::is_whitespace));
    Some(if opens && after == "```" { Fix::CodeFence } else { Fix::SurroundingText })
}

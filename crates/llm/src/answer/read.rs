//! Finds the one JSON value in the text of an answer that matches the schema.

use std::collections::HashSet;

use assize_types::text::{is_invisible, shorten};
use jsonschema::Validator;
use serde_json::Value;

use super::conform::{conform, plain_key};
use super::lenient::{self, BrokenJson, JsonFault};
use super::{Fix, Schema};

/// Parser steps per byte of an answer, after which the answer counts as noise.
const FUEL_PER_BYTE: usize = 40;

/// Maximum size of an answer in bytes: more than any model writes.
const MAX_ANSWER: usize = 4 << 20;

/// Maximum length of a validation error, in characters.
const MAX_REASON: usize = 300;

/// Why an answer could not be parsed. The message is sent to the model when it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerParseError {
    #[error("the answer is empty")]
    Empty,
    #[error("there is no JSON object in the answer")]
    NoJson,
    #[error("{0}")]
    Broken(String),
    #[error("{0}")]
    DoesNotFit(String),
    #[error("there are {0} different JSON objects that fit; give exactly one")]
    Ambiguous(usize),
}

/// Parser for answers that must match one schema.
#[derive(Debug)]
pub struct AnswerReader {
    schema: Value,
    validator: Validator,
    /// Names of the schema's properties, normalized by [`plain_key`].
    properties: HashSet<String>,
}

/// A value that matches the schema.
struct Found {
    value: Value,
    fixes: Vec<Fix>,
    /// Whether the answer ends after it.
    is_last: bool,
}

/// Position in the model's thinking, tracked by tags such as `<think>` outside of JSON values.
#[derive(Default)]
struct Thinking {
    open: bool,
    /// Byte offset after the last closing tag.
    end: usize,
}

const THINKING_TAGS: [&str; 4] = ["think", "thinking", "reasoning", "scratchpad"];

impl AnswerReader {
    /// `None` if the schema is invalid, which those of [`Schema::of`] and [`Schema::from_value`] never are.
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

    /// Like [`read`](Self::read), for an answer that was cut off. A value counts only if nothing follows it, because
    /// the missing rest might have replaced it.
    pub fn read_cut(&self, text: &str) -> Result<(Value, Vec<Fix>), AnswerParseError> {
        let found = self.find(text)?;
        if found.is_last {
            return Ok((found.value, found.fixes));
        }
        Err(AnswerParseError::Broken(
            "the answer is cut off, and there was more to come".to_owned(),
        ))
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
        let is_ours = |name: &str| self.properties.contains(&plain_key(name));
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
                        Err(reason) => best_reason = best_reason.or(reason),
                    }
                }
                Err(BrokenJson { fault: JsonFault::OutOfFuel, .. }) => {
                    return Err(AnswerParseError::Broken(JsonFault::OutOfFuel.to_string()));
                }
                // Text that is meant as JSON but malformed is skipped as a whole, and makes all values before it
                // doubtful.
                Err(BrokenJson { fault, meant: true }) => {
                    let reason = AnswerParseError::Broken(fault.to_string());
                    let Some(length) = closed(&text[start..]) else { return Err(reason) };
                    best_reason = best_reason.or(reason);
                    broken = true;
                    found.clear();
                    at = start + length;
                }
                Err(BrokenJson { fault, .. }) => {
                    best_reason = best_reason.or(AnswerParseError::Broken(fault.to_string()));
                    at = start + 1;
                    if fault == JsonFault::TooDeep {
                        break;
                    }
                }
            }
        }
        if thinking.open {
            let reason = "the answer ends before the thinking does";
            return Err(AnswerParseError::Broken(reason.to_owned()));
        }
        // After malformed JSON (for example a template), only a value at the end of the answer counts.
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
            Some(reason) => Err(AnswerParseError::DoesNotFit(reason)),
        }
    }
}

impl AnswerParseError {
    /// Chooses the more informative of two errors: a schema mismatch before malformed JSON, else `self`.
    fn or(self, other: AnswerParseError) -> AnswerParseError {
        let rank = |reason: &AnswerParseError| match reason {
            AnswerParseError::DoesNotFit(_) => 2,
            AnswerParseError::Broken(_) => 1,
            _ => 0,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }
}

impl Thinking {
    /// Processes a tag at `start`; returns whether it ends the thinking, so that drafts before it are discarded.
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
                names.extend(properties.keys().map(|name| plain_key(name)));
            }
            keywords.values().for_each(|sub| property_names(sub, names));
        }
        Value::Array(items) => items.iter().for_each(|sub| property_names(sub, names)),
        _ => {}
    }
}

/// Length of the bracketed text at the start, by counting brackets; `None` if it is not closed.
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

/// Whether only white space or the end of a code fence follows.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_matches(|c: char| c.is_whitespace() || is_invisible(c));
    rest.is_empty() || rest == "```"
}

/// The fix needed for the text around the value: none, a code fence, or other text.
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

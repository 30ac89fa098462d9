//! From the text of an answer to the one value in it that fits the schema.

use std::collections::HashSet;

use assize_types::text::{is_invisible, shorten};
use jsonschema::Validator;
use serde_json::Value;

use super::conform::{conform, plain_key};
use super::lenient::{self, Broken, Fault};
use super::{Fix, Schema};

/// Steps allowed for each byte of an answer before it counts as noise.
const FUEL_PER_BYTE: usize = 40;

/// The longest answer that is read, in bytes: more than any model writes.
const LONGEST: usize = 4 << 20;

/// What is wrong with a value, in so many characters.
const LONGEST_COMPLAINT: usize = 300;

/// Why an answer could not be read; the words are shown to the model when it is asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
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

/// Reads answers of one shape.
#[derive(Debug)]
pub struct AnswerReader {
    schema: Value,
    validator: Validator,
    /// The names of the schema's properties, as [`plain_key`] has them.
    properties: HashSet<String>,
}

/// A value that fits.
struct Found {
    value: Value,
    fixes: Vec<Fix>,
    /// Whether nothing comes after it.
    is_last: bool,
}

/// Where a model's thinking begins and ends, as tags outside of any value tell.
#[derive(Default)]
struct Thinking {
    open: bool,
    /// Where the last of it ended.
    end: usize,
}

const THINKING_TAGS: [&str; 4] = ["think", "thinking", "reasoning", "scratchpad"];

impl AnswerReader {
    /// `None` if the schema is not one; [`Schema::of`] and [`Schema::from_value`] never give such.
    pub fn new(schema: &Schema) -> Option<AnswerReader> {
        let validator = jsonschema::validator_for(&schema.value).ok()?;
        let mut properties = HashSet::new();
        property_names(&schema.value, &mut properties);
        Some(AnswerReader { schema: schema.value.clone(), validator, properties })
    }

    /// The value in `text` that fits the schema, and what had to be mended to read it.
    pub fn read(&self, text: &str) -> Result<(Value, Vec<Fix>), Unreadable> {
        self.find(text).map(|found| (found.value, found.fixes))
    }

    /// The same for a text that was cut off: there a value counts only if nothing comes after it,
    /// since what was on its way might have replaced it.
    pub fn read_cut(&self, text: &str) -> Result<(Value, Vec<Fix>), Unreadable> {
        let found = self.find(text)?;
        if found.is_last {
            return Ok((found.value, found.fixes));
        }
        Err(Unreadable::Broken("the answer is cut off, and there was more to come".to_owned()))
    }

    fn find(&self, text: &str) -> Result<Found, Unreadable> {
        if text.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c)).is_empty() {
            return Err(Unreadable::Empty);
        }
        if text.len() > LONGEST {
            return Err(Unreadable::Broken(format!("the answer has more than {LONGEST} bytes")));
        }
        let is_ours = |name: &str| self.properties.contains(&plain_key(name));
        let mut fuel = text.len().saturating_mul(FUEL_PER_BYTE).saturating_add(1000);
        let mut found: Vec<Found> = Vec::new();
        let mut complaint = Unreadable::NoJson;
        // While a model thinks, it may draft answers that it then drops.
        let mut thinking = Thinking::default();
        let mut broken = false;
        let mut at = 0;
        while let Some(start) = text[at..].find(['{', '[', '<']).map(|offset| at + offset) {
            if text[start..].starts_with('<') {
                if thinking.take(text, start) {
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
                            fixes.extend(surroundings(before, &text[at..]));
                            let is_last = is_end(&text[at..]);
                            match found.iter_mut().find(|other| other.value == value) {
                                Some(same) => same.is_last |= is_last,
                                None => found.push(Found { value, fixes, is_last }),
                            }
                        }
                        Err(reason) => complaint = complaint.or(reason),
                    }
                }
                Err(Broken { fault: Fault::OutOfFuel, .. }) => {
                    return Err(Unreadable::Broken(Fault::OutOfFuel.to_string()));
                }
                // What is meant as JSON and cannot be read hides what is inside it, and casts doubt
                // on what came before it.
                Err(Broken { fault, meant: true }) => {
                    let reason = Unreadable::Broken(fault.to_string());
                    let Some(length) = closed(&text[start..]) else { return Err(reason) };
                    complaint = complaint.or(reason);
                    broken = true;
                    found.clear();
                    at = start + length;
                }
                Err(Broken { fault, .. }) => {
                    complaint = complaint.or(Unreadable::Broken(fault.to_string()));
                    at = start + 1;
                    if fault == Fault::TooDeep {
                        break;
                    }
                }
            }
        }
        if thinking.open {
            let reason = "the answer ends before the thinking does";
            return Err(Unreadable::Broken(reason.to_owned()));
        }
        // After a broken one (a template, say) only the last word counts.
        found.retain(|candidate| !broken || candidate.is_last);
        match found.len() {
            0 => Err(complaint),
            1 => {
                let mut found = found.swap_remove(0);
                if thinking.end > 0 {
                    found.fixes.push(Fix::Thinking);
                }
                Ok(found)
            }
            several => Err(Unreadable::Ambiguous(several)),
        }
    }

    fn accept(
        &self,
        mut value: Value,
        mut fixes: Vec<Fix>,
    ) -> Result<(Value, Vec<Fix>), Unreadable> {
        conform(&mut value, &self.schema, &mut fixes);
        let misfit = self.validator.iter_errors(&value).next().map(|error| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the answer".to_owned() } else { format!("`{path}`") };
            format!("{place}: {}", shorten(&error.to_string(), LONGEST_COMPLAINT))
        });
        match misfit {
            None => Ok((value, fixes)),
            Some(reason) => Err(Unreadable::DoesNotFit(reason)),
        }
    }
}

impl Unreadable {
    /// Of two complaints the one that tells more: a value that was read but did not fit beats one
    /// that could not be read, and the first of equals stays.
    fn or(self, other: Unreadable) -> Unreadable {
        let rank = |complaint: &Unreadable| match complaint {
            Unreadable::DoesNotFit(_) => 2,
            Unreadable::Broken(_) => 1,
            _ => 0,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }
}

impl Thinking {
    /// Takes note of a tag at `start`; whether it ends the thinking, and with it what was drafted.
    fn take(&mut self, text: &str, start: usize) -> bool {
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

/// All names of properties in a schema, however deep.
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

/// The length of the bracketed text that begins here, by counting brackets; `None` if it has no end.
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

/// Whether nothing more is said: white space, or the end of a code fence.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_matches(|c: char| c.is_whitespace() || is_invisible(c));
    rest.is_empty() || rest == "```"
}

/// What stands around the value, as fixes: nothing, a code fence, or words.
fn surroundings(before: &str, after: &str) -> Option<Fix> {
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

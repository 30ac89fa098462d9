//! From the text of an answer to the one value in it that fits the schema.

use jsonschema::Validator;
use serde_json::Value;

use super::conform::conform;
use super::lenient::{self, Broken, Fault, is_invisible};
use super::{Fix, Schema};

/// Steps allowed for each byte of an answer before it counts as noise.
const FUEL_PER_BYTE: usize = 40;

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
}

impl AnswerReader {
    /// `None` if the schema is not one; [`Schema::of`] and [`Schema::from_value`] never give such.
    pub fn new(schema: &Schema) -> Option<AnswerReader> {
        let validator = jsonschema::validator_for(&schema.value).ok()?;
        Some(AnswerReader { schema: schema.value.clone(), validator })
    }

    /// The value in `text` that fits the schema, and what had to be mended to read it.
    pub fn read(&self, text: &str) -> Result<(Value, Vec<Fix>), Unreadable> {
        let visible = text.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c));
        if visible.is_empty() {
            return Err(Unreadable::Empty);
        }
        if visible.starts_with("<think>") && !visible.contains("</think>") {
            let reason = "the answer ends before the thinking does";
            return Err(Unreadable::Broken(reason.to_owned()));
        }
        // While it thinks, a model may draft answers that it then drops.
        let (text, thought) =
            text.rsplit_once("</think>").map_or((text, false), |(_, answer)| (answer, true));
        let mut fuel = text.len().saturating_mul(FUEL_PER_BYTE).saturating_add(1000);
        let mut found: Vec<(Value, Vec<Fix>)> = Vec::new();
        let mut complaint = Unreadable::NoJson;
        let mut at = 0;
        while let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) {
            match lenient::read(&text[start..], &mut fuel) {
                Ok((value, fixes, length)) => {
                    at = start + length;
                    match self.accept(value, fixes) {
                        Ok((value, mut fixes)) => {
                            fixes.extend(surroundings(&text[..start], &text[at..]));
                            if !found.iter().any(|(other, _)| *other == value) {
                                found.push((value, fixes));
                            }
                        }
                        Err(reason) => complaint = complaint.or(reason),
                    }
                }
                // Once a value that is meant as JSON cannot be read to its end, nothing else in the
                // answer can be trusted: not what is inside it, nor what it may have corrected.
                Err(Broken { fault, meant }) if meant || fault == Fault::OutOfFuel => {
                    return Err(Unreadable::Broken(fault.to_string()));
                }
                Err(Broken { fault, .. }) => {
                    complaint = complaint.or(Unreadable::Broken(fault.to_string()));
                    at = start + 1;
                    if matches!(fault, Fault::CutOff | Fault::TooDeep) {
                        break;
                    }
                }
            }
        }
        match found.len() {
            0 => Err(complaint),
            1 => {
                let (value, mut fixes) = found.swap_remove(0);
                if thought {
                    fixes.push(Fix::Thinking);
                }
                Ok((value, fixes))
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
            format!("{place}: {}", shorten(&error.to_string()))
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

fn shorten(message: &str) -> String {
    const LONGEST: usize = 300;
    match message.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

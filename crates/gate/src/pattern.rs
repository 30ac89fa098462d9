//! Compiles the gate's built-in regular expressions. If an expression does not compile, the gate reports an error
//! instead of skipping a check.

use regex::Regex;

/// Error for a built-in pattern of the gate that does not compile. Every check that needs the pattern fails with this
/// error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the gate's built-in pattern `{name}` does not compile: {error}")]
pub struct InvalidPattern {
    pub name: String,
    error: String,
}

impl InvalidPattern {
    pub(crate) fn new(name: &str, error: &dyn std::fmt::Display) -> InvalidPattern {
        InvalidPattern { name: name.to_owned(), error: error.to_string() }
    }
}

pub(crate) fn compile(name: &str, pattern: &str) -> Result<Regex, InvalidPattern> {
    Regex::new(pattern).map_err(|error| InvalidPattern::new(name, &error))
}

/// Whether `word` occurs in the whitespace-separated list `words`.
pub(crate) fn among(word: &str, words: &str) -> bool {
    words.split_whitespace().any(|other| other == word)
}

//! Compiling the gate's built-in patterns. A pattern that does not compile is an error, never a check that is left
//! out.

use regex::Regex;

/// A built-in pattern that does not compile. The gate does not open without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the gate's pattern `{name}` does not compile: {error}")]
pub struct BadPattern {
    pub name: String,
    error: String,
}

impl BadPattern {
    pub(crate) fn new(name: &str, error: &dyn std::fmt::Display) -> BadPattern {
        BadPattern { name: name.to_owned(), error: error.to_string() }
    }
}

pub(crate) fn compile(name: &str, pattern: &str) -> Result<Regex, BadPattern> {
    Regex::new(pattern).map_err(|error| BadPattern::new(name, &error))
}

/// Whether a word is one of a list, which has spaces between its words.
pub(crate) fn among(word: &str, words: &str) -> bool {
    words.split_whitespace().any(|other| other == word)
}

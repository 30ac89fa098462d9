//! What is to be done, and when it counts as done.

use assize_types::{Failure, FailureKind};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use assize_sandbox::Language;
use regex::Regex;

/// A task, with all that belongs to it.
#[derive(Debug, Clone)]
pub struct Task {
    pub task: String,
    pub language: Language,
    pub max_attempts: u32,
    /// How many programs are written side by side in each attempt; the first that succeeds counts.
    pub candidates: u32,
    /// Tells equal tasks apart: three samples of one task are three.
    pub sample: u32,
    /// A file of tests, to be run against the program.
    pub tests: Option<String>,
    /// Whether the model sees them beforehand.
    pub shows_tests: bool,
    /// Whether nothing but the tests counts: the program is not run by itself.
    pub only_tests: bool,
    /// What it must print.
    pub expect: Option<Expect>,
    /// Files that the program can read.
    pub inputs: Vec<InputFile>,
    /// Whether the files that it leaves are wanted.
    pub wants_files: bool,
}

impl Task {
    pub fn new(task: impl Into<String>) -> Task {
        Task {
            task: task.into(),
            language: Language::Python,
            max_attempts: crate::MAX_ATTEMPTS,
            candidates: 1,
            sample: 0,
            tests: None,
            shows_tests: true,
            only_tests: false,
            expect: None,
            inputs: Vec::new(),
            wants_files: false,
        }
    }
}

/// A file in the program's working folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Relative, without `..`.
    pub name: String,
    pub bytes: Arc<[u8]>,
}

/// What a program must print.
#[derive(Debug, Clone)]
pub enum Expect {
    /// This, somewhere in its output.
    Text(String),
    /// Something that fits this pattern.
    Pattern(Regex),
}

/// A pattern that is none.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{pattern}` is no regular expression: {reason}")]
pub struct UnknownExpectation {
    pattern: String,
    reason: String,
}

impl Expect {
    pub(crate) fn is_met_by(&self, output: &str) -> bool {
        match self {
            Expect::Text(text) => output.contains(text.as_str()),
            Expect::Pattern(pattern) => pattern.is_match(output),
        }
    }
}

/// Written as it is read: a pattern between slashes.
impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Text(text) => f.write_str(text),
            Expect::Pattern(pattern) => write!(f, "/{pattern}/"),
        }
    }
}

impl FromStr for Expect {
    type Err = UnknownExpectation;

    fn from_str(text: &str) -> Result<Expect, UnknownExpectation> {
        let pattern = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        match pattern.filter(|pattern| !pattern.is_empty()) {
            None => Ok(Expect::Text(text.to_owned())),
            Some(pattern) => {
                let regex = regex::RegexBuilder::new(pattern).multi_line(true).build();
                regex.map(Expect::Pattern).map_err(|error| {
                    // It draws the place over several lines, and says what it is in the last.
                    let text = error.to_string();
                    let reason = text.lines().last().unwrap_or_default();
                    let reason = reason.trim_start_matches("error: ").to_owned();
                    UnknownExpectation { pattern: pattern.to_owned(), reason }
                })
            }
        }
    }
}

impl From<UnknownExpectation> for Failure {
    fn from(error: UnknownExpectation) -> Failure {
        Failure::new(FailureKind::Usage, error.to_string())
            .hint("without the slashes it is taken as plain text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_text_or_a_pattern() {
        let met = |expect: &str, output: &str| expect.parse::<Expect>().unwrap().is_met_by(output);
        assert!(met("55", "it is 55\n") && !met("55", "it is 5\n5"));
        assert!(met("/^55$/", "first\n55\n") && !met("/^55$/", "155\n"));
        assert!(met("/", "a/b") && met("//", "a//b"));
        assert_eq!("/^55$/".parse::<Expect>().unwrap().to_string(), "/^55$/");
        let error = "/(/".parse::<Expect>().unwrap_err().to_string();
        assert!(error.contains("`(` is no regular expression: unclosed group"), "{error}");
    }
}

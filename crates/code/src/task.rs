//! Task of a code run: the description, the input files, and the criteria of success.

use assize_types::{Failure, FailureKind};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use assize_sandbox::Language;
use regex::Regex;

/// Task that a model solves by writing a program: description, options, tests and input files.
#[derive(Debug, Clone)]
pub struct CodeTask {
    /// Description of the task in natural language.
    pub task: String,
    pub language: Language,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Number of programs that are written in parallel in each attempt. The first program that succeeds is the result.
    pub candidates: u32,
    /// Number of the sample in an evaluation. The number is part of each model request, so that the requests of two
    /// samples of the same task differ.
    pub sample: u32,
    /// Source code of the tests to run against the program.
    pub tests: Option<String>,
    /// Whether the prompt for the model includes the tests.
    pub shows_tests: bool,
    /// Whether the program runs only together with the tests. If false, the program first runs once without the tests,
    /// and then, if this run succeeded, together with the tests.
    pub only_tests: bool,
    /// Output that the program must print.
    pub expect: Option<ExpectedOutput>,
    /// Read-only input files.
    pub inputs: Vec<InputFile>,
    /// Whether the files that the program creates are collected.
    pub collect_files: bool,
}

impl CodeTask {
    pub fn new(task: impl Into<String>) -> CodeTask {
        CodeTask {
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
            collect_files: false,
        }
    }
}

/// Input file in the program's working folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Relative path without `..`.
    pub name: String,
    pub bytes: Arc<[u8]>,
}

/// Expected output of a program.
#[derive(Debug, Clone)]
pub enum ExpectedOutput {
    /// Text that the output must contain.
    Text(String),
    /// Regular expression that must match a part of the output.
    Pattern(Regex),
}

/// Error for an expected output with an invalid regular expression.
#[derive(Debug, Clone, thiserror::Error)]
#[error("invalid regular expression `{pattern}`: {reason}")]
pub struct InvalidExpectation {
    pattern: String,
    reason: String,
}

impl ExpectedOutput {
    pub(crate) fn is_met_by(&self, output: &str) -> bool {
        match self {
            ExpectedOutput::Text(text) => output.contains(text.as_str()),
            ExpectedOutput::Pattern(pattern) => pattern.is_match(output),
        }
    }
}

/// Formats the expected output in the form that [`FromStr`] parses: a regular expression is between slashes.
impl fmt::Display for ExpectedOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExpectedOutput::Text(text) => f.write_str(text),
            ExpectedOutput::Pattern(pattern) => write!(f, "/{pattern}/"),
        }
    }
}

impl FromStr for ExpectedOutput {
    type Err = InvalidExpectation;

    fn from_str(text: &str) -> Result<ExpectedOutput, InvalidExpectation> {
        let pattern = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        match pattern.filter(|pattern| !pattern.is_empty()) {
            None => Ok(ExpectedOutput::Text(text.to_owned())),
            Some(pattern) => {
                let regex = regex::RegexBuilder::new(pattern).multi_line(true).build();
                regex.map(ExpectedOutput::Pattern).map_err(|error| {
                    // The message of the crate `regex` has several lines. The last line contains the reason.
                    let text = error.to_string();
                    let reason = text.lines().last().unwrap_or_default();
                    let reason = reason.trim_start_matches("error: ").to_owned();
                    InvalidExpectation { pattern: pattern.to_owned(), reason }
                })
            }
        }
    }
}

impl From<InvalidExpectation> for Failure {
    fn from(error: InvalidExpectation) -> Failure {
        Failure::new(FailureKind::Usage, error.to_string())
            .hint("remove the slashes around the expected output to match it as plain text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_output_is_text_or_a_regular_expression() {
        let met = |expect: &str, output: &str| {
            expect.parse::<ExpectedOutput>().unwrap().is_met_by(output)
        };
        assert!(met("55", "it is 55\n") && !met("55", "it is 5\n5"));
        assert!(met("/^55$/", "first\n55\n") && !met("/^55$/", "155\n"));
        assert!(met("/", "a/b") && met("//", "a//b"));
        assert_eq!("/^55$/".parse::<ExpectedOutput>().unwrap().to_string(), "/^55$/");
        let error = "/(/".parse::<ExpectedOutput>().unwrap_err().to_string();
        assert!(error.contains("invalid regular expression `(`: unclosed group"), "{error}");
    }
}

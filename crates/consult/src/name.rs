//! Names of private companies. The user's text is validated, because it appears in prompts, titles and pages.

use assize_types::{
    Failure, FailureKind,
    text::{is_invisible, shorten},
};
use std::str::FromStr;

/// Maximum length of a company name, in characters.
const MAX_CHARACTERS: usize = 80;

/// Name of a company without a ticker, such as `Larkspur Kettles`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanyName(String);

/// Error for text that is not a valid company name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid company name `{name}`: {why}")]
pub struct InvalidCompanyName {
    name: String,
    why: &'static str,
}

impl FromStr for CompanyName {
    type Err = InvalidCompanyName;

    fn from_str(text: &str) -> Result<CompanyName, InvalidCompanyName> {
        let name = text.trim();
        let invalid = |why| {
            let shown: String =
                name.chars().filter(|c| !c.is_control() && !is_invisible(*c)).collect();
            Err(InvalidCompanyName { name: shorten(&shown, 40), why })
        };
        match () {
            () if !name.contains(char::is_alphanumeric) => {
                invalid("a company name needs at least one letter or digit")
            }
            () if name.chars().count() > MAX_CHARACTERS => {
                invalid("a company name has at most 80 characters")
            }
            () if name.contains(|c: char| c.is_control() || is_invisible(c)) => {
                invalid("a company name must not contain control or invisible characters")
            }
            () => Ok(CompanyName(name.to_owned())),
        }
    }
}

impl From<CompanyName> for String {
    fn from(name: CompanyName) -> String {
        name.0
    }
}

impl From<InvalidCompanyName> for Failure {
    fn from(error: InvalidCompanyName) -> Failure {
        Failure::from_error(FailureKind::Usage, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_name_parsing_accepts_only_plain_text_of_limited_length() {
        for name in ["Larkspur Kettles", " Zürich Käse AG ", "7", "O'Brien & <Sons>", "../etc"] {
            let read: String = name.parse::<CompanyName>().unwrap().into();
            assert_eq!(read, name.trim());
        }
        let long = "x".repeat(81);
        for wrong in ["", "   ", "---", "A\u{1b}[2J", "A\nB", "A\u{200b}B", "A\u{202e}B", &long] {
            let error = wrong.parse::<CompanyName>().unwrap_err().to_string();
            assert!(error.starts_with("invalid company name `"), "{error}");
            assert!(!error.contains(|c: char| c.is_control() || is_invisible(c)), "{error:?}");
        }
    }
}

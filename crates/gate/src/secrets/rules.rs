//! Rules for known key formats, parsed from `data/secrets.txt`.

use crate::pattern::InvalidPattern;

/// Text of the rules for known key formats.
const DATA: &str = include_str!("../../data/secrets.txt");

/// Evidence that is required to report a match of a rule as a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The match alone is enough, because the format occurs only in secrets.
    MatchOnly,
    /// The matched value must be random, and not contain a placeholder.
    RandomValue,
    /// The match shows that the value is at a position where a password is expected. The value must not be a
    /// placeholder, but need not be random, because a person can have chosen the password.
    Position,
}

/// Rule for one known format of secrets.
#[derive(Debug)]
pub(super) struct SecretRule {
    pub id: &'static str,
    pub what: &'static str,
    /// Keywords separated by spaces. The pattern is tried only on texts that contain at least one of them.
    pub keywords: &'static str,
    pub pattern: &'static str,
    pub proof: Proof,
    /// Whether the match must not be next to a letter or digit, because the format is common within longer texts.
    pub delimited: bool,
}

/// Parses all rules for known key formats, in their order in the file.
pub(super) fn all() -> impl Iterator<Item = Result<SecretRule, InvalidPattern>> {
    let lines = DATA.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        SecretRule::read(line).ok_or_else(|| InvalidPattern::new(line, &"invalid rule"))
    })
}

impl SecretRule {
    pub(super) fn read(line: &'static str) -> Option<SecretRule> {
        let mut parts = line.splitn(5, "  ");
        let (proof, apart) = match parts.next()? {
            "words" => (Proof::MatchOnly, false),
            "form" => (Proof::RandomValue, false),
            "apart" => (Proof::RandomValue, true),
            "picked" => (Proof::Position, false),
            _ => return None,
        };
        let (id, what, keywords) = (parts.next()?, parts.next()?, parts.next()?);
        Some(SecretRule { id, what, keywords, pattern: parts.next()?, proof, delimited: apart })
    }
}

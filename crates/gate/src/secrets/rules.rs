//! Parses the key formats in `data/secrets.txt`.

use crate::pattern::InvalidPattern;

/// Text of the rules.
const DATA: &str = include_str!("../../data/secrets.txt");

/// What proves that a match is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The match alone: it occurs nowhere else.
    Words,
    /// The format, unless it contains a placeholder.
    Form,
    /// The position; the value may be chosen by a person and need not be random.
    Picked,
}

/// Rule for one format of secrets.
#[derive(Debug)]
pub(super) struct SecretRule {
    pub id: &'static str,
    pub what: &'static str,
    /// Keywords separated by spaces; the pattern can only match texts that contain one.
    pub keywords: &'static str,
    pub pattern: &'static str,
    pub proof: Proof,
    /// No letter or digit may be adjacent to the match, because the format alone is too common.
    pub apart: bool,
}

/// All rules, in order.
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
            "words" => (Proof::Words, false),
            "form" => (Proof::Form, false),
            "apart" => (Proof::Form, true),
            "picked" => (Proof::Picked, false),
            _ => return None,
        };
        let (id, what, keywords) = (parts.next()?, parts.next()?, parts.next()?);
        Some(SecretRule { id, what, keywords, pattern: parts.next()?, proof, apart })
    }
}

//! The forms of keys in `data/secrets.txt`.

use crate::pattern::BadPattern;

/// The forms as they are written.
const DATA: &str = include_str!("../../data/secrets.txt");

/// What shows that a match is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The match itself: it occurs nowhere else.
    Words,
    /// The form, unless it is filled with a placeholder.
    Form,
    /// The place; people may have chosen the value, so little chance is in it.
    Picked,
}

/// A form of secrets.
#[derive(Debug)]
pub(super) struct Rule {
    pub id: &'static str,
    pub what: &'static str,
    /// Words separated by spaces; the pattern matches only texts with one of them.
    pub keywords: &'static str,
    pub pattern: &'static str,
    pub proof: Proof,
    /// No letter or digit may stand before or after the match: the form alone is too common.
    pub apart: bool,
}

/// All forms, in their order.
pub(super) fn all() -> impl Iterator<Item = Result<Rule, BadPattern>> {
    let lines = DATA.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| Rule::read(line).ok_or_else(|| BadPattern::new(line, &"invalid rule")))
}

impl Rule {
    pub(super) fn read(line: &'static str) -> Option<Rule> {
        let mut parts = line.splitn(5, "  ");
        let (proof, apart) = match parts.next()? {
            "words" => (Proof::Words, false),
            "form" => (Proof::Form, false),
            "apart" => (Proof::Form, true),
            "picked" => (Proof::Picked, false),
            _ => return None,
        };
        let (id, what, keywords) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Rule { id, what, keywords, pattern: parts.next()?, proof, apart })
    }
}

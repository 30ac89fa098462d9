//! Keys, tokens and passwords in what somebody adds.
//!
//! Each kind of key has a rule of its own where its provider gave it a form (`rules`); what has none is found by
//! the name beside it, such as `password =`, and by how much chance is in it (`named`). What is plainly a
//! placeholder is none (`chance`): not because of a word in it, but because little is left without such words.
//! Keys that providers hand out for tests (`sk_test_`) and hashes of passwords are none either.
//!
//! A literal that is assigned to a password is a secret however short it is, unless it is a placeholder, is looked up
//! in the environment, or stands in a test.
//!
//! A line is looked at alone: the body of a private key without its first line is not found.

use std::sync::LazyLock;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::Regex;

mod chance;
mod named;
mod rules;

use rules::{Proof, RULES, Rule};

use crate::file_kind::FileKind;
use crate::pattern::{BadPattern, compile};

/// People leave out the padding and forget bits at the end.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What a line must say to keep a finding in it; that it does is itself told.
pub const ALLOWED: &str = "assize: allow-secret";

/// How many secrets of a line are told: whoever adds more of them hears of enough.
const MOST: usize = 200;

/// Something in a line that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The rule, such as `github-token`.
    pub rule: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// Its beginning, with the rest covered.
    pub masked: String,
    /// It was found in something that was encoded.
    pub encoded: bool,
    /// The line says that it may stay.
    pub allowed: bool,
}

/// Finds secrets in lines.
#[derive(Debug)]
pub struct SecretScanner {
    /// The pattern of each rule.
    each: Vec<Regex>,
    encoded: Regex,
    named: named::Patterns,
    chance: chance::Chance,
}

static SCANNER: LazyLock<Result<SecretScanner, BadPattern>> =
    LazyLock::new(|| SecretScanner::compile(RULES));

/// The forms that are looked for.
pub(crate) fn patterns() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.pattern)
}

impl SecretScanner {
    /// The scanner with all rules.
    ///
    /// # Errors
    /// When a pattern does not compile.
    pub fn get() -> Result<&'static SecretScanner, BadPattern> {
        SCANNER.as_ref().map_err(Clone::clone)
    }

    fn compile(rules: &[Rule]) -> Result<SecretScanner, BadPattern> {
        let each = rules.iter().map(|rule| compile(rule.id, rule.pattern));
        Ok(SecretScanner {
            each: each.collect::<Result<_, _>>()?,
            encoded: compile("encoded text", r"[A-Za-z0-9+/_-]{24,}={0,2}")?,
            named: named::Patterns::compile()?,
            chance: chance::Chance::compile()?,
        })
    }

    /// The secrets in one line of a file of this kind.
    pub fn in_line(&self, line: &str, kind: FileKind) -> Vec<Secret> {
        let allowed = line.contains(ALLOWED);
        let mut found = self.look(line, kind, false);
        // Encoded once: a second encoding is no accident.
        for token in self.encoded.find_iter(line) {
            if let Some(text) = decoded(token.as_str()) {
                found.extend(text.lines().flat_map(|line| self.look(line, kind, true)));
            }
        }
        for secret in &mut found {
            secret.allowed = allowed;
        }
        found
    }

    fn look(&self, line: &str, kind: FileKind, encoded: bool) -> Vec<Secret> {
        let mut found: Vec<Secret> = Vec::new();
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut add = |rule, what, start: usize, end: usize| {
            // A vaguer rule need not report again what a more precise one has found.
            let known = || spans.iter().any(|(from, to)| start < *to && *from < end);
            if spans.len() < MOST && !known() {
                spans.push((start, end));
                let masked = masked(&line[start..end]);
                found.push(Secret { rule, what, masked, encoded, allowed: false });
            }
        };
        for (Rule { id, what, proof, .. }, pattern) in RULES.iter().zip(&self.each) {
            for captures in pattern.captures_iter(line) {
                let Some(value) = captures.get(1).or_else(|| captures.get(0)) else { continue };
                if self.proves(*proof, value.as_str()) {
                    add(id, what, value.start(), value.end());
                }
            }
        }
        for value in self.named.values(line, kind, &self.chance) {
            add(value.rule, "a secret that is assigned", value.start, value.end);
        }
        found
    }

    fn proves(&self, proof: Proof, text: &str) -> bool {
        match proof {
            Proof::Words => true,
            Proof::Form => match decoded(text).as_deref().and_then(|text| text.split_once(':')) {
                // A user and a password, as headers have them.
                Some((_, password)) => self.chance.is_password(password),
                None => self.chance.fills_a_form(text),
            },
            Proof::Picked => self.chance.is_password(text),
        }
    }
}

/// What was text before somebody encoded it.
fn decoded(text: &str) -> Option<String> {
    let standard = text.replace('-', "+").replace('_', "/");
    String::from_utf8(LENIENT.decode(standard.trim_end_matches('=')).ok()?).ok()
}

/// The first characters, at most four and of a short one fewer, and how many there are in all.
fn masked(text: &str) -> String {
    let count = text.chars().count();
    let shown: String = text.chars().take((count / 4).min(4)).collect();
    format!("{shown}… ({count} characters)")
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn in_line(line: &str) -> Vec<Secret> {
        SecretScanner::get().unwrap().in_line(line, FileKind::Code)
    }

    fn rules(line: &str) -> Vec<&'static str> {
        in_line(line).into_iter().map(|secret| secret.rule).collect()
    }

    /// Made up here, in the forms that the providers document; put together so that nobody takes this file
    /// for one that leaks.
    fn made(parts: &[&str]) -> String {
        parts.concat()
    }

    #[test]
    fn every_rule_compiles_and_has_its_own_id() {
        assert!(SecretScanner::get().is_ok());
        assert!(RULES.len() >= 80, "{}", RULES.len());
        let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }

    #[test]
    fn scanner_with_a_broken_rule_is_an_error() {
        let broken = Rule { id: "odd", what: "a key", pattern: "key(", proof: Proof::Words };
        assert_eq!(SecretScanner::compile(&[broken]).unwrap_err().name, "odd");
    }

    #[test]
    fn keys_are_found_by_their_forms() {
        for (line, rule) in [
            (made(&["key = \"AKIA", "Q3EGRZ7XKDPLM2NB\""]), "aws-access-key"),
            (made(&["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"]), "github-token"),
            (made(&["-----BEGIN RSA PRIVATE", " KEY-----"]), "private-key"),
            (made(&["sk", "_live_4eC39HqLyjWDarjtT1zdp7dc"]), "stripe-key"),
            (made(&["postgres://app:", "kJ8s2Lq0vR@db.internal/prod"]), "connection-string"),
            (made(&["password = \"", "tR7#kq2LmZ9w\""]), "assigned-secret"),
            (made(&["export DB_PASSWORD=", "tR7kq2LmZ9wX4"]), "assigned-secret-bare"),
        ] {
            assert_eq!(rules(&line), [rule], "{line}");
        }
    }

    #[test]
    fn placeholders_names_and_ordinary_text_are_none() {
        for line in [
            "password = \"your_password_here\"",
            "api_key = \"${API_KEY}\"",
            "token = os.environ['TOKEN']",
            "SECRET_KEY=changeme_please_now",
            "let token = parser.next_token();",
            "postgres://user:password@localhost/db",
            "The password is never stored.",
            "const sha = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
        ] {
            assert_eq!(rules(line), [] as [&str; 0], "{line}");
        }
    }

    #[test]
    fn what_is_encoded_once_is_found_and_what_may_stay_says_so() {
        let hidden =
            BASE64_STANDARD.encode(made(&["token: ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"]));
        let found = in_line(&format!("data = {hidden}"));
        assert_eq!((found.len(), found[0].encoded, found[0].allowed), (1, true, false));
        let line = made(&["key = 'AKIA", "Q3EGRZ7XKDPLM2NB'  # assize: allow-secret"]);
        assert!(in_line(&line)[0].allowed);
        assert!(!in_line(&line)[0].masked.contains("Q3EG"), "{:?}", in_line(&line));
    }
}

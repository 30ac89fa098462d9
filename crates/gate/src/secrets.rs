//! Scanner for secrets: finds keys, tokens and passwords in added text.
//!
//! There is one rule for each known key format (module `rules`). Other secrets are found by the name before the value,
//! as in `password = …`, and by the randomness of the value (module `named`).
//!
//! A placeholder is not a secret (module `classifier`). A value is a placeholder if little remains when its placeholder
//! words are removed. A long random value that happens to contain a placeholder word is therefore not a placeholder.
//! Test keys of providers (`sk_test_`) are not secrets. Password hashes are secrets only together with their accounts,
//! as in `/etc/shadow`.
//!
//! A literal assigned to a variable for a password is a secret if it has at least four characters, or three characters
//! with at least one digit. It is not a secret if it is a placeholder, is read from the environment, or is in a test or
//! a translation.
//!
//! Text is normalised before it is searched: invisible characters are removed, escapes are resolved and encoded parts
//! are decoded once (module `decode`). Text that spans several lines is joined into one line (module `statements`).

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

mod classifier;
mod decode;
mod named;
mod names;
mod rules;
mod statements;

use decode::{Decoded, TextDecoder};
use rules::{Proof, SecretRule};
use statements::{SourceText, Statement};

use crate::file_kind::FileKind;
use crate::pattern::{InvalidPattern, compile};

/// Comment that allows the secrets on its line. The gate still reports them, and a reviewer decides.
pub const ALLOW_COMMENT: &str = "assize: allow-secret";

/// Maximum number of secrets that are reported per line.
const MAX_PER_LINE: usize = 200;

/// Limit of the search for secrets that span several lines: the search stops when more secrets than this are found in a
/// text.
const MAX_PER_TEXT: usize = 1000;

/// Name and description of the rule for private keys.
const PRIVATE_KEY: (&str, &str) = ("private-key", "a private key");

/// A secret found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// Rule name, such as `github-token`.
    pub rule: &'static str,
    /// Description of the kind of secret, such as `a token of GitHub`.
    pub what: &'static str,
    /// The first characters of the secret and its length. The other characters are not included.
    pub masked: String,
    /// Whether the secret was found in encoded text.
    pub encoded: bool,
    /// Whether a comment on the line allows the secret.
    pub allowed: bool,
}

/// A found secret together with its value. The value is used only inside this module and never reported.
struct Hit {
    secret: FoundSecret,
    value: String,
}

impl Hit {
    fn new(rule: &'static str, what: &'static str, value: &str, encoded: bool) -> Hit {
        let secret = FoundSecret { rule, what, masked: masked(value), encoded, allowed: false };
        Hit { secret, value: value.to_owned() }
    }
}

/// Scanner that finds secrets in texts.
#[derive(Debug)]
pub struct SecretScanner {
    /// Rules for known key formats, with their compiled patterns.
    rules: Vec<(SecretRule, Regex)>,
    /// Matcher for the keywords of all rules.
    keywords: AhoCorasick,
    /// For each keyword, the index of its rule.
    rule_of: Vec<usize>,
    decoder: TextDecoder,
    statements: statements::StatementPatterns,
    named: named::NamePatterns,
    chance: classifier::SecretClassifier,
}

static SCANNER: LazyLock<Result<SecretScanner, InvalidPattern>> =
    LazyLock::new(|| SecretScanner::compile(rules::all()));

/// Regular expressions of all rules for known key formats.
pub(crate) fn patterns() -> impl Iterator<Item = &'static str> {
    rules::all().flatten().map(|rule| rule.pattern)
}

impl SecretScanner {
    /// Returns the shared scanner with all rules.
    pub fn get() -> Result<&'static SecretScanner, InvalidPattern> {
        SCANNER.as_ref().map_err(Clone::clone)
    }

    fn compile(
        rules: impl Iterator<Item = Result<SecretRule, InvalidPattern>>,
    ) -> Result<SecretScanner, InvalidPattern> {
        let compiled =
            |rule: SecretRule| compile(rule.id, rule.pattern).map(|pattern| (rule, pattern));
        let rules: Vec<(SecretRule, Regex)> =
            rules.map(|rule| rule.and_then(compiled)).collect::<Result<_, _>>()?;
        let keywords: Vec<(usize, &str)> = rules
            .iter()
            .enumerate()
            .flat_map(|(index, (rule, _))| rule.keywords.split(' ').map(move |word| (index, word)))
            .collect();
        let words = keywords.iter().map(|(_, word)| word);
        Ok(SecretScanner {
            keywords: AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .build(words)
                .map_err(|error| InvalidPattern::new("keywords", &error))?,
            rule_of: keywords.iter().map(|(index, _)| *index).collect(),
            decoder: TextDecoder::compile()?,
            statements: statements::StatementPatterns::compile()?,
            named: named::NamePatterns::compile()?,
            chance: classifier::SecretClassifier::compile()?,
            rules,
        })
    }

    /// Finds secrets in the new lines of a text, with line numbers counted from 1. A secret that spans several lines
    /// counts if one of the lines is new, and is reported on the first new line.
    pub fn in_text(
        &self,
        text: &str,
        kind: FileKind,
        is_new: impl Fn(usize) -> bool,
    ) -> Vec<(usize, FoundSecret)> {
        let source = SourceText::new(text);
        let is_new: Vec<bool> = (1..=source.lines.len()).map(is_new).collect();
        let first_new =
            |lines: std::ops::Range<usize>| lines.into_iter().find(|line| is_new[*line]);
        let mut bodies = statements::key_bodies(&source.lines);
        let examples: Vec<usize> = bodies
            .extract_if(.., |body| !statements::may_be_key(&source.lines[body.start..]))
            .map(|body| body.start - 1)
            .collect();
        let mut found: Vec<(usize, Hit)> = Vec::new();
        for body in &bodies {
            // If the header of the key is a new line too, the line scan below finds the key.
            if let Some(line) = first_new(body.clone()).filter(|_| !is_new[body.start - 1]) {
                let (rule, what) = PRIVATE_KEY;
                found.push((line, Hit::new(rule, what, source.lines[line].trim(), false)));
            }
        }
        let mut body = bodies.iter().peekable();
        for (index, line) in source.lines.iter().enumerate() {
            while body.next_if(|body| body.end <= index).is_some() {}
            if is_new[index] && !body.peek().is_some_and(|body| body.contains(&index)) {
                let mut hits = self.scan_line(line, kind);
                if examples.binary_search(&index).is_ok() {
                    hits.retain(|hit| hit.secret.rule != PRIVATE_KEY.0);
                }
                found.extend(hits.into_iter().map(|hit| (index, hit)));
            }
        }
        for statement in self.statements.all(&source, kind) {
            let Some(line) = first_new(statement.lines.clone()) else { continue };
            if found.len() > MAX_PER_TEXT {
                break;
            }
            for mut hit in self.scan_statement(&statement, kind) {
                let mut lines = source.lines[statement.lines.clone()].iter();
                hit.secret.allowed |= lines.any(|line| line.contains(ALLOW_COMMENT));
                let known = |other: &Hit| other.value.contains(&hit.value);
                let part = |other: &Hit| hit.value.contains(&other.value);
                let here = |at: usize| statement.lines.contains(&at);
                if !found.iter().any(|(at, other)| here(*at) && known(other)) {
                    // Remove findings in single lines that are only parts of this secret.
                    found.retain(|(at, other)| !(here(*at) && part(other)));
                    found.push((line, hit));
                }
            }
        }
        found.sort_by_key(|(line, _)| *line);
        found.into_iter().map(|(line, hit)| (line + 1, hit.secret)).collect()
    }

    /// Finds secrets in one line of a file.
    pub fn in_line(&self, line: &str, kind: FileKind) -> Vec<FoundSecret> {
        self.scan_line(line, kind).into_iter().map(|hit| hit.secret).collect()
    }

    /// Finds a secret in the name of a file or task. Only known key formats count, because the other rules would match
    /// many ordinary names.
    pub fn in_name(&self, name: &str) -> Option<FoundSecret> {
        let mut hits = self.find_known_formats(&self.decoder.visible(name), false);
        hits.retain(|hit| self.chance.is_real_key(&hit.value));
        hits.into_iter().next().map(|hit| hit.secret)
    }

    fn scan_statement(&self, statement: &Statement, kind: FileKind) -> Vec<Hit> {
        let text = statement.text.as_str();
        let Some((rule, what)) = statement.secret_rule else { return self.scan_line(text, kind) };
        let decoded = decode::base64_text(text);
        let proved = match &decoded {
            // The decoded credentials of a container registry are JSON with an `auth` field.
            Some(plain) => self.chance.is_password(plain) || plain.contains("\"auth"),
            None => self.chance.is_real_key(text),
        };
        if proved { vec![Hit::new(rule, what, text, decoded.is_some())] } else { Vec::new() }
    }

    /// Finds secrets in a line in three forms: as written, with escapes resolved, and with encoded parts decoded once.
    fn scan_line(&self, line: &str, kind: FileKind) -> Vec<Hit> {
        let shown = self.decoder.visible(line);
        let mut found = self.scan_text(&shown, kind, false);
        let mut decoded = self.decoder.decoded(&shown);
        if let Some(text) = self.decoder.unescaped(&shown) {
            decoded.push(Decoded::Text(text));
        }
        for decoded in decoded {
            let hits = match decoded {
                Decoded::Text(text) => {
                    text.lines().flat_map(|line| self.scan_text(line, kind, true)).collect()
                }
                Decoded::Key => {
                    let (rule, what) = PRIVATE_KEY;
                    vec![Hit::new(rule, what, shown.trim(), true)]
                }
            };
            for hit in hits {
                // Skip a secret that was already found unencoded in the same line.
                let known = |other: &Hit| {
                    other.secret.rule == hit.secret.rule && !other.secret.encoded
                        || other.value == hit.value
                };
                if !found.iter().any(known) {
                    found.push(hit);
                }
            }
        }
        let allowed = line.contains(ALLOW_COMMENT);
        found.iter_mut().for_each(|hit| hit.secret.allowed = allowed);
        found
    }

    fn scan_text(&self, line: &str, kind: FileKind, encoded: bool) -> Vec<Hit> {
        let mut found = self.find_known_formats(line, encoded);
        let mut known: Vec<String> = found.iter().map(|hit| hit.value.clone()).collect();
        for value in self.named.values(line, kind, &self.chance) {
            let text = &line[value.start..value.end];
            // Skip a value that a more precise rule has already found.
            if found.len() < MAX_PER_LINE
                && !known.iter().any(|k| k.contains(text) || text.contains(k.as_str()))
            {
                known.push(text.to_owned());
                let what = "a secret assigned to a variable or field";
                found.push(Hit::new(value.rule, what, text, encoded));
            }
        }
        found
    }

    /// Finds secrets in a line that have a known key format, in the order of the rules.
    fn find_known_formats(&self, line: &str, encoded: bool) -> Vec<Hit> {
        let mut found: Vec<Hit> = Vec::new();
        let mut spans: Vec<(usize, usize)> = Vec::new();
        let mut tried = vec![false; self.rules.len()];
        for word in self.keywords.find_overlapping_iter(line) {
            tried[self.rule_of[word.pattern().as_usize()]] = true;
        }
        let rules = self.rules.iter().zip(tried).filter(|(_, tried)| *tried);
        for ((rule, pattern), _) in rules {
            for captures in pattern.captures_iter(line) {
                let Some(value) = captures.iter().skip(1).flatten().next().or(captures.get(0))
                else {
                    continue;
                };
                let (start, end) = (value.start(), value.end());
                let known = || spans.iter().any(|(from, to)| start < *to && *from < end);
                if spans.len() < MAX_PER_LINE
                    && (!rule.delimited || is_delimited(line, start, end))
                    && !known()
                    && self.has_evidence(rule.proof, value.as_str())
                {
                    spans.push((start, end));
                    found.push(Hit::new(rule.id, rule.what, value.as_str(), encoded));
                }
            }
        }
        found
    }

    fn has_evidence(&self, proof: Proof, text: &str) -> bool {
        match proof {
            Proof::MatchOnly => true,
            Proof::RandomValue => {
                match decode::base64_text(text).as_deref().and_then(|text| text.split_once(':')) {
                    // The decoded text is `user:password`, as in basic authentication headers.
                    Some((_, password)) => self.chance.is_password(password),
                    None => self.chance.is_real_key(text),
                }
            }
            Proof::Position => self.chance.is_password(text),
        }
    }
}

/// Whether the part of a line from `start` to `end` has no letter or digit directly before or after it.
fn is_delimited(line: &str, start: usize, end: usize) -> bool {
    let bytes = line.as_bytes();
    let adjacent =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    !adjacent(start.checked_sub(1)) && !adjacent(Some(end))
}

/// Masks a secret: returns at most its first four characters (fewer for a short secret) and its length.
fn masked(text: &str) -> String {
    let count = text.chars().count();
    let shown: String = text.chars().take((count / 4).min(4)).collect();
    format!("{shown}… ({count} characters)")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn every_secret_rule_compiles_and_has_a_unique_id() {
        let rules = &SecretScanner::get().unwrap().rules;
        assert!(rules.len() >= 120, "{}", rules.len());
        let ids: BTreeSet<&str> = rules.iter().map(|(rule, _)| rule.id).collect();
        assert_eq!(ids.len(), rules.len());
    }

    #[test]
    fn invalid_rule_of_the_secret_scanner_is_reported_as_an_error() {
        let broken = SecretRule::read("words  odd  a key  key  key(").unwrap();
        let error = SecretScanner::compile([Ok(broken)].into_iter()).unwrap_err().to_string();
        assert!(error.contains("pattern `odd` does not compile"), "{error}");
        assert!(SecretRule::read("word  odd  a key  key  key").is_none());
    }

    #[test]
    fn secret_in_base64_is_marked_as_encoded() {
        // The key is written in two parts, so that secret scanners do not report this file.
        let key = ["token: ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
        let line = format!("data = {}", BASE64_STANDARD.encode(key));
        let found = SecretScanner::get().unwrap().in_line(&line, FileKind::Code);
        assert_eq!((found.len(), found[0].encoded, found[0].allowed), (1, true, false));
    }
}

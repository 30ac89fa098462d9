//! Keys, tokens and passwords in added text.
//!
//! Each kind of key has a rule of its own where its provider gave it a form (`rules`); others are found by the name
//! beside them, such as `password =`, and by how much chance is in them (`named`). A placeholder is no secret
//! (`chance`): not because of a word in it, but because little is left without such words. Keys that providers hand out
//! for tests (`sk_test_`) are none either, nor are hashes of passwords, except with their accounts as in `/etc/shadow`.
//!
//! A literal that is assigned to a password is a secret however short it is, unless it is a placeholder, is looked up
//! in the environment, or stands in a test or a translation.
//!
//! A text is normalised before it is matched: invisible characters are removed, escapes are read and encoded pieces
//! decoded once (`decode`); what takes several lines is put on one (`statements`).

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

mod chance;
mod decode;
mod named;
mod names;
mod rules;
mod statements;

use decode::{Decoded, Decoder};
use rules::{Proof, Rule};
use statements::{Source, Statement};

use crate::file_kind::FileKind;
use crate::pattern::{BadPattern, compile};

/// What a line must say to keep a finding in it; the finding is reported all the same.
pub const ALLOWED: &str = "assize: allow-secret";

/// The most secrets of a line that are reported.
const MOST: usize = 200;

/// The most secrets of a text that are reported.
const MOST_IN_TEXT: usize = 1000;

/// What a private key is called.
const PRIVATE_KEY: (&str, &str) = ("private-key", "a private key");

/// Something in a text that should not be there.
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

/// A secret together with its text, which never leaves this module.
struct Hit {
    secret: Secret,
    value: String,
}

impl Hit {
    fn new(rule: &'static str, what: &'static str, value: &str, encoded: bool) -> Hit {
        let secret = Secret { rule, what, masked: masked(value), encoded, allowed: false };
        Hit { secret, value: value.to_owned() }
    }
}

/// Finds secrets in texts.
#[derive(Debug)]
pub struct SecretScanner {
    /// Each rule, and its pattern.
    rules: Vec<(Rule, Regex)>,
    /// The keywords of all rules, and the rule of each.
    keywords: AhoCorasick,
    rule_of: Vec<usize>,
    decoder: Decoder,
    statements: statements::Patterns,
    named: named::Patterns,
    chance: chance::Chance,
}

static SCANNER: LazyLock<Result<SecretScanner, BadPattern>> =
    LazyLock::new(|| SecretScanner::compile(rules::all()));

/// The patterns of all rules.
pub(crate) fn patterns() -> impl Iterator<Item = &'static str> {
    rules::all().flatten().map(|rule| rule.pattern)
}

impl SecretScanner {
    /// The scanner with all rules.
    pub fn get() -> Result<&'static SecretScanner, BadPattern> {
        SCANNER.as_ref().map_err(Clone::clone)
    }

    fn compile(
        rules: impl Iterator<Item = Result<Rule, BadPattern>>,
    ) -> Result<SecretScanner, BadPattern> {
        let compiled = |rule: Rule| compile(rule.id, rule.pattern).map(|pattern| (rule, pattern));
        let rules: Vec<(Rule, Regex)> =
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
                .map_err(|error| BadPattern::new("keywords", &error))?,
            rule_of: keywords.iter().map(|(index, _)| *index).collect(),
            decoder: Decoder::compile()?,
            statements: statements::Patterns::compile()?,
            named: named::Patterns::compile()?,
            chance: chance::Chance::compile()?,
            rules,
        })
    }

    /// The secrets in a text, with the lines they stand on, from 1. A secret of several lines counts if one of them is
    /// new, and is reported on the first new one.
    pub fn in_text(
        &self,
        text: &str,
        kind: FileKind,
        is_new: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Secret)> {
        let source = Source::new(text);
        let is_new: Vec<bool> = (1..=source.lines.len()).map(is_new).collect();
        let first_new =
            |lines: std::ops::Range<usize>| lines.into_iter().find(|line| is_new[*line]);
        let mut bodies = statements::key_bodies(&source.lines);
        let examples: Vec<usize> = bodies
            .extract_if(.., |body| !statements::may_hold_key(&source.lines[body.start..]))
            .map(|body| body.start - 1)
            .collect();
        let mut found: Vec<(usize, Hit)> = Vec::new();
        for body in &bodies {
            // A new heading is found as a line.
            if let Some(line) = first_new(body.clone()).filter(|_| !is_new[body.start - 1]) {
                let (rule, what) = PRIVATE_KEY;
                found.push((line, Hit::new(rule, what, source.lines[line].trim(), false)));
            }
        }
        let mut body = bodies.iter().peekable();
        for (index, line) in source.lines.iter().enumerate() {
            while body.next_if(|body| body.end <= index).is_some() {}
            if is_new[index] && !body.peek().is_some_and(|body| body.contains(&index)) {
                let mut hits = self.look_at(line, kind);
                if examples.binary_search(&index).is_ok() {
                    hits.retain(|hit| hit.secret.rule != PRIVATE_KEY.0);
                }
                found.extend(hits.into_iter().map(|hit| (index, hit)));
            }
        }
        for statement in self.statements.all(&source, kind) {
            let Some(line) = first_new(statement.lines.clone()) else { continue };
            if found.len() > MOST_IN_TEXT {
                break;
            }
            for mut hit in self.look_at_statement(&statement, kind) {
                let mut lines = source.lines[statement.lines.clone()].iter();
                hit.secret.allowed |= lines.any(|line| line.contains(ALLOWED));
                let known = |other: &Hit| other.value.contains(&hit.value);
                let part = |other: &Hit| hit.value.contains(&other.value);
                let here = |at: usize| statement.lines.contains(&at);
                if !found.iter().any(|(at, other)| here(*at) && known(other)) {
                    // What a line holds of it was found before.
                    found.retain(|(at, other)| !(here(*at) && part(other)));
                    found.push((line, hit));
                }
            }
        }
        found.sort_by_key(|(line, _)| *line);
        found.into_iter().map(|(line, hit)| (line + 1, hit.secret)).collect()
    }

    /// The secrets in one line of a file of this kind.
    pub fn in_line(&self, line: &str, kind: FileKind) -> Vec<Secret> {
        self.look_at(line, kind).into_iter().map(|hit| hit.secret).collect()
    }

    /// A secret in the name of a file or a task: one with a form, as every name would do for the rest.
    pub fn in_name(&self, name: &str) -> Option<Secret> {
        let mut hits = self.by_form(&self.decoder.visible(name), false);
        hits.retain(|hit| self.chance.fills_a_form(&hit.value));
        hits.into_iter().next().map(|hit| hit.secret)
    }

    fn look_at_statement(&self, statement: &Statement, kind: FileKind) -> Vec<Hit> {
        let text = statement.text.as_str();
        let Some((rule, what)) = statement.is else { return self.look_at(text, kind) };
        let decoded = decode::base64_text(text);
        let proved = match &decoded {
            // Accounts of registries stand beside their addresses.
            Some(plain) => self.chance.is_password(plain) || plain.contains("\"auth"),
            None => self.chance.fills_a_form(text),
        };
        if proved { vec![Hit::new(rule, what, text, decoded.is_some())] } else { Vec::new() }
    }

    /// The secrets of a line: as it stands, with its escapes read, and decoded once.
    fn look_at(&self, line: &str, kind: FileKind) -> Vec<Hit> {
        let shown = self.decoder.visible(line);
        let mut found = self.look(&shown, kind, false);
        let mut decoded = self.decoder.decoded(&shown);
        if let Some(text) = self.decoder.unescaped(&shown) {
            decoded.push(Decoded::Text(text));
        }
        for decoded in decoded {
            let hits = match decoded {
                Decoded::Text(text) => {
                    text.lines().flat_map(|line| self.look(line, kind, true)).collect()
                }
                Decoded::Key => {
                    let (rule, what) = PRIVATE_KEY;
                    vec![Hit::new(rule, what, shown.trim(), true)]
                }
            };
            for hit in hits {
                // What stands there plainly, too, is no news.
                let known = |other: &Hit| {
                    other.secret.rule == hit.secret.rule && !other.secret.encoded
                        || other.value == hit.value
                };
                if !found.iter().any(known) {
                    found.push(hit);
                }
            }
        }
        let allowed = line.contains(ALLOWED);
        found.iter_mut().for_each(|hit| hit.secret.allowed = allowed);
        found
    }

    fn look(&self, line: &str, kind: FileKind, encoded: bool) -> Vec<Hit> {
        let mut found = self.by_form(line, encoded);
        let mut known: Vec<String> = found.iter().map(|hit| hit.value.clone()).collect();
        for value in self.named.values(line, kind, &self.chance) {
            let text = &line[value.start..value.end];
            // A vaguer rule need not report again what a more precise one has found.
            if found.len() < MOST
                && !known.iter().any(|k| k.contains(text) || text.contains(k.as_str()))
            {
                known.push(text.to_owned());
                found.push(Hit::new(value.rule, "a secret that is assigned", text, encoded));
            }
        }
        found
    }

    /// The secrets of a line that have a form, in the order of the rules.
    fn by_form(&self, line: &str, encoded: bool) -> Vec<Hit> {
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
                if spans.len() < MOST
                    && (!rule.apart || stands_apart(line, start, end))
                    && !known()
                    && self.proves(rule.proof, value.as_str())
                {
                    spans.push((start, end));
                    found.push(Hit::new(rule.id, rule.what, value.as_str(), encoded));
                }
            }
        }
        found
    }

    fn proves(&self, proof: Proof, text: &str) -> bool {
        match proof {
            Proof::Words => true,
            Proof::Form => {
                match decode::base64_text(text).as_deref().and_then(|text| text.split_once(':')) {
                    // A user and a password, as headers have them.
                    Some((_, password)) => self.chance.is_password(password),
                    None => self.chance.fills_a_form(text),
                }
            }
            Proof::Picked => self.chance.is_password(text),
        }
    }
}

/// Whether no letter or digit stands before or after a part of a line.
fn stands_apart(line: &str, start: usize, end: usize) -> bool {
    let bytes = line.as_bytes();
    let glued =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    !glued(start.checked_sub(1)) && !glued(Some(end))
}

/// The first characters, at most four and of a short one fewer, and how many there are in all.
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
    fn every_rule_compiles_and_has_its_own_id() {
        let rules = &SecretScanner::get().unwrap().rules;
        assert!(rules.len() >= 120, "{}", rules.len());
        let ids: BTreeSet<&str> = rules.iter().map(|(rule, _)| rule.id).collect();
        assert_eq!(ids.len(), rules.len());
    }

    #[test]
    fn scanner_with_a_broken_rule_is_an_error() {
        let broken = Rule::read("words  odd  a key  key  key(").unwrap();
        let error = SecretScanner::compile([Ok(broken)].into_iter()).unwrap_err().to_string();
        assert!(error.starts_with("the gate's pattern `odd` does not compile"), "{error}");
        assert!(Rule::read("word  odd  a key  key  key").is_none());
    }

    #[test]
    fn encoded_secret_is_marked_as_such() {
        // In two parts, so that nobody takes this file for one that leaks.
        let key = ["token: ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
        let line = format!("data = {}", BASE64_STANDARD.encode(key));
        let found = SecretScanner::get().unwrap().in_line(&line, FileKind::Code);
        assert_eq!((found.len(), found[0].encoded, found[0].allowed), (1, true, false));
    }
}

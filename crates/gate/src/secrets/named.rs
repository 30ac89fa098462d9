//! Finds secrets without a known format by the name before the value: `db_password = "…"`, `--token …`.
//!
//! A value directly after a name may be a password chosen by a person; a value further along the line must be random. A
//! literal assigned to a password counts if it has at least four characters, or three if one is a digit. It does not
//! count if it is a placeholder or a reference, or if the file is a test or a translation.

use regex::Regex;

use super::chance::{SERVICE_DEFAULTS, SecretClassifier};
use super::names::{ABOUT, LONGEST, NEVER, SecretKind, kind, names_a_password, sets, words};
use crate::file_kind::FileKind;
use crate::pattern::{InvalidPattern, among, compile};

/// Maximum number of names that are examined in a line. A line with more names is generated; after these names, only
/// secrets with a known format are found in it.
const MAX_NAMES: usize = 1000;
/// Maximum distance from the end of a name to the start of its value, in bytes.
const MAX_DISTANCE: usize = 60;
/// Maximum distance from the end of a name to the end of its value, in bytes.
const MAX_END: usize = 300;
/// Maximum length of a line, in bytes, in which a literal of letters, digits and punctuation may count as random.
const MAX_LINE: usize = 1000;

/// A name that suggests a secret value.
struct Name {
    start: usize,
    end: usize,
    kind: SecretKind,
    /// Whether the name unambiguously denotes a secret.
    plain: bool,
    /// Whether the value may follow after a space, as in `--password hunter3`.
    spaced: bool,
}

/// Position of a secret value in a line, and the name of the rule that found the value.
pub(super) struct NamedValue {
    pub start: usize,
    pub end: usize,
    pub rule: &'static str,
}

/// Rule name for a quoted secret that is assigned to a name.
const QUOTED: &str = "assigned-secret";
/// Rule name for a secret without quotes that is assigned to a name.
const BARE: &str = "assigned-secret-bare";
/// Rule name for a literal that is assigned to a password.
const PASSWORD: &str = "assigned-password";

/// Patterns that find names of secrets and the values assigned to them.
#[derive(Debug)]
pub(super) struct NamePatterns {
    core: Regex,
    quoted: Regex,
    bare: Regex,
    spaced: Regex,
    near: Regex,
    /// Matches values that are code: a type, a constant, a field access, or words with a number.
    code: Regex,
    /// Matches a literal that is assigned to the name or compared with it.
    literal: Regex,
    /// Matches a literal that is the only argument of a call.
    call: Regex,
    /// Matches a value without quotes in a configuration file.
    setting: Regex,
    /// Matches the default value of a shell variable: `${PASSWORD:-…}`.
    fallback: Regex,
    /// Matches the value of an environment variable in a Dockerfile (`ENV PASSWORD …`), or of a field in a `.netrc`.
    image: Regex,
    /// Matches the content of an XML element: `<password>…</password>`.
    element: Regex,
    /// Matches the second argument of a call that defines a setting: `define('DB_PASSWORD', '…')`.
    argument: Regex,
    /// Matches the start of a call that defines a setting: `define('`.
    defining: Regex,
    /// Matches a long literal, which may contain spaces and punctuation.
    long: Regex,
    /// Matches a literal that is compared with the name after it: `"…" == password`.
    reversed: Regex,
}

impl NamePatterns {
    pub(super) fn compile() -> Result<NamePatterns, InvalidPattern> {
        let new = |pattern: &str| compile("assigned secrets", pattern);
        Ok(NamePatterns {
            core: new(
                r"(?i)(?:api|access|secret|private|auth)[ _-]?key|pass|pwd?|secret|token|key|cred(?:ential|s)|auth|bearer|appid|securestring|salt",
            )?,
            quoted: new(r#"(?x) ^["'`\])*]{0,4} \s* (?:\[\w{0,4}\])? \s*
               (?: (?::\s*[&'\w<>\[\].\ ]{1,40}|(?:string|\[\]byte)\s*)?= | (?:[?.+:]|\|\||\?\?|::)= | [=!]==? | => | :=
                 | [:=,(] | \{\s*default\s*=
                 | ,?\s*["']?value["']?\s*[:=] )? \s*
               (?: [\w.:\[\]]{0,20}\( | [bBruUfFL@$]{1,2} )? ["'`]\\?["']?([^"'`\s]{6,})["'`]"#)?,
            bare: new(
                r#"(?x) ^["'`\]*]{0,4} \s* (?: (?: = | := | :\s | \s:\s ) \s* (?:!!\w+\s+)? ([^\s"'`,;<>(){}\[\]|]{6,}) ([(\[{,;]?)
                 | > ([^\s"'`,;<>(){}\[\]|]{6,}) </ )"#,
            )?,
            spaced: new(r#"^\s+["']?([^\s"'`,;<>(){}\[\]|]{6,})"#)?,
            near: new(r#"(?:["'`]|[=:]\s*)([^\s"'`,;<>(){}\[\]|]{16,})(?:["'`,;&<\s]|$)"#)?,
            code: new(r"(?x) ^[*&] | ^(?:[A-Z]{1,4}[a-z]{2,}|\d+)+$ | ^[A-Z0-9]+(?:_[A-Z0-9]+)+$
              | ^[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$ | ^[A-Za-z]+(?:[_.-](?:[A-Za-z]+|\d{1,4}))+$")?,
            literal: new(
                r#"(?x) ^["'`\])*]{0,4} \s* (?:\[\w{0,4}\]\s*)? (?: (?::\s*[&'\w<>\[\].\ ]{1,40}|(?:string|\[\]byte)\s*)?=
                 | (?:[?.+:]|\|\||\?\?|::)= | [=!]==? | => | := | :
                 | ,?\s*["']?value["']?\s*[:=] ) \s* \(? [bBruUfFL@]{0,2} (?:"{3}|'{3}|["'`]) ([^"'`\s]{3,})["'`] (?:[^.\w]|$)"#,
            )?,
            call: new(r#"^\(\s*["']([^"'\s]{3,})["']\s*\)"#)?,
            setting: new(r#"^["']?\s*(?:=|:\s)\s*([^\s"'`,;]{3,})\s*(?:\#.*)?$"#)?,
            fallback: new(r#"^:[-=]["']?([^\s"'`}]{3,})["']?\}"#)?,
            image: new(r"^\s+(\S{3,})\s*$")?,
            element: new(r"^(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?([^\s<>\]]{3,})(?:\]\]>)?\s*</")?,
            argument: new(r#"^["']\s*,\s*["']([^"'\s]{3,})["']\s*[,)]"#)?,
            defining: new(
                r#"(?i)\b(?:define|set_?property|set_?env|with_?env|setdefault|set_?environment_?variable)\(\s*["']$"#,
            )?,
            long: new(
                r#"(?x) ^["'`\])*]{0,4} \s* (?: (?::\s*[&'\w<>\[\].\ ]{1,40})?= | => | := | [:=,(] )? \s*
                 (?: \w{0,20}\( | [bru] )? (?: "([^"]{30,})" | '([^']{30,})' )"#,
            )?,
            reversed: new(
                r#"["'`]([^"'`\s]{3,200})["'`]\s*(?:===?|!==?)\s*([A-Za-z_$][\w.$]{0,60})"#,
            )?,
        })
    }

    /// Returns the secret values in a line that are identified as secrets by their names.
    pub(super) fn values(
        &self,
        line: &str,
        kind: FileKind,
        chance: &SecretClassifier,
    ) -> Vec<NamedValue> {
        let mut values = self.after_names(line, kind, chance);
        if line.len() <= MAX_LINE && (line.contains("==") || line.contains("!=")) {
            for captures in self.reversed.captures_iter(line) {
                let reversed = format!("{} == \"{}\"", &captures[2], &captures[1]);
                let found = self.after_names(&reversed, kind, chance).into_iter().next();
                if let (Some(found), Some(literal)) = (found, captures.get(1)) {
                    let (start, end) = (literal.start(), literal.end());
                    values.push(NamedValue { start, end, rule: found.rule });
                }
            }
        }
        values
    }

    /// Returns the secret values in a line that follow their names.
    fn after_names(
        &self,
        line: &str,
        kind: FileKind,
        chance: &SecretClassifier,
    ) -> Vec<NamedValue> {
        let mut values: Vec<NamedValue> = Vec::new();
        let mut from = 0;
        for _ in 0..MAX_NAMES {
            let Some(name) = next_name(&self.core, line, &mut from) else { break };
            let Some(name) = name else { continue };
            let found = self
                .value_of(line, &name, kind, chance)
                .or_else(|| self.password_of(line, &name, kind, chance));
            if let Some(value) = found {
                from = from.max(value.end);
                values.push(value);
            }
        }
        values
    }

    fn value_of(
        &self,
        line: &str,
        name: &Name,
        kind: FileKind,
        chance: &SecretClassifier,
    ) -> Option<NamedValue> {
        let rest = after_name(line, name.end);
        let value = |group: regex::Match<'_>, rule| {
            let start = name.end + group.start();
            NamedValue { start, end: start + value_only(group.as_str()).len(), rule }
        };
        let may_be = |text: &str, quoted: bool| {
            if is_truncated(text) {
                return false;
            }
            let text = value_only(text);
            chance.drawn(text)
                || name.plain && chance.unspeakable(text)
                || name.plain && is_uuid(text) && chance.fills_a_form(text)
                || name.plain
                    && kind != FileKind::Translation
                    && chance.picked(text)
                    && match name.kind {
                        SecretKind::Password => quoted || !self.code.is_match(text),
                        SecretKind::Secret => {
                            quoted && text.len() >= 10 && !self.code.is_match(text)
                        }
                        SecretKind::Key => false,
                    }
        };
        let group = |pattern: &Regex| pattern.captures(rest).and_then(|captures| captures.get(1));
        if let Some(found) = group(&self.quoted) {
            if may_be(found.as_str(), true) {
                return Some(value(found, QUOTED));
            }
        } else if let Some(captures) = self.bare.captures(rest) {
            let after = captures.get(2).map_or("", |after| after.as_str());
            let part = |text: &str| match after {
                "" => false,
                // A plain word before a comma or semicolon is taken for code, because a password is seldom a plain
                // word.
                "," | ";" => text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_'),
                _ => true,
            };
            let found = captures.get(1).or(captures.get(3)).filter(|found| !part(found.as_str()));
            if let Some(found) = found.filter(|found| may_be(found.as_str(), false)) {
                return Some(value(found, BARE));
            }
        } else if name.spaced
            && let Some(found) = group(&self.spaced)
            && may_be(found.as_str(), false)
        {
            return Some(value(found, BARE));
        }
        // Lines longer than `MAX_LINE` are minified code, in which quotes cannot be paired reliably.
        if line.len() <= MAX_LINE
            && let Some(captures) = self.long.captures(rest)
            && let Some(found) = captures.get(1).or(captures.get(2))
            && chance.scrambled(found.as_str())
        {
            let (start, end) = (name.end + found.start(), name.end + found.end());
            return Some(NamedValue { start, end, rule: QUOTED });
        }
        let near = self.near.captures(rest)?.get(1)?;
        let between = &rest[..near.start()];
        let between_words = words(between);
        let other = between.len() > MAX_DISTANCE
            || between.contains(';')
            // The value is the checksum of a Go module.
            || between.ends_with("h1:")
            || between_words.iter().any(|word| among(word, NEVER))
            // The name nearest to the value decides: in `password(credentialsId: '…')`, the value is an id.
            || between_words.last().is_some_and(|word| among(word, ABOUT))
            || is_truncated(near.as_str());
        (!other && chance.drawn(value_only(near.as_str()))).then(|| value(near, QUOTED))
    }

    /// Finds a literal password that is assigned to the name of a password. The literal may be short.
    fn password_of(
        &self,
        line: &str,
        name: &Name,
        kind: FileKind,
        chance: &SecretClassifier,
    ) -> Option<NamedValue> {
        let own = &line[name.start..name.end];
        if name.kind != SecretKind::Password
            || !name.plain
            || matches!(kind, FileKind::Test | FileKind::Translation)
            || !names_a_password(own, &line[..name.start])
        {
            return None;
        }
        let rest = after_name(line, name.end);
        let group = |pattern: &Regex| pattern.captures(rest).and_then(|captures| captures.get(1));
        let services = matches!(kind, FileKind::Container | FileKind::Compose);
        let called = || group(&self.call).filter(|_| sets(own));
        let set = || group(&self.setting).filter(|_| services || kind == FileKind::Config);
        let netrc = line.trim_start().starts_with("machine ");
        let spaced = name.spaced && (netrc || kind == FileKind::Container);
        let image = || group(&self.image).filter(|_| spaced);
        let found = group(&self.literal).or_else(called).or_else(set);
        let near_start = line.ceil_char_boundary(name.start.saturating_sub(LONGEST));
        let defined = || {
            group(&self.argument).filter(|_| self.defining.is_match(&line[near_start..name.start]))
        };
        let element = || group(&self.element).filter(|_| line[..name.start].ends_with('<'));
        let found = found.or_else(|| group(&self.fallback)).or_else(image);
        let found = found.or_else(defined).or_else(element)?;
        let text = found.as_str();
        // CI configuration files also contain default passwords of services, such as `POSTGRES_PASSWORD: postgres`.
        let of_service = || {
            let own = own.to_lowercase();
            let short = text == "postgres" && own.starts_with("pg");
            kind == FileKind::Config && (own.starts_with(text) || short)
        };
        let is_default = SERVICE_DEFAULTS.contains(&text) && (services || of_service());
        // `PWD` is ambiguous, because it is also the variable of the working directory.
        let vague = own.eq_ignore_ascii_case("pwd") && !text.bytes().any(|b| b.is_ascii_digit());
        (chance.is_literal_password(text) && !is_default && !vague).then(|| NamedValue {
            start: name.end + found.start(),
            end: name.end + found.end(),
            rule: PASSWORD,
        })
    }
}

/// Returns the part of a line after a name in which the value of the name may be.
fn after_name(line: &str, from: usize) -> &str {
    &line[from..line.floor_char_boundary(from + MAX_END)]
}

/// Finds the next name in a line. Returns `None` at the end of the line, and `Some(None)` if the name does not suggest
/// a secret.
fn next_name(core: &Regex, line: &str, from: &mut usize) -> Option<Option<Name>> {
    let found = core.find_at(line, *from)?;
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let nested = |byte: &&u8| part(byte) || **byte == b':';
    let before =
        line.as_bytes()[*from..found.start()].iter().rev().take(LONGEST).take_while(nested);
    let after = line.as_bytes()[found.end()..].iter().take(LONGEST).take_while(part);
    let (start, end) = (found.start() - before.count(), found.end() + after.count());
    *from = end;
    let text = &line[start..end];
    let words = words(text);
    let Some((kind, plain)) = kind(&words) else { return Some(None) };
    if text == "passwd" && line[..start].ends_with("/etc/") {
        return Some(None);
    }
    // Only the end of the text before the name is examined, because a line may have a megabyte and a thousand names.
    let before = line[..start].trim_end();
    let follows = |command: &str| {
        let rest = before.strip_suffix(command);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(char::is_whitespace))
    };
    let spaced = text.starts_with("--")
        || follows("ENV")
        || follows("setx")
        || text == "requirepass"
        || line.trim_start().starts_with("machine ");
    // `pass` is also a verb, so it counts as a name only if a value is assigned to it.
    let assigned =
        line[end..].trim_start_matches(['"', '\'', '`', ']', ' ']).starts_with(['=', ':', '!']);
    let element = line[..start].ends_with('<');
    if words.last().is_some_and(|word| word == "pass") && !assigned && !spaced && !element {
        return Some(None);
    }
    Some(Some(Name { start, end, kind, plain, spaced }))
}

/// Returns a value without the text after it: URL parameters, an escaped line break, or a full stop.
fn value_only(text: &str) -> &str {
    let text = ["\\n", "\\r", "\\t"]
        .iter()
        .filter_map(|escape| text.split_once(escape).map(|(line, _)| line))
        .min_by_key(|line| line.len())
        .unwrap_or(text);
    let next = |at: &usize| {
        let rest = &text[at + 1..];
        let name = rest.trim_start_matches(|char: char| char.is_alphanumeric() || char == '_');
        rest.starts_with('&') || name.starts_with('=') && name.len() < rest.len()
    };
    let end = text.match_indices('&').map(|(at, _)| at).find(next).unwrap_or(text.len());
    text[..end].trim_end_matches(['\\', '.'])
}

/// Whether a value is abbreviated with an ellipsis: `eyJhbGci...`.
fn is_truncated(text: &str) -> bool {
    text.ends_with("...") || text.ends_with('…')
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

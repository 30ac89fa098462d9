//! Joins text that spans several lines into one line, so that secrets in it are found: concatenated literals, names and
//! values on neighbouring lines, XML elements and private keys.

use std::ops::Range;

use regex::Regex;

use super::names;
use crate::file_kind::FileKind;
use crate::pattern::{InvalidPattern, compile};

/// Maximum number of lines that are joined into one statement.
const MAX_LINES: usize = 30;
/// Maximum length of the text of one statement, in bytes.
const MAX_BYTES: usize = 16 << 10;
/// Maximum number of JSON Web Keys that are examined per text.
const MAX_WEB_KEYS: usize = 200;

/// Text of several neighbouring lines, joined into one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// Range of the joined lines, counted from 0.
    pub lines: Range<usize>,
    pub text: String,
    /// Rule name and description of the secret, if the whole text is a secret.
    pub secret_rule: Option<(&'static str, &'static str)>,
}

/// Patterns that find the lines of a text to join into statements.
#[derive(Debug)]
pub(super) struct StatementPatterns {
    /// Matches the text between two concatenated literals, including the quotes.
    joint: Regex,
    /// Matches a line that ends after a name and its assignment operator. The value starts on the next line.
    open: Regex,
    /// Matches `name: NAME` followed by `value: VALUE`.
    pair: Regex,
    /// Matches `value: VALUE` followed by `name: NAME`.
    reversed_pair: Regex,
    /// Matches an XML element or attribute that contains a name, followed by an element that contains the value of the
    /// name.
    elements: Regex,
    /// Matches `<name>value</name>`, also across lines.
    element: Regex,
    /// Matches the field `kty` of a JSON Web Key.
    key_type: Regex,
    /// Matches the private fields `d` and `k` of a JSON Web Key.
    key_value: Regex,
    /// Matches a field with a value in a Kubernetes `Secret`, or one line of a value that spans several lines.
    field: Regex,
}

impl StatementPatterns {
    pub(super) fn compile() -> Result<StatementPatterns, InvalidPattern> {
        let new = |pattern: &str| compile("statements", pattern);
        Ok(StatementPatterns {
            joint: new(
                r#"["'`]\s*(?:\\\s+)?(?:\+\+|<>|\|\||\.\.|[+.&~])?\s*(?:\\\s+)?(?:[bBrRuUfFL@$]{1,2})?["'`]|["'`]\.concat\(["'`]"#,
            )?,
            open: new(
                r#"(?x)^(.*[\w\])]["'`]?\s*(?: (?::\s*[&'\w<>\[\].\ ]{1,40})?= | => | := | : ))\s*(?:[|>][+-]?\d?|\\|\(|<<[~-]?["']?\w+["']?)?\s*(?:\#.*)?$"#,
            )?,
            pair: new(
                r#"(?i)(?:^|[\s{,<(-])["']?(?:\w*name|\w*key|variable)["']?\s*[:=]\s*["']?([A-Za-z][\w.:-]+)["']?[ \t]*[,;]?[ \t]*(?:\#[^\n]*)?\s*["']?(?:\w*value)["']?\s*[:=]\s*([^\s][^\n]*)"#,
            )?,
            reversed_pair: new(
                r#"(?i)(?:^|[\s{,<(-])["']?(?:\w*value)["']?\s*[:=][ \t]*([^\s,;][^\n,;]*)[,;]?[ \t]*\r?\n[ \t]*["']?(?:\w*name|\w*key|variable)["']?\s*[:=]\s*["']?([A-Za-z][\w.:-]+)["']?"#,
            )?,
            elements: new(
                r#"(?i)<(?:name|key)>\s*([A-Za-z][\w.:-]+)\s*</(?:name|key)>\s*<(?:value|string)>\s*([^\s<>]{3,})\s*</|\b(?:name|key)="([A-Za-z][\w.:-]+)"[^<>]*>\s*(?:<value>\s*)?([^\s<>]{3,})\s*</"#,
            )?,
            element: new(
                r"<([A-Za-z][\w:.-]+)(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?\s*([^\s<>\]]{3,})\s*(?:\]\]>)?\s*</",
            )?,
            key_type: new(r#"\\?["']?\bkty\\?["']?\s*[:=]\s*\\?["'](RSA|EC|OKP|oct)\\?["']"#)?,
            key_value: new(
                r#"[\s{,"']([dk])\\?["']?\s*[:=]\s*\\?["']([A-Za-z0-9_=+/-]{20,})\\?["']"#,
            )?,
            field: new(
                r#"^\s+["']?[\w.-]+["']?:\s*["']?([^\s"'#]{8,})["']?\s*$|^\s+([A-Za-z0-9+/]{16,}={0,2})\s*$"#,
            )?,
        })
    }

    /// Joins the lines of a text that belong together, and returns the joined statements.
    pub(super) fn all(&self, source: &SourceText<'_>, kind: FileKind) -> Vec<Statement> {
        let mut all = Vec::new();
        self.literals(source, &mut all);
        continued(source, &mut all);
        self.next_lines(source, kind, &mut all);
        self.pairs(source, &mut all);
        self.elements(source, &mut all);
        self.web_keys(source, &mut all);
        self.cluster_secrets(source, &mut all);
        all
    }

    /// Adds statements for literals that a program concatenates: `"abc" + "def"`, and `"abc" "def"`.
    fn literals(&self, source: &SourceText<'_>, all: &mut Vec<Statement>) {
        let text = source.text;
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+/=".contains(&byte);
        let mut gaps: Vec<Range<usize>> = Vec::new();
        let flush = |gaps: &mut Vec<Range<usize>>, all: &mut Vec<Statement>| {
            let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { return };
            let lines = source.line_of(first.start)..source.line_of(last.end) + 1;
            let whole = source.bytes_of(&lines);
            if whole.len() > 2 * MAX_BYTES {
                gaps.clear();
                return;
            }
            let mut joined = String::new();
            let mut from = whole.start;
            for gap in gaps.iter() {
                joined.push_str(&text[from..gap.start]);
                from = gap.end;
            }
            joined.push_str(&text[from..whole.end]);
            gaps.clear();
            all.push(Statement {
                lines,
                text: joined.replace(['\n', '\r'], " "),
                secret_rule: None,
            });
        };
        for gap in self.joint.find_iter(text) {
            let bytes = text.as_bytes();
            let before = gap.start().checked_sub(1).map(|at| bytes[at]);
            let joins = before.is_some_and(part) && bytes.get(gap.end()).copied().is_some_and(part);
            if !joins {
                continue;
            }
            let apart =
                |last: &Range<usize>| source.line_of(last.end) < source.line_of(gap.start());
            if gaps.last().is_some_and(apart) || gaps.len() >= 4 * MAX_LINES {
                flush(&mut gaps, all);
            }
            gaps.push(gap.range());
        }
        flush(&mut gaps, all);
    }

    /// Adds statements for names whose value is on the next line, or in a folded or literal YAML block.
    fn next_lines(&self, source: &SourceText<'_>, kind: FileKind, all: &mut Vec<Statement>) {
        let bare = matches!(kind, FileKind::Config | FileKind::Compose);
        for (index, line) in source.lines.iter().enumerate() {
            let ends = line.trim_end().ends_with([':', '=', '>', '|', '-', '+', '\\', '(']);
            if !ends && !line.contains('#') && !line.contains("<<") {
                continue;
            }
            let Some(open) = self.open.captures(line).and_then(|captures| captures.get(1)) else {
                continue;
            };
            if !names::may_name(open.as_str()) {
                continue;
            }
            let indent = |line: &str| line.len() - line.trim_start().len();
            let folded = line.trim_end().ends_with(['>', '|', '-', '+']);
            let block: Vec<&str> = source.lines[index + 1..]
                .iter()
                .take(if folded { 4 } else { 1 })
                .take_while(|next| {
                    indent(next) > indent(line) || next.trim_start().starts_with(['"', '\''])
                })
                .map(|next| next.trim())
                .collect();
            let value = block.concat();
            let quoted =
                value.trim_start_matches(['b', 'r', 'u', 'f', '@']).starts_with(['"', '\'', '`']);
            let is_value = !value.is_empty() && (quoted || bare && !value.contains([' ', ':']));
            if is_value && value.len() < MAX_BYTES && open.len() < MAX_BYTES {
                let lines = index..index + 1 + block.len();
                all.push(Statement {
                    lines,
                    text: format!("{} {value}", open.as_str()),
                    secret_rule: None,
                });
            }
        }
    }

    /// Adds statements for names and values in separate fields, as in the environment of a Kubernetes container.
    fn pairs(&self, source: &SourceText<'_>, all: &mut Vec<Statement>) {
        let text = source.text;
        if !text.contains("alue") {
            return;
        }
        let mut add = |whole: Range<usize>, name: &str, value: &str| {
            let value = value.trim_end().trim_end_matches([',', ';', '}', '/', '>', ' ']);
            let short = name.len() <= MAX_BYTES && value.len() <= MAX_BYTES;
            if short && names::may_name(name) && !value.starts_with(['|', '>', '{', '[']) {
                let lines = source.line_of(whole.start)..source.line_of(whole.end - 1) + 1;
                all.push(Statement { lines, text: format!("{name}: {value}"), secret_rule: None });
            }
        };
        for captures in self.pair.captures_iter(text) {
            add(trimmed(captures.get_match()), &captures[1], &captures[2]);
        }
        for captures in self.reversed_pair.captures_iter(text) {
            add(trimmed(captures.get_match()), &captures[2], &captures[1]);
        }
    }

    /// Adds statements for XML elements with a name and a value.
    fn elements(&self, source: &SourceText<'_>, all: &mut Vec<Statement>) {
        let text = source.text;
        if !text.contains("</") {
            return;
        }
        let found = self.elements.captures_iter(text).chain(self.element.captures_iter(text));
        for captures in found {
            let mut groups = captures.iter().skip(1).flatten();
            let (Some(name), Some(value)) = (groups.next(), groups.next()) else { continue };
            let short = name.len() <= MAX_BYTES && value.len() <= MAX_BYTES;
            if short && names::may_name(name.as_str()) {
                let lines = source.line_of(name.start())..source.line_of(value.end()) + 1;
                let (name, value) = (name.as_str(), value.as_str());
                all.push(Statement {
                    lines,
                    text: format!("<{name}>{value}</{name}>"),
                    secret_rule: None,
                });
            }
        }
    }

    /// Adds statements for private JSON Web Keys: asymmetric keys with their private field, and symmetric keys.
    fn web_keys(&self, source: &SourceText<'_>, all: &mut Vec<Statement>) {
        let text = source.text;
        for captures in self.key_type.captures_iter(text).take(MAX_WEB_KEYS) {
            let at = captures.get_match();
            let from = text.ceil_char_boundary(at.start().saturating_sub(MAX_BYTES / 2));
            let to = text.floor_char_boundary(at.end() + MAX_BYTES / 2);
            let start = text[from..at.start()].rfind('{').map_or(from, |found| from + found);
            let end = text[at.end()..to].find('}').map_or(to, |found| at.end() + found);
            let member = if &captures[1] == "oct" { "k" } else { "d" };
            let found = self.key_value.captures_iter(&text[start..end]);
            for captures in found.filter(|captures| &captures[1] == member) {
                let Some(value) = captures.get(2) else { continue };
                let line = source.line_of(start + value.start());
                let lines =
                    source.line_of(at.start()).min(line)..source.line_of(at.start()).max(line) + 1;
                let text = value.as_str().to_owned();
                all.push(Statement {
                    lines,
                    text,
                    secret_rule: Some(("private-jwk", "a private JSON Web Key")),
                });
            }
        }
    }

    /// Adds statements for the values of a Kubernetes `Secret`.
    fn cluster_secrets(&self, source: &SourceText<'_>, all: &mut Vec<Statement>) {
        let is_kind = |line: &&str| {
            line.strip_prefix("kind:").is_some_and(|kind| {
                kind.trim().trim_matches(['"', '\'']).eq_ignore_ascii_case("secret")
            })
        };
        if !source.lines.iter().any(is_kind) {
            return;
        }
        let mut from = 0;
        for document in source.lines.split(|line| line.trim_end() == "---") {
            let is_secret = document.iter().any(is_kind);
            let mut inside = false;
            for (index, line) in document.iter().enumerate() {
                if !line.starts_with([' ', '\t']) && !line.trim().is_empty() {
                    inside = is_secret && matches!(line.trim_end(), "data:" | "stringData:");
                } else if inside
                    && let Some(captures) = self.field.captures(line)
                    && let Some(value) = captures.get(1).or(captures.get(2))
                {
                    let at = from + index;
                    let text = value.as_str().to_owned();
                    let is = Some(("kubernetes-secret", "a value in a Kubernetes Secret"));
                    all.push(Statement { lines: at..at + 1, text, secret_rule: is });
                }
            }
            from += document.len() + 1;
        }
    }
}

/// Adds statements for lines that end with a backslash, each joined with the lines that continue it.
fn continued(source: &SourceText<'_>, all: &mut Vec<Statement>) {
    let is_continued = |line: &&str| line.ends_with('\\') && !line.ends_with("\\\\");
    let mut index = 0;
    while index < source.lines.len() {
        let count = source.lines[index..]
            .iter()
            .take(MAX_LINES)
            .take_while(|line| is_continued(line))
            .count();
        if count == 0 {
            index += 1;
            continue;
        }
        let end = (index + count + 1).min(source.lines.len());
        let mut text = String::new();
        for line in &source.lines[index..end] {
            let line = if text.is_empty() { line } else { line.trim_start() };
            text.push_str(line.strip_suffix('\\').unwrap_or(line));
        }
        if text.len() <= MAX_BYTES {
            all.push(Statement { lines: index..end, text, secret_rule: None });
        }
        index = end;
    }
}

/// Returns the bodies of PEM private keys, each as a range of lines counted from 0. A body starts after the header line
/// and ends with the last line that can belong to the key.
pub(super) fn key_bodies(lines: &[&str]) -> Vec<Range<usize>> {
    let mut bodies = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let heading = lines[index].trim_end();
        let opens = heading.contains("-----BEGIN ")
            && (heading.ends_with("PRIVATE KEY-----")
                || heading.ends_with("PRIVATE KEY BLOCK-----"));
        index += 1;
        if opens {
            let part = |line: &&str| {
                let plain = |char: char| char.is_ascii_alphanumeric() || "+/=:-,. ".contains(char);
                let line = line.trim();
                !line.contains("-----") && line.chars().all(plain)
            };
            let count = lines[index..].iter().take_while(|line| part(line)).count();
            bodies.push(index..index + count);
            index += count;
        }
    }
    bodies
}

/// Minimum number of characters in the body of a private key.
const MIN_KEY_CHARS: usize = 40;
/// Maximum number of lines in a private key.
const MAX_KEY_LINES: usize = 200;

/// Whether the lines after a PEM header may be a real private key. Returns false if the body has an end line and is
/// shorter than the body of a real key ([`MIN_KEY_CHARS`]): such a key is an example.
pub(super) fn may_be_key(body: &[&str]) -> bool {
    let part = |char: char| char.is_ascii_alphanumeric() || "+/=".contains(char);
    let length = |line: &&str| -> usize {
        let runs = line.split(|char| !part(char)).filter(|run| run.len() >= 8);
        runs.map(str::len).sum()
    };
    let varied = |line: &&&str| !line.bytes().all(|byte| Some(byte) == line.bytes().next());
    let end = body.iter().take(MAX_KEY_LINES).position(|line| line.contains("-----END "));
    end.is_none_or(|end| {
        let lines = || body[..end].iter().filter(varied);
        // A key may be split into groups of a few characters. It is still longer than an example.
        let all: usize = lines().map(|line| line.chars().filter(|char| part(*char)).count()).sum();
        all >= 4 * MIN_KEY_CHARS || lines().map(length).sum::<usize>() >= MIN_KEY_CHARS
    })
}

/// A text, split into lines.
pub(super) struct SourceText<'a> {
    pub text: &'a str,
    pub lines: Vec<&'a str>,
    starts: Vec<usize>,
}

impl<'a> SourceText<'a> {
    pub(super) fn new(text: &'a str) -> SourceText<'a> {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(ends).collect();
        SourceText { text, lines: text.lines().collect(), starts }
    }

    /// Number of the line that contains a byte offset, counted from 0.
    fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Byte range of a range of lines in the text.
    fn bytes_of(&self, lines: &Range<usize>) -> Range<usize> {
        let start = self.starts.get(lines.start).copied().unwrap_or(self.text.len());
        start..self.starts.get(lines.end).copied().unwrap_or(self.text.len())
    }
}

/// Byte range of a match without the white space at its beginning and end.
fn trimmed(found: regex::Match<'_>) -> Range<usize> {
    let text = found.as_str();
    let start = found.start() + text.len() - text.trim_start().len();
    start..(start + text.trim().len()).max(start + 1)
}

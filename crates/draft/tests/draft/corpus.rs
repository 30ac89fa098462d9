//! Lines with and without keys, each with its label.
//!
//! The files hold no key: what is by chance in one is drawn here, the same in every run. `{hex:32}` stands for 32
//! hexadecimal digits, and so on for each kind below; `{-}` for nothing, where even a beginning would alarm a
//! scanner; `{<<text>>}` for the text in base64, after the rest of it was drawn, and `{hex<<text>>}` and so on for other
//! encodings. A line that begins with `@PATH | ` stands in that file, any other in a program; texts of several lines are
//! in a file of their own.

use std::sync::LazyLock;

use assize_draft::FileKind;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use regex::{Captures, Regex};

const KEYS: &str = include_str!("../corpus/keys.txt");
const PLAIN: &str = include_str!("../corpus/plain.txt");
const TEXTS: &str = include_str!("../corpus/texts.txt");

static CHANCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{([a-zA-Z0-9]+):(\d+)\}").unwrap());
static ENCODED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{(\w*)<<(.*?)>>\}").unwrap());

/// A line or a text as people write it.
pub(crate) struct Labelled {
    /// The file it is listed in.
    pub list: &'static str,
    /// Its number in that file, from 1.
    pub number: usize,
    pub text: String,
    /// The kind of file it is in.
    pub kind: FileKind,
    /// It holds a key, found by this rule; any will do for `-`.
    pub key: Option<&'static str>,
    /// Nobody looked at it while the rules were improved.
    pub held_out: bool,
}

/// All lines, those with keys first.
pub(crate) fn labelled() -> Vec<Labelled> {
    let keys = lines(KEYS).map(|(index, number, line)| {
        let (rule, line) = line.split_once(" | ").unwrap();
        labelled_as(index, number, line, Some(rule))
    });
    let plain = lines(PLAIN).map(|(index, number, line)| labelled_as(index, number, line, None));
    keys.chain(plain).chain(texts()).collect()
}

/// Texts of several lines.
pub(crate) fn texts() -> Vec<Labelled> {
    let mut all: Vec<(usize, &str, &str, Vec<&str>)> = Vec::new();
    for (_, number, line) in lines(TEXTS) {
        match line.strip_prefix("== ") {
            Some(header) => {
                let (label, path) = header.split_once(" | ").unwrap();
                all.push((number, label, path, Vec::new()));
            }
            None => all.last_mut().unwrap().3.push(line),
        }
    }
    let labelled =
        |(index, (number, label, path, lines)): (usize, (usize, &'static str, &str, Vec<&str>))| {
            Labelled {
                list: "texts.txt",
                number,
                text: drawn(&lines.join("\n"), number as u64),
                kind: FileKind::of(path),
                key: (label != "plain").then_some(label),
                held_out: index % 3 == 2,
            }
        };
    all.into_iter().enumerate().map(labelled).collect()
}

/// The lines as they stand in the files.
pub(crate) fn undrawn() -> impl Iterator<Item = &'static str> {
    KEYS.lines().chain(PLAIN.lines()).chain(TEXTS.lines())
}

fn lines(file: &'static str) -> impl Iterator<Item = (usize, usize, &'static str)> {
    let numbered = file.lines().enumerate().filter(|(_, line)| !line.starts_with("%%"));
    numbered.enumerate().map(|(index, (number, line))| (index, number + 1, line))
}

fn labelled_as(index: usize, number: usize, line: &str, key: Option<&'static str>) -> Labelled {
    let (path, line) =
        line.strip_prefix('@').and_then(|line| line.split_once(" | ")).unwrap_or(("a.py", line));
    let text = drawn(line, number as u64);
    let list = if key.is_some() { "keys.txt" } else { "plain.txt" };
    Labelled { list, number, text, kind: FileKind::of(path), key, held_out: index % 3 == 2 }
}

fn drawn(line: &str, seed: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    let text = CHANCE.replace_all(line, |captures: &Captures<'_>| {
        let count = captures[2].parse().unwrap();
        some(&mut rng, &captures[1], count).unwrap_or_else(|| captures[0].to_owned())
    });
    let text = text.replace("{-}", "").replace("{zw}", "\u{200b}").replace("{shy}", "\u{ad}");
    ENCODED
        .replace_all(&text, |captures: &Captures<'_>| encoded(&captures[1], &captures[2]))
        .into_owned()
}

/// A text in an encoding.
fn encoded(encoding: &str, text: &str) -> String {
    let each = |form: fn(u8) -> String| text.bytes().map(form).collect::<String>();
    match encoding {
        "" => BASE64_STANDARD.encode(text),
        "hex" => each(|byte| format!("{byte:02x}")),
        "x" => each(|byte| format!("\\x{byte:02x}")),
        "u" => each(|byte| format!("\\u{byte:04x}")),
        "pct" => each(|byte| format!("%{byte:02X}")),
        "html" => each(|byte| format!("&#{byte};")),
        "utf16" => BASE64_STANDARD.encode(text.bytes().flat_map(|b| [b, 0]).collect::<Vec<u8>>()),
        "b32" => base32(text),
        other => panic!("no encoding `{other}`"),
    }
}

fn base32(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
    let digit = |five: &[u8]| {
        let five = format!("{:0<5}", std::str::from_utf8(five).unwrap());
        char::from(DIGITS[usize::from_str_radix(&five, 2).unwrap()])
    };
    bits.as_bytes().chunks(5).map(digit).collect()
}

/// So many characters of a kind; nothing for what is no kind, such as a field in a format.
fn some(rng: &mut fastrand::Rng, kind: &str, count: usize) -> Option<String> {
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    let upper = LOWER.to_uppercase();
    let digits = "0123456789";
    let from = match kind {
        "hex" => format!("{digits}abcdef"),
        "HEX" => format!("{digits}ABCDEF"),
        "digits" => digits.to_owned(),
        "alpha" => format!("{LOWER}{upper}"),
        "lower" => format!("{LOWER}{digits}"),
        "upper" => format!("{upper}{digits}"),
        "upper32" => format!("{upper}234567"),
        "bech" => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".to_owned(),
        "alnum" => format!("{LOWER}{upper}{digits}"),
        "b64" => format!("{LOWER}{upper}{digits}+/"),
        "url" => format!("{LOWER}{upper}{digits}_-"),
        // As people and managers of passwords make them: a few signs among the rest.
        "pass" => format!("{LOWER}{upper}{digits}{digits}!#%^&*-+?_"),
        "pkcs8" | "pkcs1" | "sec1" => {
            let start: &[u8] = match kind {
                "pkcs8" => {
                    &[0x30, 0x82, 4, 0xbd, 2, 1, 0, 0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7]
                }
                "pkcs1" => &[0x30, 0x82, 4, 0xa4, 2, 1, 0, 2, 0x82, 1, 1, 0],
                _ => &[0x30, 0x77, 2, 1, 1, 4, 0x20],
            };
            let rest = (0..count.saturating_sub(start.len())).map(|_| rng.u8(..));
            let bytes: Vec<u8> = start.iter().copied().chain(rest).collect();
            return Some(BASE64_STANDARD.encode(bytes));
        }
        "uuid" => {
            let mut part = |count| some(rng, "hex", count);
            let (a, b, c, d, e) = (part(8)?, part(4)?, part(3)?, part(3)?, part(12)?);
            return Some(format!("{a}-{b}-4{c}-a{d}-{e}"));
        }
        _ => return None,
    };
    let from: Vec<char> = from.chars().collect();
    Some((0..count).filter_map(|_| rng.choice(&from)).collect())
}

//! Lines with and without keys, each with its label.
//!
//! The files hold no key: what is by chance in one is drawn here, the same in every run. `{hex:32}` stands for 32
//! hexadecimal digits, and so on for each kind below; `{-}` for nothing, where even a beginning would alarm a
//! scanner; `{<<text>>}` for the text in base64, after the rest of it was drawn. A line that
//! begins with `@PATH | ` stands in that file, any other in a program.

use std::sync::LazyLock;

use assize_draft::FileKind;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use regex::{Captures, Regex};

const KEYS: &str = include_str!("../corpus/keys.txt");
const PLAIN: &str = include_str!("../corpus/plain.txt");

static CHANCE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{([a-zA-Z0-9]+):(\d+)\}").unwrap());
static ENCODED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\{<<(.*?)>>\}").unwrap());

/// A line as somebody would write it.
pub(crate) struct Labelled {
    /// Its number in its file, from 1.
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
    keys.chain(plain).collect()
}

/// The lines as they stand in the files.
pub(crate) fn undrawn() -> impl Iterator<Item = &'static str> {
    KEYS.lines().chain(PLAIN.lines())
}

fn lines(file: &'static str) -> impl Iterator<Item = (usize, usize, &'static str)> {
    let numbered = file.lines().enumerate().filter(|(_, line)| !line.starts_with("%%"));
    numbered.enumerate().map(|(index, (number, line))| (index, number + 1, line))
}

fn labelled_as(index: usize, number: usize, line: &str, key: Option<&'static str>) -> Labelled {
    let (path, line) =
        line.strip_prefix('@').and_then(|line| line.split_once(" | ")).unwrap_or(("a.py", line));
    let text = drawn(line, number as u64);
    Labelled { number, text, kind: FileKind::of(path), key, held_out: index % 3 == 2 }
}

fn drawn(line: &str, seed: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(seed);
    let text = CHANCE.replace_all(line, |captures: &Captures<'_>| {
        let count = captures[2].parse().unwrap();
        some(&mut rng, &captures[1], count).unwrap_or_else(|| captures[0].to_owned())
    });
    let text = text.replace("{-}", "");
    ENCODED
        .replace_all(&text, |captures: &Captures<'_>| BASE64_STANDARD.encode(&captures[1]))
        .into_owned()
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

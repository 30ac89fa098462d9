//! Expansion of the markers in a corpus. A marker is replaced by random or encoded text, which is the same in every
//! execution.
//!
//! The corpora contain no real keys, but markers. `{hex:32}` is replaced by 32 random hexadecimal digits; other words
//! instead of `hex` select other kinds of characters. `{-}` is removed; it splits the prefix of a key, so that secret
//! scanners do not report the corpus. `{<<text>>}` is replaced by the text in base64, and `{hex<<text>>}` and others by
//! the text in other encodings.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Expands all markers of a line. The line number is the seed of the random numbers.
pub(super) fn expand_markers(line: &str, number: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(number as u64);
    let text = replace(line, |rest| {
        let (inside, _) = rest.split_once('}')?;
        let (kind, count) = inside.split_once(':')?;
        let characters = random_chars(&mut rng, kind, count.parse().ok()?)?;
        Some((characters, inside.len() + 1))
    });
    let text = text.replace("{-}", "").replace("{zw}", "\u{200b}").replace("{shy}", "\u{ad}");
    replace(&text, |rest| {
        let (encoding, rest) = rest.split_once("<<")?;
        let (inside, _) = rest.split_once(">>}").filter(|(inside, _)| !inside.contains('\n'))?;
        let length = encoding.len() + "<<".len() + inside.len() + ">>}".len();
        Some((encoded(encoding, inside)?, length))
    })
}

/// Replaces the markers in a text. The function `by` gets the text after a `{`, and returns the replacement and the
/// length of the marker after the `{`. It returns `None` if there is no marker.
fn replace(text: &str, mut by: impl FnMut(&str) -> Option<(String, usize)>) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        done.push_str(before);
        match by(after) {
            Some((replacement, length)) => {
                done.push_str(&replacement);
                rest = &after[length..];
            }
            None => {
                done.push('{');
                rest = after;
            }
        }
    }
    done + rest
}

/// Encodes a text. `encoding` is the name of the encoding in a marker; returns `None` for an unknown name.
fn encoded(encoding: &str, text: &str) -> Option<String> {
    let each = |form: fn(u8) -> String| text.bytes().map(form).collect::<String>();
    Some(match encoding {
        "" => BASE64_STANDARD.encode(text),
        "hex" => each(|byte| format!("{byte:02x}")),
        "x" => each(|byte| format!("\\x{byte:02x}")),
        "u" => each(|byte| format!("\\u{byte:04x}")),
        "pct" => each(|byte| format!("%{byte:02X}")),
        "html" => each(|byte| format!("&#{byte};")),
        "utf16" => BASE64_STANDARD.encode(text.bytes().flat_map(|b| [b, 0]).collect::<Vec<u8>>()),
        "b32" => base32(text),
        _ => return None,
    })
}

fn base32(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bits: Vec<u8> =
        text.bytes().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1)).collect();
    let digit = |five: &[u8]| {
        let number = (0..5).fold(0, |sum, n| sum * 2 + five.get(n).copied().unwrap_or(0));
        char::from(DIGITS[usize::from(number)])
    };
    bits.chunks(5).map(digit).collect()
}

/// Returns `count` random characters of one kind. `kind` is the word before the colon in a marker. Returns `None` for
/// an unknown kind: then the text in braces is not a marker, but for example a field of a Python format string.
fn random_chars(rng: &mut fastrand::Rng, kind: &str, count: usize) -> Option<String> {
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    let upper = LOWER.to_uppercase();
    let digits = "0123456789";
    let alphabet = match kind {
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
        // Passwords as people and password managers create them: mostly letters and digits, with some punctuation.
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
            let mut part = |count| random_chars(rng, "hex", count);
            let (a, b, c, d, e) = (part(8)?, part(4)?, part(3)?, part(3)?, part(12)?);
            return Some(format!("{a}-{b}-4{c}-a{d}-{e}"));
        }
        _ => return None,
    };
    let alphabet: Vec<char> = alphabet.chars().collect();
    Some((0..count).filter_map(|_| rng.choice(&alphabet)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_markers_are_expanded_and_other_braces_are_kept() {
        assert_eq!(expand_markers("a {-}b {x} {{{digits:1}", 7).len(), "a b {x} {{1".len());
        assert_eq!(expand_markers("{hex:4}", 1), expand_markers("{hex:4}", 1));
        assert_ne!(expand_markers("{hex:16}", 1), expand_markers("{hex:16}", 2));
        assert_eq!(
            expand_markers("{<<ab>>} {hex<<ab>>} {b32<<foobar>>}", 1),
            "YWI= 6162 MZXW6YTBOI"
        );
        assert_eq!(
            expand_markers("{no<<ab>>} {no:3} f\"{width:4}\"", 1),
            "{no<<ab>>} {no:3} f\"{width:4}\""
        );
    }
}

//! Text functions that all crates use: validation, shortening, counts with nouns, and removal of control characters.

use crate::{Failure, FailureKind};

/// Implements serde's traits for a type through its text form: `Display` to serialize, [`std::str::FromStr`] to
/// deserialize.
#[macro_export]
macro_rules! serde_as_text {
    ($type:ty) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// Returns `text` if it is neither blank nor longer than `mebibytes` MiB.
///
/// # Errors
/// Returns a usage failure whose message begins with `what`, the name of the text, such as `the task`.
pub fn validated_text(what: &str, mebibytes: u64, text: &str) -> Result<String, Failure> {
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, format!("{what} {why}")));
    if text.len() as u64 > mebibytes * 1024 * 1024 {
        return refused(format!("is longer than {mebibytes} MiB"));
    }
    if text.chars().all(|c| c.is_whitespace() || is_invisible(c)) {
        return refused("is empty".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns the first `chars` characters of a text.
pub fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// Truncates a text to `chars` characters, and appends `…` if the text was longer.
pub fn shorten(text: &str, chars: usize) -> String {
    let head = head(text, chars);
    if head.len() < text.len() { format!("{head}…") } else { text.to_owned() }
}

/// Joins the lines of a text into one line: every sequence of white space becomes one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces characters that control a terminal (control characters, bidirectional marks) with U+FFFD.
pub fn replace_control_chars(text: &str) -> String {
    text.chars().map(|c| if is_terminal_control(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a character can control a terminal: a control character other than newline and tab, a bidirectional mark, or
/// a Unicode line or paragraph separator.
pub fn is_terminal_control(c: char) -> bool {
    let is_bidi_or_separator = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_bidi_or_separator || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Whether a character is invisible, such as a byte order mark, zero-width space, direction mark or filler character.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{00ad}' | '\u{061c}' | '\u{034f}' | '\u{180e}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e01ef}')
}

/// Formats a count with its noun: `1 draft`, `2 drafts`, `0 entries`.
pub fn counted<N>(count: N, singular: &str, plural: &str) -> String
where
    N: std::fmt::Display + Copy + PartialEq + From<u8>,
{
    let noun = if count == N::from(1) { singular } else { plural };
    format!("{count} {noun}")
}

/// Formats a number with thousands separators: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_uses_the_singular_noun_only_if_the_count_is_one() {
        let counts = [0_u64, 1, 2].map(|count| counted(count, "entry", "entries"));
        assert_eq!(counts, ["0 entries", "1 entry", "2 entries"]);
    }

    #[test]
    fn replace_control_chars_keeps_newline_and_tab() {
        assert_eq!(
            replace_control_chars("a\u{1b}[2Jb\u{7}\r\nc\td\u{9b}1m"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}\nc\td\u{fffd}1m"
        );
    }

    #[test]
    fn grouped_inserts_thousands_separators() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

//! Small questions about text that every room asks.

use crate::{Failure, FailureKind};

/// Implements serde's traits for a type by its text: it is written as it is displayed, and read by [`std::str::FromStr`].
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

/// Refuses text that is empty or longer than so many MiB.
///
/// # Errors
/// With `what` as the subject of the message.
pub fn checked(what: &str, mebibytes: u64, text: &str) -> Result<String, Failure> {
    let refused = |why: String| Err(Failure::new(FailureKind::Usage, format!("{what} {why}")));
    if text.len() as u64 > mebibytes * 1024 * 1024 {
        return refused(format!("is longer than {mebibytes} MiB"));
    }
    if text.chars().all(|c| c.is_whitespace() || is_invisible(c)) {
        return refused("is empty".to_owned());
    }
    Ok(text.to_owned())
}

/// The first so many characters of a text.
pub fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// A text of bearable length: its head, with a mark where something was left out.
pub fn shorten(text: &str, chars: usize) -> String {
    let head = head(text, chars);
    if head.len() < text.len() { format!("{head}…") } else { text.to_owned() }
}

/// A text in one line: every run of white space is one blank.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text without the characters that a terminal would obey: controls, and marks that turn the direction of what
/// follows.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether a terminal would do something else with it than show it.
pub fn is_obeyed(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Whether a reader does not see a character: byte-order marks, zero-width characters, direction marks, fillers and
/// tags.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{00ad}' | '\u{061c}' | '\u{034f}' | '\u{180e}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}'
        | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e01ef}')
}

/// A number with thin groups of three: 1,234,567.
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
    fn a_models_words_cannot_drive_the_terminal() {
        assert_eq!(
            harmless("a\u{1b}[2Jb\u{7}\r\nc\td\u{9b}1m"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}\nc\td\u{fffd}1m"
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

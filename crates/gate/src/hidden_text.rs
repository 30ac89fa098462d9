//! Finds hidden text: characters that make a line look different from what a program reads. These are invisible
//! characters, control characters, and letters of other scripts that look like Latin letters.

use assize_types::text::is_invisible;
use unicode_security::confusable_detection::skeleton;

use crate::file_kind::FileKind;

/// An invisible, confusable or control character found in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenText {
    /// Name of the rule: `turned-text`, `invisible-text` or `look-alike`.
    pub rule: &'static str,
    /// Position of the character in the line, in characters counted from 1.
    pub column: usize,
    /// Description of the character and its effect.
    pub message: String,
}

/// Returns the first finding of each hidden-text rule in a line. `first` is true for the first line of a file.
pub fn in_line(line: &str, first: bool, kind: FileKind) -> Vec<HiddenText> {
    if line.is_ascii() && !line.bytes().any(|b| b.is_ascii_control() && b != b'\t') {
        return Vec::new();
    }
    let chars: Vec<char> = line.chars().collect();
    let mut found: Vec<HiddenText> = Vec::new();
    let mut add = |rule, index: usize, message: String| {
        if !found.iter().any(|known| known.rule == rule) {
            found.push(HiddenText { rule, column: index + 1, message });
        }
    };
    for (index, c) in chars.iter().copied().enumerate() {
        if changes_direction(c) {
            let message =
                format!("{} changes the direction in which the line is displayed", describe(c));
            add("turned-text", index, message);
        } else if is_hidden(&chars, index, first) {
            add("invisible-text", index, format!("{} is invisible", describe(c)));
        } else if c.is_control() && c != '\t' && c != '\u{c}' {
            let message = match c {
                '\r' => "a carriage return (U+000D) in the line makes a terminal overwrite the \
                    text before it"
                    .to_owned(),
                c => format!("{} is a control character", describe(c)),
            };
            add("invisible-text", index, message);
        }
    }
    if kind != FileKind::Prose {
        for (start, word) in identifiers(&chars) {
            if let Some(c) = look_alike(&word) {
                let offset = word.chars().position(|other| other == c).unwrap_or_default();
                let message = format!("{} in `{word}` looks like a different letter", describe(c));
                add("look-alike", start + offset, message);
            }
        }
    }
    found
}

/// Whether a character changes the display direction of the text after it.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is invisible and unnecessary at its position. Returns false for an invisible character that an
/// emoji or a script needs at this position.
fn is_hidden(chars: &[char], index: usize, first: bool) -> bool {
    let c = chars[index];
    let before = index.checked_sub(1).map(|index| chars[index]);
    let after = chars.get(index + 1).copied();
    let pictograph = |c: Option<char>| c.is_some_and(is_pictograph);
    match c {
        // A byte order mark is allowed only at the start of the file.
        '\u{feff}' => !(first && index == 0),
        // Zero-width joiners are allowed between emoji and between letters of Arabic and Indic scripts.
        '\u{200c}' | '\u{200d}' => {
            let joined = c == '\u{200d}' && pictograph(before) && pictograph(after);
            let shaped =
                [before, after].iter().flatten().all(|c| is_joining(*c)) && before.is_some();
            !(joined || shaped)
        }
        // A variation selector is allowed after a character that has a text form and an emoji form.
        '\u{fe00}'..='\u{fe0f}' => {
            let chosen = |c: char| is_pictograph(c) || "0123456789#*".contains(c);
            let selector = |c| matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
            before.is_none_or(|c| c.is_ascii_alphabetic() || selector(c))
                || before.is_some_and(|c| c.is_ascii() && !chosen(c))
        }
        // A variation selector of this range is allowed after a Chinese character.
        '\u{e0100}'..='\u{e01ef}' => {
            !before.is_some_and(|c| ('\u{3400}'..='\u{3ffff}').contains(&c))
        }
        // Tag characters are allowed in regional flags: at most six of them after a black flag.
        '\u{e0020}'..='\u{e007f}' => {
            let tags = chars[..index]
                .iter()
                .rev()
                .take_while(|c| matches!(c, '\u{e0020}'..='\u{e007f}'))
                .count();
            let flag = index.checked_sub(tags + 1).map(|index| chars[index]);
            flag != Some('\u{1f3f4}') || tags >= 6
        }
        c => is_invisible(c),
    }
}

/// Whether a character is an emoji or part of one.
fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether a character belongs to a script in which zero-width joiners change the form of letters.
fn is_joining(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{109f}' | '\u{1780}'..='\u{18af}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

/// Splits a line into words and returns those with a non-ASCII character, each with its position. An underscore ends a
/// word: `σ_max` consists of two words.
fn identifiers(chars: &[char]) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut start = 0;
    while start < chars.len() {
        let word: String = chars[start..].iter().take_while(|c| c.is_alphanumeric()).collect();
        let length = word.chars().count();
        if !word.is_ascii() {
            words.push((start, word));
        }
        start += length.max(1);
    }
    words
}

/// Returns a character that makes a word look like a different word; `None` if the word has no such character. The
/// character is a mathematical letter instead of a plain letter, or a non-Latin letter in a word with Latin letters. A
/// non-Latin letter is returned only if all non-Latin letters of the word look like Latin letters.
fn look_alike(word: &str) -> Option<char> {
    let styled = |c: &char| matches!(c, '\u{1d400}'..='\u{1d7ff}' | '\u{212a}');
    if let Some(c) = word.chars().find(styled) {
        return Some(c);
    }
    let is_latin = |c: char| c.is_ascii_alphabetic() || matches!(c, '\u{c0}'..='\u{24f}');
    if !word.chars().any(|c| c.is_ascii_alphabetic()) {
        return None;
    }
    let looks_latin = |c: char| {
        let shown: String = skeleton(c.encode_utf8(&mut [0; 4])).collect();
        shown.chars().all(|c| c.is_ascii_alphabetic())
    };
    let mut others = word.chars().filter(|c| c.is_alphabetic() && !is_latin(*c)).peekable();
    let first = others.peek().copied()?;
    others.all(looks_latin).then_some(first)
}

/// Formats the code point of a character, with its name or script if the character is known to be invisible or
/// confusable.
fn describe(c: char) -> String {
    let name = match c {
        '\0' => "NULL",
        '\u{8}' => "BACKSPACE",
        '\u{1b}' => "ESCAPE",
        '\u{7f}' => "DELETE",
        '\u{ad}' => "SOFT HYPHEN",
        '\u{34f}' => "COMBINING GRAPHEME JOINER",
        '\u{61c}' => "ARABIC LETTER MARK",
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => "HANGUL FILLER",
        '\u{180e}' => "MONGOLIAN VOWEL SEPARATOR",
        '\u{200b}' => "ZERO WIDTH SPACE",
        '\u{200c}' => "ZERO WIDTH NON-JOINER",
        '\u{200d}' => "ZERO WIDTH JOINER",
        '\u{200e}' => "LEFT-TO-RIGHT MARK",
        '\u{200f}' => "RIGHT-TO-LEFT MARK",
        '\u{202a}'..='\u{202e}' => "BIDIRECTIONAL EMBEDDING OR OVERRIDE",
        '\u{2066}'..='\u{2069}' => "BIDIRECTIONAL ISOLATE",
        '\u{2060}' => "WORD JOINER",
        '\u{2061}'..='\u{2064}' => "INVISIBLE OPERATOR",
        '\u{feff}' => "ZERO WIDTH NO-BREAK SPACE",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => "VARIATION SELECTOR",
        '\u{e0000}'..='\u{e007f}' => "TAG CHARACTER",
        '\u{370}'..='\u{3ff}' => "Greek",
        '\u{400}'..='\u{52f}' => "Cyrillic",
        '\u{530}'..='\u{58f}' => "Armenian",
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => "Cherokee",
        '\u{1d400}'..='\u{1d7ff}' => "mathematical letter",
        _ => return format!("U+{:04X}", u32::from(c)),
    };
    format!("U+{:04X} ({name})", u32::from(c))
}

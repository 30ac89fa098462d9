//! Small questions about text that every room asks.

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

/// Byte-order marks, zero-width characters and direction marks: nothing a person sees.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{00ad}' | '\u{061c}')
}

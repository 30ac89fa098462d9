//! Adapts the line ends and the byte order mark of a draft to those of the original file.

/// Converts the line ends of `content` to CRLF if the original file has CRLF line ends, and adds a byte order mark if
/// the original file has one, because models tend to omit both. Returns the new content, and a note that tells the
/// agent what was changed.
pub fn restore_line_ends(original: &str, content: &str) -> (String, Option<String>) {
    const MARK: char = '\u{feff}';
    let mut content = content.to_owned();
    let mut notes = Vec::new();
    let lines = |text: &str, end: &str| text.matches(end).count();
    let windows = lines(original, "\n") > 0 && lines(original, "\n") == lines(original, "\r\n");
    if windows && !content.contains('\r') && content.contains('\n') {
        content = content.replace('\n', "\r\n");
        notes.push("line ends were converted to CRLF, as in the original file");
    }
    if original.starts_with(MARK) && !content.starts_with(MARK) {
        content.insert(0, MARK);
        notes.push("a byte order mark was added, as in the original file");
    }
    if original.ends_with('\n') && !content.is_empty() && !content.ends_with('\n') {
        notes.push("the original file ends with a newline, but the draft does not");
    }
    (content, (!notes.is_empty()).then(|| notes.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_gets_the_crlf_line_ends_and_byte_order_mark_of_the_original() {
        let converted = |original: &str, content: &str| restore_line_ends(original, content).0;
        assert_eq!(converted("a\r\nb\r\n", "a\nc\n"), "a\r\nc\r\n");
        assert_eq!(converted("a\r\nb\n", "a\nc\n"), "a\nc\n");
        assert_eq!(converted("a\nb\n", "a\r\nc\r\n"), "a\r\nc\r\n");
        assert_eq!(converted("\u{feff}a\n", "b\n"), "\u{feff}b\n");
        assert_eq!(converted("a\n", "b"), "b");
        assert!(restore_line_ends("a\n", "b").1.unwrap().contains("ends with a newline"));
        assert_eq!(restore_line_ends("a", "b").1, None);
        assert_eq!(restore_line_ends("", "b").1, None);
    }
}

//! Line ends and byte order marks of a draft, which follow the original file.

/// What was written, with the line ends and the mark at the beginning that the original has, which models
/// tend to lose; and what to say about it.
pub fn as_the_original(original: &str, content: &str) -> (String, Option<String>) {
    const MARK: char = '\u{feff}';
    let mut content = content.to_owned();
    let mut notes = Vec::new();
    let lines = |text: &str, end: &str| text.matches(end).count();
    let windows = lines(original, "\n") > 0 && lines(original, "\n") == lines(original, "\r\n");
    if windows && !content.contains('\r') && content.contains('\n') {
        content = content.replace('\n', "\r\n");
        notes.push("its lines end with CRLF, as those of the file do");
    }
    if original.starts_with(MARK) && !content.starts_with(MARK) {
        content.insert(0, MARK);
        notes.push("it begins with a byte order mark, as the file does");
    }
    if original.ends_with('\n') && !content.is_empty() && !content.ends_with('\n') {
        notes.push("it has no newline at its end, and the file has one");
    }
    (content, (!notes.is_empty()).then(|| notes.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_those_of_the_file() {
        let kept = |original: &str, content: &str| as_the_original(original, content).0;
        assert_eq!(kept("a\r\nb\r\n", "a\nc\n"), "a\r\nc\r\n");
        assert_eq!(kept("a\r\nb\n", "a\nc\n"), "a\nc\n");
        assert_eq!(kept("a\nb\n", "a\r\nc\r\n"), "a\r\nc\r\n");
        assert_eq!(kept("\u{feff}a\n", "b\n"), "\u{feff}b\n");
        assert_eq!(kept("a\n", "b"), "b");
        assert!(as_the_original("a\n", "b").1.unwrap().contains("no newline at its end"));
        assert_eq!(as_the_original("a", "b").1, None);
        assert_eq!(as_the_original("", "b").1, None);
    }
}

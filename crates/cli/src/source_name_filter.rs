//! Replaces the path of the code file in a program's messages with the name of the user's file.
//!
//! Every sandbox runs its code from the same path, such as `/tmp/code.py`, because an interpreter that was started in
//! advance cannot get another code path. Therefore the path is replaced when messages (tracebacks, warnings) are
//! printed.

use std::path::Path;

use assize_code::Language;
use assize_types::text::replace_control_chars;

/// Maximum length of a file name that replaces the path, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// Filter for the standard error of a program. Where a message names a line of the code file, the filter replaces the
/// path of the code file in the sandbox with the name of the user's file.
#[derive(Debug)]
pub(crate) struct SourceNameFilter {
    path: &'static [u8],
    name: Vec<u8>,
    /// Last bytes of the output so far, held back because they may be the beginning of the path.
    held_back: Vec<u8>,
}

impl SourceNameFilter {
    /// Creates a filter for the code in `file`. Returns `None` if `file` is `-` (standard input), or if its name is
    /// too long, could control the terminal, or could imitate another message.
    pub(crate) fn of(file: &Path, language: Language) -> Option<SourceNameFilter> {
        let name = file.file_name()?.to_str()?;
        let plain = !name.contains(char::is_control)
            && !name.contains('"')
            && replace_control_chars(name) == name;
        let path = language.code_path().as_bytes();
        let usable = file != Path::new("-") && plain && name.len() <= MAX_NAME_BYTES;
        usable.then(|| SourceNameFilter { path, name: name.into(), held_back: Vec::new() })
    }

    /// Processes the next bytes of the output; returns the bytes that can be printed.
    pub(crate) fn filter(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held_back.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(self.held_back.len());
        let mut at = 0;
        while at < self.held_back.len() {
            let rest = &self.held_back[at..];
            if rest.len() <= self.path.len() && self.path.starts_with(rest) {
                // More bytes are needed to decide whether this is the path.
                break;
            }
            // After the path, a line number follows: `File "…", line 3`, `…:3` or `…: line 3`.
            if rest.starts_with(self.path) && matches!(rest[self.path.len()], b'"' | b':') {
                shown.extend_from_slice(&self.name);
                at += self.path.len();
            } else {
                shown.push(rest[0]);
                at += 1;
            }
        }
        self.held_back.drain(..at);
        shown
    }

    /// Returns the bytes that were held back. Must be called at the end of the output.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held_back)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(name: &str, pieces: &[&[u8]]) -> String {
        let mut own = SourceNameFilter::of(Path::new(name), Language::Python).unwrap();
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| own.filter(piece)).collect();
        shown.extend(own.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn source_name_filter_replaces_the_path_before_a_line_number_however_the_output_is_split() {
        let text = b"  File \"/tmp/code.py\", line 3\n/tmp/code.py:4: Warning\n/tmp/code.pyc /tmp/code.py /tmp/cod";
        let expected =
            "  File \"plot.py\", line 3\nplot.py:4: Warning\n/tmp/code.pyc /tmp/code.py /tmp/cod";
        for split in 0..=text.len() {
            assert_eq!(shown("charts/plot.py", &[&text[..split], &text[split..]]), expected);
        }
    }

    #[test]
    fn source_name_filter_is_not_created_for_unsafe_file_names() {
        let long = format!("{}.py", "a".repeat(200));
        for name in ["-", "a\nb.py", "a\x1b[31m.py", "a\u{202e}b.py", "a\".py", "/", long.as_str()]
        {
            assert!(SourceNameFilter::of(Path::new(name), Language::Python).is_none(), "{name:?}");
        }
        assert!(SourceNameFilter::of(Path::new("./-x.py"), Language::Python).is_some());
    }

    proptest! {
        #[test]
        fn source_name_filter_leaves_other_output_unchanged(
            pieces in prop::collection::vec("[/tmpcode.y a]{0,14}", 0..6)
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            prop_assert_eq!(shown("plot.py", &pieces).into_bytes(), pieces.concat());
        }
    }
}

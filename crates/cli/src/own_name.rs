//! Shows the user's own file name where a program's messages name the code file in the sandbox.
//!
//! Every sandbox runs its code from the same path, such as `/tmp/code.py`, because interpreters that are started in
//! advance cannot be given another. So the path is replaced in messages (tracebacks, warnings) as they are printed.

use std::path::Path;

use assize_code::Language;
use assize_types::text::harmless;

/// Maximum length of a name that is shown, in bytes.
const MAX_NAME_BYTES: usize = 100;

/// Replaces the code path in the sandbox with the user's file name, where a message names a line in it.
#[derive(Debug)]
pub(crate) struct SourceNameFilter {
    path: &'static [u8],
    name: Vec<u8>,
    /// End of the output so far, if it may be the beginning of the path.
    held: Vec<u8>,
}

impl SourceNameFilter {
    /// `None` if the code has no file name, or one that could control the terminal or imitate another message.
    pub(crate) fn of(file: &Path, language: Language) -> Option<SourceNameFilter> {
        let name = file.file_name()?.to_str()?;
        let plain =
            !name.contains(char::is_control) && !name.contains('"') && harmless(name) == name;
        let path = language.code_path().as_bytes();
        let usable = file != Path::new("-") && plain && name.len() <= MAX_NAME_BYTES;
        usable.then(|| SourceNameFilter { path, name: name.into(), held: Vec::new() })
    }

    /// Processes the next bytes; returns those that can be printed.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            if rest.len() <= self.path.len() && self.path.starts_with(rest) {
                // More bytes are needed to decide.
                break;
            }
            // A line number follows: `File "…", line 3`, `…:3`, `…: line 3`.
            if rest.starts_with(self.path) && matches!(rest[self.path.len()], b'"' | b':') {
                shown.extend_from_slice(&self.name);
                at += self.path.len();
            } else {
                shown.push(rest[0]);
                at += 1;
            }
        }
        self.held.drain(..at);
        shown
    }

    /// Ends the output; returns the bytes held back.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(name: &str, pieces: &[&[u8]]) -> String {
        let mut own = SourceNameFilter::of(Path::new(name), Language::Python).unwrap();
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| own.pass(piece)).collect();
        shown.extend(own.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn line_references_name_the_users_file_for_any_split() {
        let text = b"  File \"/tmp/code.py\", line 3\n/tmp/code.py:4: Warning\n/tmp/code.pyc /tmp/code.py /tmp/cod";
        let expected =
            "  File \"plot.py\", line 3\nplot.py:4: Warning\n/tmp/code.pyc /tmp/code.py /tmp/cod";
        for split in 0..=text.len() {
            assert_eq!(shown("charts/plot.py", &[&text[..split], &text[split..]]), expected);
        }
    }

    #[test]
    fn unsafe_names_keep_the_sandbox_path() {
        let long = format!("{}.py", "a".repeat(200));
        for name in ["-", "a\nb.py", "a\x1b[31m.py", "a\u{202e}b.py", "a\".py", "/", long.as_str()]
        {
            assert!(SourceNameFilter::of(Path::new(name), Language::Python).is_none(), "{name:?}");
        }
        assert!(SourceNameFilter::of(Path::new("./-x.py"), Language::Python).is_some());
    }

    proptest! {
        #[test]
        fn other_output_is_unchanged(pieces in prop::collection::vec("[/tmpcode.y a]{0,14}", 0..6)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            prop_assert_eq!(shown("plot.py", &pieces).into_bytes(), pieces.concat());
        }
    }
}

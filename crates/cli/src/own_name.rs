//! Shows the user's own file name where a program's messages name the file that the sandbox runs.
//!
//! Every interpreter of a sandbox runs the same path, such as `/tmp/code.py`: one that is already waiting cannot be given
//! another. Its messages (tracebacks, warnings) are therefore changed on their way out.

use std::path::Path;

use assize_code::Language;
use assize_types::text::harmless;

/// The longest name that is shown, in bytes.
const LONGEST: usize = 100;

/// Replaces the path of the sandbox with the user's file name, where a message gives a place in it.
#[derive(Debug)]
pub(crate) struct OwnName {
    path: &'static [u8],
    name: Vec<u8>,
    /// The end of what came so far, if it may be the beginning of the path.
    held: Vec<u8>,
}

impl OwnName {
    /// `None` if the code has no name of its own, or one that could drive a terminal or imitate another message.
    pub(crate) fn of(file: &Path, language: Language) -> Option<OwnName> {
        let name = file.file_name()?.to_str()?;
        let plain =
            !name.contains(char::is_control) && !name.contains('"') && harmless(name) == name;
        let path = language.code_path().as_bytes();
        let wanted = file != Path::new("-") && plain && name.len() <= LONGEST;
        wanted.then(|| OwnName { path, name: name.into(), held: Vec::new() })
    }

    /// What can be shown of the bytes that came.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            if rest.len() <= self.path.len() && self.path.starts_with(rest) {
                // More has to come before it is known.
                break;
            }
            // A place follows: `File "…", line 3`, `…:3`, `…: line 3`.
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

    /// What was held back, now that nothing more comes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(name: &str, pieces: &[&[u8]]) -> String {
        let mut own = OwnName::of(Path::new(name), Language::Python).unwrap();
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| own.pass(piece)).collect();
        shown.extend(own.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn places_name_the_users_file_however_the_output_is_split() {
        let text = b"  File \"/tmp/code.py\", line 3\n/tmp/code.py:4: Warning\n/tmp/code.pyc /tmp/code.py /tmp/cod";
        let expected =
            "  File \"plot.py\", line 3\nplot.py:4: Warning\n/tmp/code.pyc /tmp/code.py /tmp/cod";
        for split in 0..=text.len() {
            assert_eq!(shown("charts/plot.py", &[&text[..split], &text[split..]]), expected);
        }
    }

    #[test]
    fn unsafe_names_keep_the_path_of_the_sandbox() {
        let long = format!("{}.py", "a".repeat(200));
        for name in ["-", "a\nb.py", "a\x1b[31m.py", "a\u{202e}b.py", "a\".py", "/", long.as_str()]
        {
            assert!(OwnName::of(Path::new(name), Language::Python).is_none(), "{name:?}");
        }
        assert!(OwnName::of(Path::new("./-x.py"), Language::Python).is_some());
    }

    proptest! {
        #[test]
        fn other_output_is_passed_on_unchanged(pieces in prop::collection::vec("[/tmpcode.y a]{0,14}", 0..6)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            prop_assert_eq!(shown("plot.py", &pieces).into_bytes(), pieces.concat());
        }
    }
}

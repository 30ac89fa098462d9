//! Line diff between a draft and its original file.

use std::collections::HashMap;
use std::time::Duration;

use similar::{Algorithm, DiffOp, TextDiff};

/// Time limit for computing a diff. After this time the diff is completed with a faster algorithm that is less exact.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Differences between a draft and its original file.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Added lines without their line ends, each with its line number in the draft, counted from 1.
    pub added: Vec<(usize, String)>,
    /// Number of lines that the draft removes from the original file.
    pub removed: usize,
    /// Texts of the removed lines, without indentation and trailing white space. The value is the number of removed
    /// lines with this text.
    removed_lines: HashMap<String, usize>,
    /// Number of removed lines that are not blank and were neither moved nor re-indented.
    pub removed_or_replaced: usize,
    /// Number of non-blank lines of the original file.
    pub original: usize,
}

impl Diff {
    /// Compares a draft with its original file. For a new file, `original` is empty.
    pub fn between(original: &str, draft: &str) -> Diff {
        let diff = compare(original, draft);
        let lines: Vec<&str> = draft.split_inclusive('\n').collect();
        let before: Vec<&str> = original.split_inclusive('\n').collect();
        let mut changed = Diff {
            added: Vec::new(),
            removed: 0,
            removed_lines: HashMap::new(),
            removed_or_replaced: 0,
            original: before.iter().filter(|line| !line.trim().is_empty()).count(),
        };
        for op in diff.ops() {
            if matches!(op, DiffOp::Equal { .. }) {
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            changed.removed += old.len();
            for index in old {
                let line = before.get(index).copied().unwrap_or_default().trim();
                *changed.removed_lines.entry(line.to_owned()).or_default() += 1;
            }
            let line = |index: usize| {
                let text = lines.get(index).copied().unwrap_or_default();
                (index + 1, text.trim_end_matches(['\n', '\r']).to_owned())
            };
            changed.added.extend(new.map(line));
        }
        changed.removed_or_replaced = changed.count_lost();
        changed
    }

    /// Counts the removed lines that were not added again. Each added line offsets one removed line with the same text,
    /// even if the indentation differs.
    fn count_lost(&self) -> usize {
        let mut lost: HashMap<&str, usize> =
            self.removed_lines.iter().map(|(line, count)| (line.as_str(), *count)).collect();
        for (_, line) in &self.added {
            if let Some(count) = lost.get_mut(line.trim()) {
                *count = count.saturating_sub(1);
            }
        }
        lost.remove("");
        lost.values().sum()
    }

    /// Returns the added lines whose text is new. Lines that were only moved or re-indented are not included.
    pub fn new_lines(&self) -> impl Iterator<Item = &(usize, String)> {
        self.added.iter().filter(|(_, line)| !self.removed_lines.contains_key(line.trim()))
    }

    /// Number of added lines plus number of removed lines.
    pub fn lines(&self) -> usize {
        self.added.len() + self.removed
    }

    /// Share of the original file's lines that were removed or replaced, from 0 to 1. Moved, re-indented and blank
    /// lines do not count as removed.
    pub fn deletion_ratio(&self) -> f64 {
        if self.original == 0 {
            0.0
        } else {
            self.removed_or_replaced as f64 / self.original as f64
        }
    }

    /// Formats the differences as a unified diff with three lines of context.
    pub fn unified(name: &str, original: &str, draft: &str) -> String {
        let diff = compare(original, draft);
        let side = |letter: &str, text: &str| match text {
            "" => "/dev/null".to_owned(),
            _ => format!("{letter}/{name}"),
        };
        let (old, new) = (side("a", original), side("b", draft));
        diff.unified_diff().context_radius(3).header(&old, &new).to_string()
    }
}

fn compare<'a>(original: &'a str, draft: &'a str) -> TextDiff<'a, 'a, str> {
    let how = &mut TextDiff::configure();
    how.algorithm(Algorithm::Histogram).timeout(TIMEOUT).diff_lines(original, draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_have_line_numbers_and_removed_lines_are_counted() {
        let diff = Diff::between("a\nb\nc\nd\n", "a\nB\nc\nd\ne");
        assert_eq!(diff.added, [(2, "B".to_owned()), (5, "e".to_owned())]);
        assert_eq!(
            (diff.removed, diff.removed_or_replaced, diff.original, diff.lines()),
            (1, 1, 4, 3)
        );
        let diff = Diff::between("if x:\n    key = 1\n", "key = 1\nother = 2\n");
        assert_eq!(diff.new_lines().count(), 1, "{diff:?}");
        assert_eq!(Diff::between("a\r\nb", "a\r\nb").lines(), 0);
        // A line end is part of its line, so a line without it counts as removed and added.
        let diff = Diff::between("a\nb\n", "a\nb");
        assert_eq!((diff.added, diff.removed), (vec![(2, "b".to_owned())], 1));
        let diff = Diff::between("", "a\n");
        assert_eq!((diff.added.len(), diff.deletion_ratio()), (1, 0.0));
    }

    #[test]
    fn deletion_ratio_counts_replaced_lines() {
        let numbered = |word: &str| (0..200).map(|n| format!("{word} {n}\n")).collect::<String>();
        let ratio = |old: &str, new: &str| Diff::between(old, new).deletion_ratio();
        assert_eq!(ratio(&numbered("line"), &numbered("junk")), 1.0);
        assert_eq!(ratio("a\nb\nc\nd\n", "a\nx\n"), 0.75);
        assert_eq!(ratio("a\nb\nc\nd\n", ""), 1.0);
        // The added line `a` offsets only one of the two removed lines `a`.
        assert_eq!(ratio("a\na\n", "b\na\n"), 0.5);
    }

    #[test]
    fn deletion_ratio_ignores_moved_re_indented_and_blank_lines() {
        let ratio = |old: &str, new: &str| Diff::between(old, new).deletion_ratio();
        assert_eq!(ratio("a\nb\nc\n", "c\nb\na\n"), 0.0);
        assert_eq!(ratio("a\nb\n", "if x:\n    a\n    b\n"), 0.0);
        assert_eq!(ratio("a\n\n\n\nb\n", "a\nb\n"), 0.0);
        assert_eq!(ratio("a\n\n\n\nb\n", "\n\n\n\n"), 1.0);
        assert_eq!(ratio("a\r\nb\r\n", "a\nb\n"), 0.0);
    }

    #[test]
    fn unified_diff_has_the_usual_format() {
        let shown = Diff::unified("src/a.py", "a\nb\n", "a\nc\n");
        assert_eq!(shown, "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    }
}

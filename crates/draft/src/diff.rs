//! What a draft changes, line by line.

use std::collections::HashSet;
use std::time::Duration;

use similar::{Algorithm, DiffOp, TextDiff};

/// How long a comparison may take: after that it is coarser.
const LONGEST: Duration = Duration::from_secs(1);

/// A draft beside its original.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Lines that are new, with their numbers in the draft, from 1, without their ends.
    pub added: Vec<(usize, String)>,
    /// How many lines of the original are gone.
    pub removed: usize,
    /// What stood in them, without what is around it.
    gone: HashSet<String>,
    /// Of these, how many nothing stands in for.
    pub dropped: usize,
    /// How many lines the original has.
    pub before: usize,
}

impl Diff {
    /// Of two texts; the original of a new file is empty.
    pub fn between(original: &str, draft: &str) -> Diff {
        let diff = TextDiff::configure()
            .algorithm(Algorithm::Histogram)
            .timeout(LONGEST)
            .diff_lines(original, draft);
        let lines: Vec<&str> = draft.split_inclusive('\n').collect();
        let before: Vec<&str> = original.split_inclusive('\n').collect();
        let mut changed = Diff {
            added: Vec::new(),
            removed: 0,
            gone: HashSet::new(),
            dropped: 0,
            before: before.len(),
        };
        for op in diff.ops() {
            if matches!(op, DiffOp::Equal { .. }) {
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            changed.removed += old.len();
            let was =
                |index: usize| before.get(index).copied().unwrap_or_default().trim().to_owned();
            changed.gone.extend(old.clone().map(was));
            // Blank lines stand in for nothing but blank lines.
            let blank = |lines: &[&str], range: std::ops::Range<usize>| {
                range.filter(|at| lines.get(*at).is_none_or(|line| line.trim().is_empty())).count()
            };
            let words = new.len() - blank(&lines, new.clone());
            let standing = new.len().min(words + blank(&before, old.clone()));
            changed.dropped += old.len().saturating_sub(standing);
            let line = |index: usize| {
                let text = lines.get(index).copied().unwrap_or_default();
                (index + 1, text.trim_end_matches(['\n', '\r']).to_owned())
            };
            changed.added.extend(new.map(line));
        }
        changed
    }

    /// Added lines that were not there before: a line that was only moved, or indented otherwise, was.
    pub fn new_words(&self) -> impl Iterator<Item = &(usize, String)> {
        self.added.iter().filter(|(_, line)| !self.gone.contains(line.trim()))
    }

    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed == 0
    }

    /// Lines that were added or are gone.
    pub fn lines(&self) -> usize {
        self.added.len() + self.removed
    }

    /// The share of the original that is gone with nothing in its place, from 0 to 1.
    pub fn deletion_ratio(&self) -> f64 {
        if self.before == 0 { 0.0 } else { self.dropped as f64 / self.before as f64 }
    }

    /// As people read it: a unified diff with three lines around each change.
    pub fn unified(name: &str, original: &str, draft: &str) -> String {
        let diff = TextDiff::configure()
            .algorithm(Algorithm::Histogram)
            .timeout(LONGEST)
            .diff_lines(original, draft);
        let side = |letter: &str, text: &str| match text {
            "" => "/dev/null".to_owned(),
            _ => format!("{letter}/{name}"),
        };
        let (old, new) = (side("a", original), side("b", draft));
        diff.unified_diff().context_radius(3).header(&old, &new).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_has_its_number_and_what_is_gone_is_counted() {
        let diff = Diff::between("a\nb\nc\nd\n", "a\nB\nc\nd\ne");
        assert_eq!(diff.added, [(2, "B".to_owned()), (5, "e".to_owned())]);
        assert_eq!((diff.removed, diff.dropped, diff.before, diff.lines()), (1, 0, 4, 3));
        let diff = Diff::between("a\nb\nc\nd\n", "a\nx\n");
        assert_eq!((diff.removed, diff.dropped), (3, 2));
        assert!((diff.deletion_ratio() - 0.5).abs() < f64::EPSILON);
        let diff = Diff::between("a\nb\n\nc\n", "\n\n\n\n");
        assert_eq!(diff.dropped, 3, "{diff:?}");
        let diff = Diff::between("if x:\n    key = 1\n", "key = 1\nother = 2\n");
        assert_eq!(diff.new_words().count(), 1, "{diff:?}");
        assert!(Diff::between("a\r\nb", "a\r\nb").is_empty());
        // An end of line is part of a line, and no line of its own.
        let diff = Diff::between("a\nb\n", "a\nb");
        assert_eq!((diff.added, diff.removed), (vec![(2, "b".to_owned())], 1));
        let diff = Diff::between("", "a\n");
        assert_eq!((diff.added.len(), diff.deletion_ratio()), (1, 0.0));
    }

    #[test]
    fn people_read_it_as_they_are_used_to() {
        let shown = Diff::unified("src/a.py", "a\nb\n", "a\nc\n");
        assert_eq!(shown, "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    }
}

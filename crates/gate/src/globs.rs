//! Patterns of paths: `src/main.py`, `docs/`, `**/*.lock`.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns, of which one is enough.
#[derive(Debug, Clone)]
pub(crate) struct Globs {
    set: GlobSet,
    /// For each glob of the set, the index of the pattern that it comes from.
    patterns: Vec<usize>,
}

/// A pattern that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern of paths: {why}")]
pub struct BadGlob {
    pattern: String,
    why: String,
}

impl BadGlob {
    pub(crate) fn new(pattern: &str, why: &dyn std::fmt::Display) -> BadGlob {
        BadGlob { pattern: pattern.to_owned(), why: why.to_string() }
    }
}

impl Globs {
    /// What may be done to: as written.
    pub(crate) fn new<T: AsRef<str>>(patterns: &[T]) -> Result<Globs, BadGlob> {
        Globs::built(patterns, false)
    }

    /// What may not: letters of either case are the same, as they are on some disks.
    pub(crate) fn in_any_case<T: AsRef<str>>(patterns: &[T]) -> Result<Globs, BadGlob> {
        Globs::built(patterns, true)
    }

    fn built<T: AsRef<str>>(patterns: &[T], any_case: bool) -> Result<Globs, BadGlob> {
        let mut set = GlobSetBuilder::new();
        let mut from = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            let pattern = pattern.as_ref();
            let bad = |why: String| BadGlob { pattern: pattern.to_owned(), why };
            let plain = pattern.strip_prefix("./").unwrap_or(pattern);
            if plain.is_empty()
                || plain.starts_with('/')
                || plain.split('/').any(|part| part == "..")
            {
                return Err(bad("write it from the workspace's folder".to_owned()));
            }
            // A folder is all that is in it, and what has no sign of a pattern may be one.
            let folder = plain.trim_end_matches('/');
            let below = !folder.contains(['*', '?', '[', '{']) || plain.ends_with('/');
            let file = (!plain.ends_with('/')).then(|| plain.to_owned());
            for whole in file.into_iter().chain(below.then(|| format!("{folder}/**"))) {
                let mut glob = GlobBuilder::new(&whole);
                glob.literal_separator(true).case_insensitive(any_case).empty_alternates(true);
                from.push(index);
                set.add(glob.build().map_err(|error| bad(error.kind().to_string()))?);
            }
        }
        let set = set.build().map_err(|error| BadGlob {
            pattern: error.glob().unwrap_or_default().to_owned(),
            why: error.kind().to_string(),
        })?;
        Ok(Globs { set, patterns: from })
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.set.is_match(path)
    }

    /// The index of the first pattern that matches.
    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        self.set.matches(path).first().map(|glob| self.patterns[*glob])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_files_folders_and_kinds() {
        let globs =
            Globs::new(&["src/main.py", "docs/", "lib", "**/*.lock", "./top/*.md"]).unwrap();
        let within = "src/main.py docs/a/b.md lib/x/y.py lib Cargo.lock a/b/x.lock top/x.md";
        for path in within.split(' ') {
            assert!(globs.matches(path), "{path}");
        }
        for path in ["src/main.pyc", "other/main.py", "docs", "top/a/x.md", "lock", "DOCS/x"] {
            assert!(!globs.matches(path), "{path}");
        }
        assert!(Globs::in_any_case(&["docs/"]).unwrap().matches("DOCS/x"));
        assert!(!Globs::new::<&str>(&[]).unwrap().matches("x"));
        for bad in ["", "/etc/*", "../x", "a/../b", "a["] {
            assert!(Globs::new(&[bad]).is_err(), "{bad}");
        }
    }
}

//! Glob patterns that match paths: `src/main.py`, `docs/`, `**/*.lock`.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Set of glob patterns. A path matches the set if any of the patterns matches the path.
#[derive(Debug, Clone)]
pub(crate) struct Globs {
    set: GlobSet,
    /// For each glob of the set, the index of the caller's pattern that the glob was built from.
    patterns: Vec<usize>,
}

/// Error for an invalid path pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid path pattern `{pattern}`: {why}")]
pub struct InvalidGlob {
    pattern: String,
    why: String,
}

impl InvalidGlob {
    pub(crate) fn new(pattern: &str, why: &dyn std::fmt::Display) -> InvalidGlob {
        InvalidGlob { pattern: pattern.to_owned(), why: why.to_string() }
    }
}

impl Globs {
    /// Compiles case-sensitive patterns, for allow lists.
    pub(crate) fn new<T: AsRef<str>>(patterns: &[T]) -> Result<Globs, InvalidGlob> {
        Globs::build(patterns, false)
    }

    /// Compiles case-insensitive patterns, for deny lists, because some file systems ignore case.
    pub(crate) fn case_insensitive<T: AsRef<str>>(patterns: &[T]) -> Result<Globs, InvalidGlob> {
        Globs::build(patterns, true)
    }

    fn build<T: AsRef<str>>(patterns: &[T], any_case: bool) -> Result<Globs, InvalidGlob> {
        let mut set = GlobSetBuilder::new();
        let mut sources = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            let pattern = pattern.as_ref();
            let bad = |why: String| InvalidGlob { pattern: pattern.to_owned(), why };
            let relative = pattern.strip_prefix("./").unwrap_or(pattern);
            if relative.is_empty()
                || relative.starts_with('/')
                || relative.split('/').any(|part| part == "..")
            {
                let why = "write the pattern relative to the workspace, without `..`";
                return Err(bad(why.to_owned()));
            }
            // A pattern without wildcards may name a folder. It then also matches all files below the folder.
            let folder = relative.trim_end_matches('/');
            let below = !folder.contains(['*', '?', '[', '{']) || relative.ends_with('/');
            let file = (!relative.ends_with('/')).then(|| relative.to_owned());
            for whole in file.into_iter().chain(below.then(|| format!("{folder}/**"))) {
                let mut glob = GlobBuilder::new(&whole);
                glob.literal_separator(true).case_insensitive(any_case).empty_alternates(true);
                sources.push(index);
                set.add(glob.build().map_err(|error| bad(error.kind().to_string()))?);
            }
        }
        let set = set.build().map_err(|error| InvalidGlob {
            pattern: error.glob().unwrap_or_default().to_owned(),
            why: error.kind().to_string(),
        })?;
        Ok(Globs { set, patterns: sources })
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.set.is_match(path)
    }

    /// Index of the first pattern that matches a path; `None` if no pattern matches.
    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        self.set.matches(path).first().map(|glob| self.patterns[*glob])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_patterns_match_files_folders_and_extensions() {
        let globs =
            Globs::new(&["src/main.py", "docs/", "lib", "**/*.lock", "./top/*.md"]).unwrap();
        let within = "src/main.py docs/a/b.md lib/x/y.py lib Cargo.lock a/b/x.lock top/x.md";
        for path in within.split(' ') {
            assert!(globs.matches(path), "{path}");
        }
        for path in ["src/main.pyc", "other/main.py", "docs", "top/a/x.md", "lock", "DOCS/x"] {
            assert!(!globs.matches(path), "{path}");
        }
        assert!(Globs::case_insensitive(&["docs/"]).unwrap().matches("DOCS/x"));
        assert!(!Globs::new::<&str>(&[]).unwrap().matches("x"));
        for bad in ["", "/etc/*", "../x", "a/../b", "a["] {
            assert!(Globs::new(&[bad]).is_err(), "{bad}");
        }
    }
}

//! Detects changes to code that runs on build or test, such as a build script, `conftest.py` or the scripts in a
//! `package.json`.
//!
//! Changes of version numbers and comments are ignored. In data files such as `package.json`, only these changes are
//! reported: a changed command, a new dependency, and a dependency that now comes from a different source.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::diff::Diff;
use crate::file_rules::BuildRule;
use crate::globs::Globs;
use crate::pattern::among;

/// Pattern of a version number: two or more numbers separated by dots. Four numbers are treated as an IP address and
/// not as a version. If the pattern does not compile, a changed version number counts as a change.
static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b[vV]?\d+(?:\.\d+)+(?:[-+.]?(?:a|b|rc|alpha|beta|dev|post|pre)[.-]?\d*)?\b").ok()
});

/// Describes how a draft changes the code that runs on build or test; `None` if the draft does not change it.
pub(crate) fn change(runs: &BuildRule, base: &str, draft: &str) -> Option<BuildChange> {
    let Some(keys) = &runs.keys else { return program_change(base, draft) };
    let changed = |message: String| Some(BuildChange { line: None, message });
    let before = match base.trim() {
        "" => Value::Null,
        text => parse(text).unwrap_or(Value::Null),
    };
    let Some(after) = parse(draft) else {
        let message =
            "the draft cannot be parsed as JSON or TOML, so the commands in it are unknown";
        return changed(message.to_owned());
    };
    let (old, new) = (leaves(&before, keys), leaves(&after, keys));
    let differs = |key: &&String| {
        old.get(*key).map(|v| unversioned(v)) != new.get(*key).map(|v| unversioned(v))
    };
    if let Some(key) = new.keys().chain(old.keys()).find(differs) {
        return changed(format!("the value of `{key}`, which runs on build or test, was changed"));
    }
    let tables = |value: &Value| {
        let mut found = BTreeMap::new();
        for table in &runs.dependencies {
            if let Some(value) = at(value, table) {
                dependencies(value, &mut found);
            }
        }
        found
    };
    let (old, new) = (tables(&before), tables(&after));
    let (name, _) = new.iter().find(|(name, source)| old.get(*name) != Some(source))?;
    changed(match old.contains_key(name) {
        false => {
            format!("the dependency `{name}` is new, and its code may run on install or build")
        }
        true => format!("the dependency `{name}` now comes from a different source"),
    })
}

/// A change to code that runs on build or test.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BuildChange {
    pub line: Option<usize>,
    pub message: String,
}

/// Finds a changed line in a program that runs on build or test. Comments, blank lines and lines that differ only in a
/// version number do not count as changed.
fn program_change(base: &str, draft: &str) -> Option<BuildChange> {
    let plain = |line: &str| {
        let line = line.trim();
        // Comments that start with one of these texts are directives, which have an effect.
        let starts = ["#!", "# syntax=", "#syntax=", "# escape=", "#escape=", "//go:", "#cgo"];
        let directive = starts.iter().any(|start| line.starts_with(start));
        let comment = !directive && (line.starts_with('#') || line.starts_with("//"));
        (!line.is_empty() && !comment).then(|| unversioned(line))
    };
    let mut old: BTreeMap<String, usize> = BTreeMap::new();
    for line in base.lines().filter_map(plain) {
        *old.entry(line).or_default() += 1;
    }
    let message = "code that runs on build or test was changed".to_owned();
    for (number, line) in Diff::between(base, draft).added {
        let Some(line) = plain(&line) else { continue };
        match old.get_mut(&line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return Some(BuildChange { line: Some(number), message }),
        }
    }
    let order = |text: &str| text.lines().filter_map(plain).collect::<Vec<_>>();
    (order(base) != order(draft)).then_some(BuildChange { line: None, message })
}

/// Replaces the version numbers in a text by `0`, so that two texts that differ only in version numbers become equal.
fn unversioned(text: &str) -> String {
    let Some(version) = VERSION.as_ref() else { return text.to_owned() };
    let replaced = version.replace_all(text, |found: &regex::Captures<'_>| {
        match found[0].matches('.').count() {
            3 => found[0].to_owned(),
            _ => "0".to_owned(),
        }
    });
    replaced.into_owned()
}

/// Parses a data file in JSON or TOML.
fn parse(text: &str) -> Option<Value> {
    let json = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok();
    json.or_else(|| toml_edit::de::from_str(text).ok())
}

/// Returns the value at a dotted key, such as `tool.poetry.dependencies`.
fn at<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('.').try_fold(value, |value, part| value.get(part))
}

/// Returns all values whose key matches a pattern, and all values below such a key. The map contains each value by its
/// dotted key.
fn leaves(value: &Value, keys: &Globs) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![(Vec::<&str>::new(), value)];
    while let Some((path, value)) = open.pop() {
        // A pattern that matches a key also matches all keys below it.
        let matches = (1..=path.len()).any(|length| keys.matches(&path[..length].join("/")));
        match value.as_object() {
            Some(fields) => {
                open.extend(fields.iter().map(|(key, value)| {
                    (path.iter().copied().chain([key.as_str()]).collect(), value)
                }))
            }
            None if matches => {
                found.insert(path.join("."), value.to_string());
            }
            None => {}
        }
    }
    found
}

/// Collects the dependencies in a table, each with its source. The source is empty if the dependency comes from the
/// default registry.
fn dependencies(value: &Value, found: &mut BTreeMap<String, String>) {
    /// Fields of a dependency that do not affect its source.
    const PLAIN: &str = "version features default-features optional workspace extras markers";
    /// Fields by which an object is recognised as a dependency.
    const FIELDS: &str = "version git path url workspace registry features file package source";
    let has_source = |text: &str| text.contains(['/', ':', '@']);
    match value {
        Value::Array(items) => {
            for text in items.iter().filter_map(Value::as_str) {
                let end = text.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
                let (name, rest) = text.split_at(end.unwrap_or(text.len()));
                let rest = rest.split(';').next().unwrap_or_default();
                let source = if has_source(rest) { rest.trim().to_owned() } else { String::new() };
                found.insert(name.to_lowercase(), source);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) => {
                        let source = if has_source(text) { text.clone() } else { String::new() };
                        found.insert(name.clone(), source);
                    }
                    Value::Object(inner) if inner.keys().any(|key| among(key, FIELDS)) => {
                        let source = inner.iter().filter(|(key, _)| !among(key, PLAIN));
                        let source: Vec<String> =
                            source.map(|(key, value)| format!("{key}={value}")).collect();
                        found.insert(name.clone(), source.join(" "));
                    }
                    other => dependencies(other, found),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::policy::Policy;
    use assize_workspace::WorkspacePath;

    /// Returns the gate's message for a changed file under the built-in rules; `None` if the gate ignores the change.
    fn changed(path: &str, base: &str, draft: &str) -> Option<String> {
        let places = Policy::default().path_rules().unwrap();
        let runs =
            places.runs_on_build(&WorkspacePath::parse(path, Path::new("/")).unwrap()).unwrap();
        change(runs, base, draft).map(|change| change.message)
    }

    const PACKAGE: &str =
        r#"{"version": "1.0.0", "scripts": {"test": "jest"}, "dependencies": {"a": "^1.0.0"}}"#;

    #[test]
    fn changed_version_numbers_and_comments_in_build_files_are_ignored() {
        for (from, to) in
            [("1.0.0", "1.0.1"), ("\"version\"", "\"description\": \"x\", \"version\"")]
        {
            assert_eq!(changed("package.json", PACKAGE, &PACKAGE.replace(from, to)), None, "{to}");
        }
        for (path, base, draft) in [
            ("Makefile", "VERSION = 1.2.3\nall:\n\tx\n", "# new\nVERSION = 1.2.4\n\nall:\n\tx\n"),
            ("setup.py", "setup(version=\"1.0\")\n", "setup(version=\"1.1rc1\")\n"),
            ("Dockerfile", "FROM python:3.11-slim\nRUN x\n", "FROM python:3.12-slim\nRUN x\n"),
            (
                "Cargo.toml",
                "[package]\nversion = \"0.1.0\"\n[dependencies]\na = \"1\"\n",
                "[package]\nversion = \"0.2.0\"\n[dependencies]\na = { version = \"2\", features = [\"x\"] }\n",
            ),
            (
                "pyproject.toml",
                "[build-system]\nrequires = [\"hatchling>=1.0\"]\n[project]\ndependencies = [\"requests>=2.0\"]\n",
                "[build-system]\nrequires = [\"hatchling>=1.1\"]\n[project]\ndescription = \"x\"\ndependencies = [\"requests>=2.5; python_version > '3'\"]\n",
            ),
        ] {
            assert_eq!(changed(path, base, draft), None, "{path}");
        }
    }

    #[test]
    fn changed_commands_and_new_dependencies_in_build_files_are_found() {
        let check = |path: &str, base: &str, draft: &str, part: &str| {
            let message = changed(path, base, draft).unwrap_or_default();
            assert!(message.contains(part), "{path}: {message}");
        };
        for (from, to, part) in [
            ("jest", "jest; curl x", "`scripts.test`"),
            ("\"test\"", "\"postinstall\": \"x\", \"test\"", "`scripts.postinstall`"),
            ("{\"a\"", "{\"b\": \"1\", \"a\"", "dependency `b` is new"),
            ("^1.0.0", "git+https://example.com/a", "a different source"),
        ] {
            check("package.json", PACKAGE, &PACKAGE.replace(from, to), part);
        }
        check("package.json", PACKAGE, "{", "cannot be parsed");
        check("package.json", "", PACKAGE, "`scripts.test`");
        for (path, base, draft) in [
            ("Makefile", "all:\n\tcc a.c\n", "all:\n\tcc a.c\n\tcurl x | sh\n"),
            ("Makefile", "a:\n\tx\nb:\n\ty\n", "a:\n\ty\nb:\n\tx\n"),
            ("Makefile", "HOST = 10.0.0.1\n", "HOST = 10.9.9.9\n"),
            ("conftest.py", "", "import os\nos._exit(0)\n"),
            ("build.rs", "fn main() {}\n", "fn main() { run() }\n"),
            ("Dockerfile", "FROM a:1.0\n", "FROM evil:1.0\n"),
            ("a/Dockerfile.dev", "FROM a:1.0\n", "# syntax=evil/frontend\nFROM a:1.0\n"),
        ] {
            check(path, base, draft, "changed");
        }
        // Each case adds lines to a data file.
        for (path, base, added, part) in [
            ("Cargo.toml", "[package]\nname = \"a\"\n", "build = \"x.rs\"\n", "`package.build`"),
            (
                "pyproject.toml",
                "[project]\nname = \"a\"\n",
                "[tool.hatch.build.hooks.custom]\npath = \"x.py\"\n",
                "`tool.hatch.build.hooks.custom.path`",
            ),
        ] {
            check(path, base, &format!("{base}{added}"), part);
        }
        let git = "[dependencies]\na = { git = \"x\" }\n";
        check("Cargo.toml", "[dependencies]\na = \"1\"\n", git, "a different source");
        let new = "[project]\ndependencies = [\"reqeusts\"]\n";
        check("pyproject.toml", "[project]\ndependencies = []\n", new, "`reqeusts` is new");
    }
}

//! Labelled corpora. The tests of this crate and `assize attack --gate` compare the decisions of the gate with the
//! labels.
//!
//! The first lines of each file in `corpus/` describe the format of the file. A `~ ` before a line of `keys.txt` or
//! `plain.txt` marks a case that the gate is known to decide wrongly.

mod markers;

use markers::expand_markers;

const FILES: &str = include_str!("../../corpus/files.txt");
const HIDDEN: &str = include_str!("../../corpus/hidden.txt");
const PATHS: &str = include_str!("../../corpus/paths.txt");
const KEYS: &str = include_str!("../../corpus/keys.txt");
const PLAIN: &str = include_str!("../../corpus/plain.txt");
const TEXTS: &str = include_str!("../../corpus/texts.txt");
const FORGED: &str = include_str!("../../corpus/forged.txt");
const PROJECT: &str = include_str!("../../corpus/project.txt");

/// Label of corpus lines and texts that contain no secret.
pub const NO_SECRET: &str = "plain";

/// Content for every path of `files.txt`. It defines a command in each supported file format.
const RUNS_SOMETHING: &str = r#"{"scripts": {"a": "b"}, "tasks": {"a": "b"}, "build-system": {"a": "b"}, "package": {"build": "b"}}"#;

/// File path for the lines of `keys.txt` and `plain.txt` that do not contain a file path.
const PROGRAM: &str = "a.py";

/// Error for a corpus line or section that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{list}:{number}: invalid corpus entry: it does not have the format of this list")]
pub struct InvalidCorpusLine {
    list: &'static str,
    number: usize,
}

/// A labelled case of a corpus: a file, a line or a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusCase {
    /// Name of the corpus file that contains the case.
    pub list: &'static str,
    /// Line number of the case in the corpus file, counted from 1.
    pub number: usize,
    /// Index of the case among the cases of the corpus file, counted from 0.
    pub index: usize,
    /// Label of the case: the decision or rule that the gate should return. The corpus file defines the labels.
    pub label: &'static str,
    /// File path under which the gate checks the text.
    pub path: &'static str,
    pub text: String,
    /// Whether the gate is known to decide this case wrongly.
    pub known_error: bool,
}

/// A change to the example project, from `forged.txt`. The change adds code that forges the test results, or it is
/// harmless and serves as a control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgery {
    /// Number of the change in `forged.txt`, counted from 1.
    pub number: usize,
    /// Names of the test runners to try the change with.
    pub runners: Vec<&'static str>,
    pub path: &'static str,
    /// Expected verdict of the gate; `missed` if the gate is known to accept the forged result.
    pub verdict: &'static str,
    pub title: &'static str,
    pub text: &'static str,
}

/// Returns the paths of `files.txt`, each with the same content.
pub fn files() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    cases("files.txt", FILES, |line, _| {
        let (label, path) = line.split_once(" | ")?;
        Some((label, path, RUNS_SOMETHING.to_owned()))
    })
}

/// Returns the lines of `hidden.txt`. Each is labelled with the rule and the column of its hidden character, or with
/// `- 0` if it has none.
pub fn hidden() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    cases("hidden.txt", HIDDEN, |line, _| {
        let (label, rest) = line.split_once(" | ")?;
        let (path, text) = rest.split_once(" | ")?;
        Some((label, path, unescape(text)?))
    })
}

/// Returns the lines of `paths.txt`, each labelled with the expected decision.
pub fn paths() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    cases("paths.txt", PATHS, |line, _| {
        let (label, rest) = line.split_once(" | ")?;
        let (path, text) = rest.split_once(" | ")?;
        Some((label, path, text.to_owned()))
    })
}

/// Returns the lines of `keys.txt` and `plain.txt` and the texts of `texts.txt`. Each is labelled with the name of the
/// rule that should find a secret in it, with `-` for any rule, or with [`NO_SECRET`].
pub fn secrets() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    let in_file = |line: &'static str| {
        line.strip_prefix('@').and_then(|line| line.split_once(" | ")).unwrap_or((PROGRAM, line))
    };
    let mut all = cases("keys.txt", KEYS, |line, number| {
        let (rule, line) = line.split_once(" | ")?;
        let (path, line) = in_file(line);
        Some((rule, path, expand_markers(line, number)))
    })?;
    all.extend(cases("plain.txt", PLAIN, |line, number| {
        let (path, line) = in_file(line);
        Some((NO_SECRET, path, expand_markers(line, number)))
    })?);
    all.extend(texts()?);
    Ok(all)
}

/// Returns the texts of `texts.txt`, with their markers expanded.
fn texts() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    let mut all: Vec<CorpusCase> = Vec::new();
    for (number, line) in lines(TEXTS) {
        let bad = InvalidCorpusLine { list: "texts.txt", number };
        if let Some(header) = line.strip_prefix("== ") {
            let (label, path) = header.split_once(" | ").ok_or(bad)?;
            let (index, text) = (all.len(), String::new());
            all.push(CorpusCase {
                list: bad.list,
                number,
                index,
                label,
                path,
                text,
                known_error: false,
            });
        } else {
            let text = &mut all.last_mut().ok_or(bad)?.text;
            text.push_str(line);
            text.push('\n');
        }
    }
    for case in &mut all {
        case.text = expand_markers(case.text.strip_suffix('\n').unwrap_or_default(), case.number);
    }
    Ok(all)
}

/// Returns the lines of `keys.txt`, `plain.txt` and `texts.txt` with unexpanded markers. Such lines contain no real
/// keys.
pub fn unexpanded_lines() -> impl Iterator<Item = &'static str> {
    KEYS.lines().chain(PLAIN.lines()).chain(TEXTS.lines())
}

/// Returns the changes of `forged.txt`.
pub fn forgeries() -> Result<Vec<Forgery>, InvalidCorpusLine> {
    let read = |(index, section): (usize, &'static str)| {
        let bad = InvalidCorpusLine { list: "forged.txt", number: index + 1 };
        let (header, text) = section.split_once('\n').ok_or(bad)?;
        let [runners, path, verdict, title] = header.split(" | ").collect::<Vec<_>>()[..] else {
            return Err(bad);
        };
        let runners = runners.split(' ').collect();
        Ok(Forgery { number: index + 1, runners, path, verdict, title, text })
    };
    sections(FORGED).enumerate().map(read).collect()
}

/// Returns the path and the content of each file of the example project for a test runner. The changes of `forged.txt`
/// are changes to the example project.
pub fn project(runner: &str) -> Result<Vec<(&'static str, String)>, InvalidCorpusLine> {
    let mut files = Vec::new();
    for (index, section) in sections(PROJECT).enumerate() {
        let bad = InvalidCorpusLine { list: "project.txt", number: index + 1 };
        let (header, text) = section.split_once('\n').unwrap_or((section, ""));
        let (runners, path) = header.split_once(" | ").ok_or(bad)?;
        if runners.split(' ').any(|one| one == runner) {
            files.push((path, format!("{}\n", text.trim_end_matches('\n'))));
        }
    }
    Ok(files)
}

/// Returns the sections of a corpus file. Each section begins with `== `.
fn sections(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split("\n== ").skip(1)
}

/// Returns the lines of a corpus file without the comments, each with its line number.
fn lines(list: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    let numbered = list.lines().enumerate().filter(|(_, line)| !line.starts_with("%%"));
    numbered.map(|(index, line)| (index + 1, line))
}

/// Label, path and text of a corpus case.
type Parts = (&'static str, &'static str, String);

/// Parses a corpus file with one case per line.
fn cases(
    list: &'static str,
    text: &'static str,
    read: impl Fn(&'static str, usize) -> Option<Parts>,
) -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    let case = |(index, (number, line)): (usize, (usize, &'static str))| {
        let (known, line) = match line.strip_prefix("~ ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let (label, path, text) = read(line, number).ok_or(InvalidCorpusLine { list, number })?;
        Ok(CorpusCase { list, number, index, label, path, text, known_error: known })
    };
    lines(text).enumerate().map(case).collect()
}

/// Replaces each escape `\u{…}` in a line by its character.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split("\\u{");
    let mut line = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('}')?;
        line.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
        line.push_str(rest);
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_forgery_changes_a_file_of_its_project() {
        for forgery in forgeries().unwrap() {
            for runner in &forgery.runners {
                let files = project(runner).unwrap();
                let has = |path: &str| files.iter().any(|(file, _)| *file == path);
                assert!(has(forgery.path), "{runner}: {}", forgery.path);
                assert!(has("_handoff/TASK_CONTRACT.json"), "{runner}");
            }
        }
    }

    #[test]
    fn invalid_corpus_line_is_reported_with_its_number() {
        let read = |line: &'static str, _| {
            line.split_once(" | ").map(|(label, path)| (label, path, String::new()))
        };
        let error = cases("files.txt", "%% a comment\nordinary | a\nordinary", read).unwrap_err();
        let expected =
            "files.txt:3: invalid corpus entry: it does not have the format of this list";
        assert_eq!(error.to_string(), expected);
    }
}

//! Labelled corpora for measuring the gate, used by the tests of this crate and by `assize attack --gate`.
//!
//! The first lines of each list in `corpus/` describe its format. A `~ ` before a line of `keys.txt` or `plain.txt`
//! marks a known error of the gate.

mod chance;

use chance::drawn;

const FILES: &str = include_str!("../../corpus/files.txt");
const HIDDEN: &str = include_str!("../../corpus/hidden.txt");
const PATHS: &str = include_str!("../../corpus/paths.txt");
const KEYS: &str = include_str!("../../corpus/keys.txt");
const PLAIN: &str = include_str!("../../corpus/plain.txt");
const TEXTS: &str = include_str!("../../corpus/texts.txt");
const FORGED: &str = include_str!("../../corpus/forged.txt");
const PROJECT: &str = include_str!("../../corpus/project.txt");

/// Label of lines and texts without a secret.
pub const NO_SECRET: &str = "plain";

/// Content of the files of `files.txt`: it runs a command in every file format.
const RUNS_SOMETHING: &str = r#"{"scripts": {"a": "b"}, "tasks": {"a": "b"}, "build-system": {"a": "b"}, "package": {"build": "b"}}"#;

/// File of a line of `keys.txt` or `plain.txt` that names none.
const PROGRAM: &str = "a.py";

/// A corpus line that cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{list}:{number}: does not have the format of the list")]
pub struct InvalidCorpusLine {
    list: &'static str,
    number: usize,
}

/// A labelled file, line or text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusCase {
    /// Name of the list that contains the case.
    pub list: &'static str,
    /// Line number in the list, from 1.
    pub number: usize,
    /// Index among the cases of the list, from 0.
    pub index: usize,
    /// Expected class, as defined by the list.
    pub label: &'static str,
    /// File that contains the text.
    pub path: &'static str,
    pub text: String,
    /// Whether the gate is known to misjudge the case.
    pub known: bool,
}

/// A change to a project that forges its test results, or a control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgery {
    /// Number of the change in the list, from 1.
    pub number: usize,
    /// Test runners to try the change with.
    pub runners: Vec<&'static str>,
    pub path: &'static str,
    /// Expected verdict of the gate; `missed` if it accepts a forged result.
    pub verdict: &'static str,
    pub title: &'static str,
    pub text: &'static str,
}

/// The paths of `files.txt`, each with the same content.
pub fn files() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    cases("files.txt", FILES, |line, _| {
        let (label, path) = line.split_once(" | ")?;
        Some((label, path, RUNS_SOMETHING.to_owned()))
    })
}

/// The lines of `hidden.txt`, labelled with the rule and the column of the character, or `- 0`.
pub fn hidden() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    cases("hidden.txt", HIDDEN, |line, _| {
        let (label, rest) = line.split_once(" | ")?;
        let (path, text) = rest.split_once(" | ")?;
        Some((label, path, unescape(text)?))
    })
}

/// The lines of `paths.txt`.
pub fn paths() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    cases("paths.txt", PATHS, |line, _| {
        let (label, rest) = line.split_once(" | ")?;
        let (path, text) = rest.split_once(" | ")?;
        Some((label, path, text.to_owned()))
    })
}

/// The lines of `keys.txt` and `plain.txt` and the texts of `texts.txt`, labelled with a rule, `-` for any rule, or
/// [`NO_SECRET`].
pub fn secrets() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    let in_file = |line: &'static str| {
        line.strip_prefix('@').and_then(|line| line.split_once(" | ")).unwrap_or((PROGRAM, line))
    };
    let mut all = cases("keys.txt", KEYS, |line, number| {
        let (rule, line) = line.split_once(" | ")?;
        let (path, line) = in_file(line);
        Some((rule, path, drawn(line, number)))
    })?;
    all.extend(cases("plain.txt", PLAIN, |line, number| {
        let (path, line) = in_file(line);
        Some((NO_SECRET, path, drawn(line, number)))
    })?);
    all.extend(texts()?);
    Ok(all)
}

/// The texts of `texts.txt`.
fn texts() -> Result<Vec<CorpusCase>, InvalidCorpusLine> {
    let mut all: Vec<CorpusCase> = Vec::new();
    for (number, line) in lines(TEXTS) {
        let bad = InvalidCorpusLine { list: "texts.txt", number };
        if let Some(header) = line.strip_prefix("== ") {
            let (label, path) = header.split_once(" | ").ok_or(bad)?;
            let (index, text) = (all.len(), String::new());
            all.push(CorpusCase { list: bad.list, number, index, label, path, text, known: false });
        } else {
            let text = &mut all.last_mut().ok_or(bad)?.text;
            text.push_str(line);
            text.push('\n');
        }
    }
    for case in &mut all {
        case.text = drawn(case.text.strip_suffix('\n').unwrap_or_default(), case.number);
    }
    Ok(all)
}

/// Unexpanded lines of the secret lists, which contain no secrets.
pub fn undrawn() -> impl Iterator<Item = &'static str> {
    KEYS.lines().chain(PLAIN.lines()).chain(TEXTS.lines())
}

/// The changes of `forged.txt`.
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

/// Files that a test runner needs of the project that `forged.txt` changes.
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

/// The sections of a list, which begin with `== `.
fn sections(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split("\n== ").skip(1)
}

/// The lines of a list without comments, with their numbers.
fn lines(list: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    let numbered = list.lines().enumerate().filter(|(_, line)| !line.starts_with("%%"));
    numbered.map(|(index, line)| (index + 1, line))
}

/// Label, path and text of a case.
type Parts = (&'static str, &'static str, String);

/// Parses a list with one case per line.
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
        Ok(CorpusCase { list, number, index, label, path, text, known })
    };
    lines(text).enumerate().map(case).collect()
}

/// Replaces each `\u{…}` of a line by its character.
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
    fn invalid_line_is_reported_with_its_number() {
        let read = |line: &'static str, _| {
            line.split_once(" | ").map(|(label, path)| (label, path, String::new()))
        };
        let error = cases("files.txt", "%% a comment\nordinary | a\nordinary", read).unwrap_err();
        assert_eq!(error.to_string(), "files.txt:3: does not have the format of the list");
    }
}

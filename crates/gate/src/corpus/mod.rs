//! The labelled corpora that the gate is measured on: by the tests of this crate, and by `assize attack --gate`.
//!
//! Each list in `corpus/` says in its first lines how it is written. `~ ` before a line of `keys.txt` or `plain.txt`
//! says that the gate is known to be wrong about it.

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

/// The label of lines and texts without a secret.
pub const NO_SECRET: &str = "plain";

/// The content of the files of `files.txt`: it runs something, whatever the format of the file is.
const RUNS_SOMETHING: &str = r#"{"scripts": {"a": "b"}, "tasks": {"a": "b"}, "build-system": {"a": "b"}, "package": {"build": "b"}}"#;

/// The file that a line of `keys.txt` or `plain.txt` stands in unless it names one.
const PROGRAM: &str = "a.py";

/// A line of a corpus that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{list}:{number}: not written as the list says")]
pub struct BadLine {
    list: &'static str,
    number: usize,
}

/// A labelled file, line or text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The name of its list.
    pub list: &'static str,
    /// Its line in the list, from 1.
    pub number: usize,
    /// Its place among the cases of the list, from 0.
    pub index: usize,
    /// What it is, in the words of its list.
    pub label: &'static str,
    /// The file that the text is in.
    pub path: &'static str,
    pub text: String,
    /// The gate is known to be wrong about it.
    pub known: bool,
}

/// A change to a project that forges the result of its tests, or is a control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgery {
    /// Its place in the list, from 1.
    pub number: usize,
    /// The test runners that it is tried with.
    pub runners: Vec<&'static str>,
    pub path: &'static str,
    /// What becomes of it at the gate; `missed` if that accepts a forged result.
    pub verdict: &'static str,
    pub title: &'static str,
    pub text: &'static str,
}

/// The paths of `files.txt`, each with the same content.
pub fn files() -> Result<Vec<Case>, BadLine> {
    cases("files.txt", FILES, |line, _| {
        let (label, path) = line.split_once(" | ")?;
        Some((label, path, RUNS_SOMETHING.to_owned()))
    })
}

/// The lines of `hidden.txt`, labelled with the rule and the column of the character, or `- 0`.
pub fn hidden() -> Result<Vec<Case>, BadLine> {
    cases("hidden.txt", HIDDEN, |line, _| {
        let (label, rest) = line.split_once(" | ")?;
        let (path, text) = rest.split_once(" | ")?;
        Some((label, path, unescape(text)?))
    })
}

/// The lines of `paths.txt`.
pub fn paths() -> Result<Vec<Case>, BadLine> {
    cases("paths.txt", PATHS, |line, _| {
        let (label, rest) = line.split_once(" | ")?;
        let (path, text) = rest.split_once(" | ")?;
        Some((label, path, text.to_owned()))
    })
}

/// The lines of `keys.txt` and `plain.txt` and the texts of `texts.txt`, labelled with a rule, `-` for any rule, or
/// [`NO_SECRET`].
pub fn secrets() -> Result<Vec<Case>, BadLine> {
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
fn texts() -> Result<Vec<Case>, BadLine> {
    let mut all: Vec<Case> = Vec::new();
    for (number, line) in lines(TEXTS) {
        let bad = BadLine { list: "texts.txt", number };
        if let Some(header) = line.strip_prefix("== ") {
            let (label, path) = header.split_once(" | ").ok_or(bad)?;
            let (index, text) = (all.len(), String::new());
            all.push(Case { list: bad.list, number, index, label, path, text, known: false });
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

/// The lines of the lists of secrets as they are written, which hold no secret.
pub fn undrawn() -> impl Iterator<Item = &'static str> {
    KEYS.lines().chain(PLAIN.lines()).chain(TEXTS.lines())
}

/// The changes of `forged.txt`.
pub fn forgeries() -> Result<Vec<Forgery>, BadLine> {
    let read = |(index, section): (usize, &'static str)| {
        let bad = BadLine { list: "forged.txt", number: index + 1 };
        let (header, text) = section.split_once('\n').ok_or(bad)?;
        let [runners, path, verdict, title] = header.split(" | ").collect::<Vec<_>>()[..] else {
            return Err(bad);
        };
        let runners = runners.split(' ').collect();
        Ok(Forgery { number: index + 1, runners, path, verdict, title, text })
    };
    sections(FORGED).enumerate().map(read).collect()
}

/// The files of the project that the changes of `forged.txt` are made to, as a test runner needs them.
pub fn project(runner: &str) -> Result<Vec<(&'static str, String)>, BadLine> {
    let mut files = Vec::new();
    for (index, section) in sections(PROJECT).enumerate() {
        let bad = BadLine { list: "project.txt", number: index + 1 };
        let (header, text) = section.split_once('\n').unwrap_or((section, ""));
        let (runners, path) = header.split_once(" | ").ok_or(bad)?;
        if runners.split(' ').any(|one| one == runner) {
            files.push((path, format!("{}\n", text.trim_end_matches('\n'))));
        }
    }
    Ok(files)
}

/// The parts of a list that begin with `== `.
fn sections(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split("\n== ").skip(1)
}

/// The lines of a list, with their numbers, without comments.
fn lines(list: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    let numbered = list.lines().enumerate().filter(|(_, line)| !line.starts_with("%%"));
    numbered.map(|(index, line)| (index + 1, line))
}

/// A case's label, path and text.
type Parts = (&'static str, &'static str, String);

/// The cases of a list of lines.
fn cases(
    list: &'static str,
    text: &'static str,
    read: impl Fn(&'static str, usize) -> Option<Parts>,
) -> Result<Vec<Case>, BadLine> {
    let case = |(index, (number, line)): (usize, (usize, &'static str))| {
        let (known, line) = match line.strip_prefix("~ ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let (label, path, text) = read(line, number).ok_or(BadLine { list, number })?;
        Ok(Case { list, number, index, label, path, text, known })
    };
    lines(text).enumerate().map(case).collect()
}

/// A line with each `\u{…}` replaced by its character.
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
    fn unreadable_line_is_an_error_with_its_number() {
        let read = |line: &'static str, _| {
            line.split_once(" | ").map(|(label, path)| (label, path, String::new()))
        };
        let error = cases("files.txt", "%% a comment\nordinary | a\nordinary", read).unwrap_err();
        assert_eq!(error.to_string(), "files.txt:3: not written as the list says");
    }
}

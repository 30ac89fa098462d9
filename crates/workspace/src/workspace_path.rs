//! Parsing of untrusted paths: a valid path leads to a file inside the workspace.

use std::fmt;
use std::path::{Component, Path};

use assize_types::text::is_invisible;

/// Name of the folder in the workspace that contains drafts, staged files, task contracts and the transition log. Paths
/// of project files must not contain this name.
pub const HANDOFF: &str = "_handoff";

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 1024;
/// Maximum length of one component of a path, in bytes.
const MAX_COMPONENT: usize = 255;

/// A valid path below the workspace, as a list of components. The path need not exist, and may still contain symbolic
/// links, which the kernel refuses when the path is opened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspacePath(Vec<String>);

/// Reason why a path is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    #[error("the path is empty; write a path relative to the workspace, like `src/main.py`")]
    Empty,
    #[error(
        "the path is longer than {MAX_PATH} bytes, or one of its components is longer than \
         {MAX_COMPONENT} bytes"
    )]
    TooLong,
    #[error("`{0}` is a URL, not a path; write a path relative to the workspace")]
    Url(String),
    #[error("the path contains a character that is not allowed (U+{0:04X})")]
    Character(u32),
    #[error("the path contains `..`; write a path inside the workspace, like `src/main.py`")]
    Parent,
    #[error("`{0}` is outside the workspace; write a path relative to the workspace")]
    OutsideWorkspace(String),
    #[error("`{HANDOFF}` is reserved for drafts; write the path of a project file")]
    Handoff,
}

impl WorkspacePath {
    /// Parses a path. An absolute path must be below `root`. `root` is the absolute path of the workspace and contains
    /// no `..`.
    pub fn parse(text: &str, root: &Path) -> Result<WorkspacePath, InvalidPath> {
        if text.len() > MAX_PATH {
            return Err(InvalidPath::TooLong);
        }
        let odd = |c: &char| c.is_control() || is_invisible(*c) || *c == '\\';
        if let Some(c) = text.chars().find(odd) {
            return Err(InvalidPath::Character(c.into()));
        }
        let scheme = text.split_once(':').map(|(scheme, rest)| (scheme.to_lowercase(), rest));
        if scheme.is_some_and(|(scheme, rest)| scheme == "file" || rest.starts_with("//")) {
            return Err(InvalidPath::Url(text.to_owned()));
        }
        let path = Path::new(text);
        let below = match path.is_absolute() {
            // Check before `strip_prefix`: `/srv/repo/../etc` begins with `/srv/repo`.
            true if path.components().any(|part| part == Component::ParentDir) => {
                return Err(InvalidPath::Parent);
            }
            true => path
                .strip_prefix(root)
                .map_err(|_| InvalidPath::OutsideWorkspace(text.to_owned()))?,
            false => path,
        };
        let mut parts = Vec::new();
        for part in below.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
                Component::CurDir => {}
                Component::ParentDir => return Err(InvalidPath::Parent),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(InvalidPath::OutsideWorkspace(text.to_owned()));
                }
            }
        }
        if parts.is_empty() {
            return Err(InvalidPath::Empty);
        }
        if parts.iter().any(|part| part.len() > MAX_COMPONENT) {
            return Err(InvalidPath::TooLong);
        }
        // The comparison ignores case: some file systems treat `_Handoff` as `_handoff`, and people overlook the case.
        if parts.iter().any(|part| part.to_lowercase() == HANDOFF) {
            return Err(InvalidPath::Handoff);
        }
        Ok(WorkspacePath(parts))
    }

    /// Path of the directory entry `name` in `folder`; `None` if that path is not valid.
    pub fn from_entry(folder: Option<&WorkspacePath>, name: &str) -> Option<WorkspacePath> {
        let path = match folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        WorkspacePath::parse(&path, Path::new("/")).ok()
    }

    /// File name: the last component of the path.
    pub fn name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// The path that Windows file systems would open: they ignore dots and spaces at the end of a name, ignore a stream
    /// name after a colon, and open `.git` also by its short name (`GIT~1`). Use the result only to match paths against
    /// rules.
    pub fn normalized_for_rules(&self) -> String {
        let parts: Vec<&str> = self
            .0
            .iter()
            .map(|part| {
                let name = part.split(':').next().unwrap_or(part);
                let name = match name.trim_end_matches(['.', ' ']) {
                    "" => part,
                    name => name,
                };
                let short = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("git~"));
                match short && name.len() > 4 && name[4..].bytes().all(|b| b.is_ascii_digit()) {
                    true => ".git",
                    false => name,
                }
            })
            .collect();
        parts.join("/")
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, InvalidPath> {
        WorkspacePath::parse(text, Path::new("/srv/repo")).map(|inside| inside.to_string())
    }

    #[test]
    fn workspace_path_in_equivalent_spellings_is_parsed_to_the_same_path() {
        for text in ["src/main.py", "./src//main.py", "src/./main.py", "/srv/repo/src/main.py"] {
            assert_eq!(parse(text).as_deref(), Ok("src/main.py"), "{text}");
        }
        for text in ["a b/ünï.md", "a:b/c", "src/file:x"] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn invalid_workspace_path_is_rejected_with_the_reason() {
        for (text, why) in [
            ("", InvalidPath::Empty),
            (".", InvalidPath::Empty),
            ("/srv/repo", InvalidPath::Empty),
            ("../x", InvalidPath::Parent),
            ("src/../../x", InvalidPath::Parent),
            ("/srv/repo/../x", InvalidPath::Parent),
            ("/etc/passwd", InvalidPath::OutsideWorkspace("/etc/passwd".to_owned())),
            ("/srv/repository/x", InvalidPath::OutsideWorkspace("/srv/repository/x".to_owned())),
            ("_handoff/drafts/x", InvalidPath::Handoff),
            ("src/_HandOff/x", InvalidPath::Handoff),
            ("a\0b", InvalidPath::Character(0)),
            ("a\nb", InvalidPath::Character(10)),
            ("a\\b", InvalidPath::Character(0x5c)),
            ("a\u{202e}b", InvalidPath::Character(0x202e)),
            ("file:///srv/repo/x", InvalidPath::Url("file:///srv/repo/x".to_owned())),
            ("FILE:x", InvalidPath::Url("FILE:x".to_owned())),
            ("https://example.com/x", InvalidPath::Url("https://example.com/x".to_owned())),
        ] {
            assert_eq!(parse(text), Err(why), "{text:?}");
        }
        assert_eq!(parse(&"x".repeat(256)), Err(InvalidPath::TooLong));
        assert_eq!(parse(&"x/".repeat(600)), Err(InvalidPath::TooLong));
    }
}

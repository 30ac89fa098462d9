//! Paths as somebody wrote them, and what they mean below the workspace.

use std::fmt;
use std::path::{Component, Path};

use assize_types::text::is_invisible;

/// The folder of everything that is handed over. No path of a project leads into it.
pub const HANDOFF: &str = "_handoff";

/// The longest path, and the longest part of one, in bytes.
const LONGEST: usize = 1024;
const LONGEST_PART: usize = 255;

/// A path below the workspace, part by part. What it leads to is for the kernel to find.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inside(Vec<String>);

/// A path that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Outside {
    #[error("the path is empty; write it from the workspace's folder, such as `src/main.py`")]
    Empty,
    #[error("the path is longer than {LONGEST} bytes, or a part of it than {LONGEST_PART}")]
    TooLong,
    #[error("`{0}` is a URL, not a path; write the path from the workspace's folder")]
    Url(String),
    #[error("the path has a character that no path here may have (U+{0:04X})")]
    Character(u32),
    #[error(
        "`..` leads elsewhere; write the path from the workspace's folder, such as `src/main.py`"
    )]
    Parent,
    #[error(
        "`{0}` is outside the workspace; write the path from its folder, such as `src/main.py`"
    )]
    Elsewhere(String),
    #[error(
        "`{HANDOFF}` is where drafts are kept, and nothing to draft; name a file of the project"
    )]
    Handoff,
}

impl Inside {
    /// What a path means in the workspace at `root`, an absolute path that is written out in full.
    pub fn read(text: &str, root: &Path) -> Result<Inside, Outside> {
        if text.len() > LONGEST {
            return Err(Outside::TooLong);
        }
        let odd = |c: &char| c.is_control() || is_invisible(*c) || *c == '\\';
        if let Some(c) = text.chars().find(odd) {
            return Err(Outside::Character(c.into()));
        }
        let scheme = text.split_once(':').map(|(scheme, rest)| (scheme.to_lowercase(), rest));
        if scheme.is_some_and(|(scheme, rest)| scheme == "file" || rest.starts_with("//")) {
            return Err(Outside::Url(text.to_owned()));
        }
        let path = Path::new(text);
        let below = match path.is_absolute() {
            // Before anything is taken for the same: `/srv/../etc` does not begin with `/srv`.
            true if path.components().any(|part| part == Component::ParentDir) => {
                return Err(Outside::Parent);
            }
            true => path.strip_prefix(root).map_err(|_| Outside::Elsewhere(text.to_owned()))?,
            false => path,
        };
        let mut parts = Vec::new();
        for part in below.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
                Component::CurDir => {}
                Component::ParentDir => return Err(Outside::Parent),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(Outside::Elsewhere(text.to_owned()));
                }
            }
        }
        if parts.is_empty() {
            return Err(Outside::Empty);
        }
        if parts.iter().any(|part| part.len() > LONGEST_PART) {
            return Err(Outside::TooLong);
        }
        // On file systems that do not tell cases apart, and for people who do not look closely.
        if parts.iter().any(|part| part.to_lowercase() == HANDOFF) {
            return Err(Outside::Handoff);
        }
        Ok(Inside(parts))
    }

    /// What a name that was found in a folder leads to; `None` where no path of ours leads there.
    pub fn below(folder: Option<&Inside>, name: &str) -> Option<Inside> {
        let path = match folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        Inside::read(&path, Path::new("/")).ok()
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// The path as file systems read it that ignore dots and spaces at the end of a name and streams after a colon, and
    /// that give `.git` a short name (`GIT~1`). For comparison with rules only.
    pub fn as_file_systems_read_it(&self) -> String {
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

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, Outside> {
        Inside::read(text, Path::new("/srv/repo")).map(|inside| inside.to_string())
    }

    #[test]
    fn paths_mean_what_they_say() {
        for text in ["src/main.py", "./src//main.py", "src/./main.py", "/srv/repo/src/main.py"] {
            assert_eq!(read(text).as_deref(), Ok("src/main.py"), "{text}");
        }
        for text in ["a b/ünï.md", "a:b/c", "src/file:x"] {
            assert_eq!(read(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_leads_elsewhere_is_told_apart() {
        for (text, why) in [
            ("", Outside::Empty),
            (".", Outside::Empty),
            ("/srv/repo", Outside::Empty),
            ("../x", Outside::Parent),
            ("src/../../x", Outside::Parent),
            ("/srv/repo/../x", Outside::Parent),
            ("/etc/passwd", Outside::Elsewhere("/etc/passwd".to_owned())),
            ("/srv/repository/x", Outside::Elsewhere("/srv/repository/x".to_owned())),
            ("_handoff/drafts/x", Outside::Handoff),
            ("src/_HandOff/x", Outside::Handoff),
            ("a\0b", Outside::Character(0)),
            ("a\nb", Outside::Character(10)),
            ("a\\b", Outside::Character(0x5c)),
            ("a\u{202e}b", Outside::Character(0x202e)),
            ("file:///srv/repo/x", Outside::Url("file:///srv/repo/x".to_owned())),
            ("FILE:x", Outside::Url("FILE:x".to_owned())),
            ("https://example.com/x", Outside::Url("https://example.com/x".to_owned())),
        ] {
            assert_eq!(read(text), Err(why), "{text:?}");
        }
        assert_eq!(read(&"x".repeat(256)), Err(Outside::TooLong));
        assert_eq!(read(&"x/".repeat(600)), Err(Outside::TooLong));
    }
}

//! The git settings that control which files git ignores. The settings are read without running git, because a
//! repository may be hostile and some git settings start programs.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Maximum size of an ignore list, and maximum number of bytes read of a git config file.
pub(crate) const LARGEST: u64 = 1 << 20;

/// Maximum number of git config files that are read, counting the files that other config files include. The number of
/// ignore lists that these files set with `core.excludesFile` has the same maximum.
const MAX_FILES: usize = 32;

/// Locations of the git config files of the user and the system.
#[derive(Debug, Clone, Default)]
pub struct GitSettings {
    home: PathBuf,
    /// Git config files of the system and the user.
    files: Vec<PathBuf>,
    /// Ignore list that git uses if the setting `core.excludesFile` is not set.
    default_list: Option<PathBuf>,
}

impl GitSettings {
    /// Locates the git config files of the system and of the user whose home folder is `home`. `variable` returns the
    /// value of an environment variable.
    pub fn of(home: &Path, variable: impl Fn(&str) -> Option<String>) -> GitSettings {
        let path = |name: &str| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let config = path("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let system = path("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig"));
        let mut files = vec![system];
        match path("GIT_CONFIG_GLOBAL") {
            Some(file) => files.push(file),
            None => files.extend([config.join("git/config"), home.join(".gitconfig")]),
        }
        let default_list = Some(config.join("git/ignore"));
        GitSettings { home: home.to_owned(), files, default_list }
    }

    /// Paths of all ignore lists that are set with `core.excludesFile` in the config files of the system, the user and
    /// the repository. If the files of the system and the user set no list, git's default ignore list is included
    /// instead. Git uses only the last of these lists. This function returns all of them, so that a repository cannot
    /// override the user's ignore list, and the conditions of `includeIf` need not be evaluated.
    pub(crate) fn lists(&self, repository: &GitRepository) -> Vec<PathBuf> {
        let mut all = self.named_in(&self.files, &repository.root);
        if all.is_empty() {
            all.extend(self.default_list.clone());
        }
        all.extend(self.named_in(&repository.settings, &repository.root));
        all
    }

    /// Values of the setting `core.excludesFile` in git config files and in the files that they include.
    fn named_in(&self, files: &[PathBuf], root: &Path) -> Vec<PathBuf> {
        let (mut files, mut lists) = (files.to_vec(), Vec::new());
        let mut next = 0;
        while let Some(file) = files.get(next).cloned() {
            next += 1;
            let text = String::from_utf8_lossy(&read_start(&file, LARGEST)).into_owned();
            for (section, key, value) in entries(&text) {
                let (known, folder) = match (section.as_str(), key.as_str()) {
                    ("core", "excludesfile") => (&mut lists, root),
                    ("include" | "includeif", "path") => {
                        (&mut files, file.parent().unwrap_or(root))
                    }
                    _ => continue,
                };
                let path = self.resolve(&value, folder);
                if known.len() < MAX_FILES && !known.contains(&path) {
                    known.push(path);
                }
            }
        }
        lists
    }

    /// Resolves a path in a git setting. A path that starts with `~/` is in the home folder; other relative paths are
    /// relative to `folder`.
    fn resolve(&self, path: &str, folder: &Path) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => folder.join(path),
        }
    }
}

/// Paths of a git repository that determine which files git ignores.
#[derive(Debug)]
pub(crate) struct GitRepository {
    /// Root folder of the repository's work tree.
    pub root: PathBuf,
    /// Git config files of the repository.
    settings: [PathBuf; 2],
    /// Ignore list of the repository, `info/exclude`.
    pub exclude: PathBuf,
}

impl GitRepository {
    /// Finds the git repository that contains a folder; `None` if the folder is in no repository.
    pub(crate) fn of(folder: &Path) -> Option<GitRepository> {
        let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
        let own = named_by(&root.join(".git"), "gitdir:").unwrap_or_else(|| root.join(".git"));
        // In a linked work tree, the file `commondir` names the git directory that all work trees share.
        let shared = named_by(&own.join("commondir"), "").unwrap_or_else(|| own.clone());
        Some(GitRepository {
            root: root.to_owned(),
            settings: [shared.join("config"), own.join("config.worktree")],
            exclude: shared.join("info/exclude"),
        })
    }
}

/// Reads the path of a git directory from a file that consists of `prefix` and this path. Resolves the path relative to
/// the file's folder. Returns `None` if the file is missing or has different content.
fn named_by(file: &Path, prefix: &str) -> Option<PathBuf> {
    let content = String::from_utf8(read_start(file, LARGEST)).ok()?;
    let path = content.strip_prefix(prefix)?.trim();
    (!path.is_empty()).then(|| file.parent().unwrap_or(file).join(path))
}

/// Reads at most the first `limit` bytes of a regular file. Returns no bytes if the file is missing or not a regular
/// file.
pub(crate) fn read_start(path: &Path, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Without `NONBLOCK`, opening a named pipe would block.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    if let Ok(file) = opened
        && file.metadata().is_ok_and(|found| found.is_file())
        && file.take(limit).read_to_end(&mut bytes).is_err()
    {
        bytes.clear();
    }
    bytes
}

/// Parses a git config file into `(section, key, value)`, with section and key in lower case. Names of subsections are
/// dropped.
fn entries(text: &str) -> Vec<(String, String, String)> {
    let (mut entries, mut section) = (Vec::new(), String::new());
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start();
        if let Some(heading) = line.strip_prefix('[') {
            // The name of a subsection is quoted and may contain a bracket.
            let name = heading.split([' ', '\t', '.', '"', ']']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            let end = heading.rfind("\"]").map(|at| at + 2);
            let end = end.or_else(|| heading.find(']').map(|at| at + 1)).unwrap_or(heading.len());
            line = heading[end..].trim_start();
        }
        let Some((key, rest)) = line.split_once('=') else { continue };
        let mut written = rest.to_owned();
        while written.ends_with('\\') && !written.ends_with("\\\\") {
            written.pop();
            written.push_str(lines.next().unwrap_or_default());
        }
        entries.push((section.clone(), key.trim().to_ascii_lowercase(), value(&written)));
    }
    entries
}

/// Parses a value of a git config file: removes quotes, escapes and a trailing comment.
fn value(written: &str) -> String {
    let (mut value, mut quoted, mut end) = (String::new(), false, 0);
    let mut chars = written.trim_start().chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => value.extend(chars.next()),
            char => value.push(char),
        }
        if quoted || !char.is_whitespace() {
            end = value.len();
        }
    }
    value.truncate(end);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file and creates its parent folders.
    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn git_config_with_quotes_comments_and_continued_lines_is_parsed() {
        let text = "# a comment\n[core]\n\tbare = false\n\tExcludesFile = ~/my list # mine\n[Core] excludesfile = \"a # b\"\n\
            [includeIf \"gitdir:~/[x]/\"]\n\tpath = other\\\n.inc\n[core \"x\"]\n excludesfile = \"C:\\\\a\" ; z\n[alias]\nexcludesfile = x\n";
        let found: Vec<(String, String)> = entries(text)
            .into_iter()
            .filter(|(_, key, _)| key != "bare")
            .map(|(section, _, value)| (section, value))
            .collect();
        let expected = [
            ("core", "~/my list"),
            ("core", "a # b"),
            ("includeif", "other.inc"),
            ("core", "C:\\a"),
            ("alias", "x"),
        ];
        assert_eq!(found, expected.map(|(section, value)| (section.to_owned(), value.to_owned())));
    }

    #[test]
    fn ignore_list_of_the_user_replaces_the_default_list_but_not_the_list_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(&folder.path().join(path), text);
        let system =
            |name: &str| (name == "GIT_CONFIG_SYSTEM").then(|| "/nonexistent/gitconfig".to_owned());
        put("repo/.git/HEAD", "");
        let repository = GitRepository::of(&folder.path().join("repo")).unwrap();
        let lists = || -> Vec<String> {
            let lists = GitSettings::of(folder.path(), system).lists(&repository);
            let name = |path: PathBuf| path.strip_prefix(folder.path()).unwrap().to_owned();
            lists.into_iter().map(|path| name(path).display().to_string()).collect()
        };
        assert_eq!(lists(), [".config/git/ignore"]);
        put("repo/.git/config", "[core]\nexcludesFile = ../theirs\n");
        assert_eq!(lists(), [".config/git/ignore", "repo/../theirs"]);
        put(".gitconfig", "[include]\npath = more\n");
        put("more", "[core]\nexcludesFile = ~/mine\n[include]\npath = more\n");
        assert_eq!(lists(), ["mine", "repo/../theirs"]);
        assert_eq!(GitSettings::of(folder.path(), |_| None).files.len(), 3);
    }

    #[test]
    fn linked_work_tree_uses_the_exclude_list_of_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("main/.git/worktrees/side");
        put(&own.join("commondir"), "../..\n");
        put(&folder.path().join("side/.git"), &format!("gitdir: {}\n", own.display()));
        put(&folder.path().join("main/.git/info/exclude"), "x");
        let repository = GitRepository::of(&folder.path().join("side")).unwrap();
        assert_eq!(read_start(&repository.exclude, LARGEST), b"x");
    }
}

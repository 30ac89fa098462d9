//! Git's settings that say which files it ignores, read without running git: a repository may be hostile, and some of
//! its settings start programs.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The largest file of patterns or settings that is read; of a larger one its beginning is.
pub(crate) const LARGEST: u64 = 1 << 20;

/// The most files of settings that are read, with those that they include, and the most lists that they name.
const MOST_FILES: usize = 32;

/// Where the settings of git are that hold for all repositories of a user.
#[derive(Debug, Clone, Default)]
pub struct GitSettings {
    home: PathBuf,
    /// The files of settings of the machine and of the user.
    files: Vec<PathBuf>,
    /// The list of patterns that holds where no setting names one.
    default_list: Option<PathBuf>,
}

impl GitSettings {
    /// The settings of a user with this home folder and these variables of the environment.
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

    /// All lists of patterns that `core.excludesFile` names, for the user and in a repository. Git takes the last one; here
    /// each counts, so that a repository cannot put aside the user's list, and conditions of `includeIf` do not matter.
    pub(crate) fn lists(&self, repository: &Repository) -> Vec<PathBuf> {
        let mut all = self.named_in(&self.files, &repository.root);
        if all.is_empty() {
            all.extend(self.default_list.clone());
        }
        all.extend(self.named_in(&repository.settings, &repository.root));
        all
    }

    /// What `core.excludesFile` is set to in files of settings and those that they include.
    fn named_in(&self, files: &[PathBuf], root: &Path) -> Vec<PathBuf> {
        let (mut files, mut lists) = (files.to_vec(), Vec::new());
        let mut next = 0;
        while let Some(file) = files.get(next).cloned() {
            next += 1;
            let text = String::from_utf8_lossy(&read_start(&file)).into_owned();
            for (section, key, value) in entries(&text) {
                let (known, folder) = match (section.as_str(), key.as_str()) {
                    ("core", "excludesfile") => (&mut lists, root),
                    ("include" | "includeif", "path") => {
                        (&mut files, file.parent().unwrap_or(root))
                    }
                    _ => continue,
                };
                let path = self.resolve(&value, folder);
                if known.len() < MOST_FILES && !known.contains(&path) {
                    known.push(path);
                }
            }
        }
        lists
    }

    /// A path as settings write it: below the home folder after `~/`, else relative to a folder.
    fn resolve(&self, path: &str, folder: &Path) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => folder.join(path),
        }
    }
}

/// A repository of git.
#[derive(Debug)]
pub(crate) struct Repository {
    /// The root of its work tree.
    pub root: PathBuf,
    /// Its own files of settings.
    settings: [PathBuf; 2],
    /// Its own list of patterns.
    pub exclude: PathBuf,
}

impl Repository {
    /// The repository that a folder belongs to.
    pub(crate) fn of(folder: &Path) -> Option<Repository> {
        let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
        let own = named_by(&root.join(".git"), "gitdir:").unwrap_or_else(|| root.join(".git"));
        // Several work trees share one folder.
        let shared = named_by(&own.join("commondir"), "").unwrap_or_else(|| own.clone());
        Some(Repository {
            root: root.to_owned(),
            settings: [shared.join("config"), own.join("config.worktree")],
            exclude: shared.join("info/exclude"),
        })
    }
}

/// The path that a file of git names after a word, relative to the file's folder.
fn named_by(file: &Path, word: &str) -> Option<PathBuf> {
    let content = String::from_utf8(read_start(file)).ok()?;
    let path = content.strip_prefix(word)?.trim();
    (!path.is_empty()).then(|| file.parent().unwrap_or(file).join(path))
}

/// The beginning of a plain file; nothing of anything else.
pub(crate) fn read_start(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe would block.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    if let Ok(file) = opened
        && file.metadata().is_ok_and(|found| found.is_file())
        && file.take(LARGEST).read_to_end(&mut bytes).is_err()
    {
        bytes.clear();
    }
    bytes
}

/// The values of a file of settings, after section and key in small letters; subsections are left out.
fn entries(text: &str) -> Vec<(String, String, String)> {
    let (mut entries, mut section) = (Vec::new(), String::new());
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start();
        if let Some(heading) = line.strip_prefix('[') {
            // A subsection is quoted, and may hold a bracket.
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

/// A value without quotes, escapes and a comment.
fn value(written: &str) -> String {
    let (mut value, mut quoted, mut kept) = (String::new(), false, 0);
    let mut chars = written.trim_start().chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => value.extend(chars.next()),
            char => value.push(char),
        }
        if quoted || !char.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file, with the folders above it.
    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn settings_of_git_are_parsed() {
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
    fn lists_of_all_settings_count_and_the_default_stands_alone() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(&folder.path().join(path), text);
        let system =
            |name: &str| (name == "GIT_CONFIG_SYSTEM").then(|| "/nonexistent/gitconfig".to_owned());
        put("repo/.git/HEAD", "");
        let repository = Repository::of(&folder.path().join("repo")).unwrap();
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
    fn linked_work_tree_has_the_lists_of_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("main/.git/worktrees/side");
        put(&own.join("commondir"), "../..\n");
        put(&folder.path().join("side/.git"), &format!("gitdir: {}\n", own.display()));
        put(&folder.path().join("main/.git/info/exclude"), "x");
        let repository = Repository::of(&folder.path().join("side")).unwrap();
        assert_eq!(read_start(&repository.exclude), b"x");
    }
}

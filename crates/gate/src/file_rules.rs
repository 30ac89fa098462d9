//! Built-in rules about files, by path, from `data/files.toml`: which files are protected because a tool reads them
//! automatically, which files contain secrets, and which files run on build or test.

use std::sync::LazyLock;

use toml_edit::{DocumentMut, Item, Table, TableLike};

use crate::globs::{Globs, InvalidGlob};

/// Text of the built-in rules, in TOML.
pub(crate) const DATA: &str = include_str!("../data/files.toml");

/// All built-in rules about files, by path.
#[derive(Debug)]
pub(crate) struct FileRules {
    /// Files that tools run automatically, or whose instructions agents follow automatically.
    pub protected: ToolGlobs,
    /// Files whose names suggest secrets.
    pub secret: ToolGlobs,
    /// Files of the version control repository.
    pub repository: ToolGlobs,
    /// Rules for files whose content runs on build or test.
    pub runs: Vec<BuildRule>,
    /// Names of source folders, in which executable files are normal.
    pub source_folders: Vec<String>,
}

/// Rule for one kind of files that run on build or test.
#[derive(Debug)]
pub(crate) struct BuildRule {
    pub files: Globs,
    /// For a data file: patterns of the keys whose values are commands. `None` if the whole file is a program.
    pub keys: Option<Globs>,
    /// Dotted keys of the dependency tables in a data file, such as `tool.poetry.dependencies`.
    pub dependencies: Vec<String>,
}

/// Patterns of files, each with the name of the tool that reads the matching files.
#[derive(Debug)]
pub(crate) struct ToolGlobs {
    globs: Globs,
    /// For each pattern, the name of the tool that reads the matching files.
    tools: Vec<String>,
}

impl ToolGlobs {
    /// Name of the tool that reads a file; `None` if no pattern matches the file.
    pub(crate) fn tool(&self, path: &str) -> Option<&str> {
        self.globs.find(path).map(|index| self.tools[index].as_str())
    }
}

static RULES: LazyLock<Result<FileRules, InvalidGlob>> = LazyLock::new(|| FileRules::parse(DATA));

impl FileRules {
    /// Returns the built-in rules.
    pub(crate) fn get() -> Result<&'static FileRules, InvalidGlob> {
        RULES.as_ref().map_err(Clone::clone)
    }

    fn parse(text: &str) -> Result<FileRules, InvalidGlob> {
        let document: DocumentMut =
            text.parse().map_err(|error| InvalidGlob::new("data/files.toml", &error))?;
        let section = |name: &str| {
            let section = document.get(name).and_then(Item::as_table);
            section
                .ok_or_else(|| InvalidGlob::new(name, &"the section is missing in data/files.toml"))
        };
        let mut runs = Vec::new();
        for (name, entry) in section("runs")? {
            let entry = table(name, entry)?;
            let list = |key: &str| match entry.get(key) {
                Some(value) => strings(name, value),
                None => Ok(Vec::new()),
            };
            let keys: Vec<String> = list("keys")?.iter().map(|key| key.replace('.', "/")).collect();
            runs.push(BuildRule {
                files: Globs::case_insensitive(&list("files")?)?,
                keys: (!keys.is_empty()).then(|| Globs::case_insensitive(&keys)).transpose()?,
                dependencies: list("dependencies")?,
            });
        }
        let folders = section("source")?.get("folders");
        let folders = folders.ok_or_else(|| InvalidGlob::new("source.folders", &"missing"))?;
        Ok(FileRules {
            protected: tools(section("protected")?)?,
            secret: tools(section("secret")?)?,
            repository: tools(section("repository")?)?,
            runs,
            source_folders: strings("source.folders", folders)?,
        })
    }
}

/// Compiles the file patterns in one section of the rules, each with the name of its tool.
fn tools(section: &Table) -> Result<ToolGlobs, InvalidGlob> {
    let (mut patterns, mut tools) = (Vec::new(), Vec::new());
    for (name, group) in section {
        for (tool, files) in table(name, group)?.iter() {
            for pattern in strings(tool, files)? {
                patterns.push(pattern);
                tools.push(tool.to_owned());
            }
        }
    }
    Ok(ToolGlobs { globs: Globs::case_insensitive(&patterns)?, tools })
}

fn table<'i>(name: &str, item: &'i Item) -> Result<&'i dyn TableLike, InvalidGlob> {
    item.as_table_like().ok_or_else(|| InvalidGlob::new(name, &"the value is not a table"))
}

fn strings(name: &str, item: &Item) -> Result<Vec<String>, InvalidGlob> {
    let wrong = || InvalidGlob::new(name, &"the value is not a list of strings");
    let values = item.as_array().ok_or_else(wrong)?;
    values.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_file_rules_are_valid_and_name_the_tool_that_reads_a_file() {
        let rules = FileRules::get().unwrap();
        assert_eq!(rules.protected.tool("lefthook-local.yml"), Some("lefthook"));
        assert_eq!(rules.protected.tool("a/b/.Zed/tasks.json"), Some("Zed"));
        assert_eq!(rules.protected.tool("src/main.rs"), None);
        assert_eq!(rules.secret.tool("deploy/key.p8"), Some("private keys"));
        assert!(rules.repository.tool(".jj/repo/config.toml").is_some());
        assert!(rules.runs.len() >= 8 && rules.source_folders.contains(&"src".to_owned()));
    }

    /// If a tool had no path in the corpus, all patterns of the tool could be removed from the rules, and no test would
    /// fail.
    #[test]
    fn every_tool_in_the_file_rules_has_a_labelled_path_in_the_corpus() {
        let corpus = include_str!("../corpus/files.txt");
        let paths: Vec<&str> = corpus.lines().filter_map(|line| line.split(" | ").nth(1)).collect();
        let document: DocumentMut = DATA.parse().unwrap();
        let mut without = Vec::new();
        for section in ["protected", "secret", "repository", "runs"] {
            for (group, item) in document[section].as_table().unwrap() {
                let lists = table(group, item).unwrap();
                let is_files = |tool: &str| section != "runs" || tool == "files";
                for (tool, list) in lists.iter().filter(|(tool, _)| is_files(tool)) {
                    let globs = Globs::case_insensitive(&strings(tool, list).unwrap()).unwrap();
                    if !paths.iter().any(|path| globs.matches(path)) {
                        without.push(format!("{section}.{group} {tool}"));
                    }
                }
            }
        }
        assert!(without.is_empty(), "no path in corpus/files.txt for:\n{}", without.join("\n"));
    }

    #[test]
    fn invalid_file_rules_are_an_error() {
        let whole = "[protected.x]\na = [\"**/x\"]\n[secret.x]\na = []\n[repository.x]\na = []\n\
                     [source]\nfolders = []\n[runs.x]\nfiles = []\n";
        assert!(FileRules::parse(whole).is_ok());
        for (from, to) in [
            ("\"**/x\"", "\"**/[x\""),
            ("\"**/x\"", "1"),
            ("[secret.x]", "[other.x]"),
            ("folders", "folder"),
            ("files = []", "files = 3"),
            ("[runs.x]", "[runs.x"),
        ] {
            assert!(FileRules::parse(&whole.replace(from, to)).is_err(), "{from} -> {to}");
        }
    }
}

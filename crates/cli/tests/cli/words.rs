//! Checks of the project's texts: comments, test names, help texts and messages contain none of the words banned by
//! `docs/glossary.md`, and the names of exported types are unique.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::root;

/// Banned words and phrases: they hide the subject of a sentence or have no clear meaning.
const BANNED_WORDS: [&str; 20] = [
    "anybody",
    "anyone",
    "at hand",
    "by heart",
    "came to",
    "comes to",
    "everybody",
    "everyone",
    "go on with",
    "goes on with",
    "means ill",
    "nobody",
    "somebody",
    "someone",
    "surroundings",
    "taken up",
    "thaw",
    "thawed",
    "told to",
    "whoever",
];

/// Exceptions: lines that are allowed to contain a banned word. Each entry has the end of the file's path, a part of
/// the line, and the reason.
const ALLOWED: [(&str, &str, &str); 8] = [
    ("consult/src/prompt.rs", "", PROMPT),
    ("consult/src/answer.rs", "///", PROMPT),
    ("consult/tests/consult/script.rs", "No data is at hand", PROMPT),
    ("debate/src/prompt.rs", "", PROMPT),
    ("draft/src/work/prompt.rs", "", PROMPT),
    ("gate/src/machine_paths.rs", "youruser someone", "placeholders for user names"),
    ("gateway/src/rehearsal/schema_value.rs", "someone@example.com", "an example of an address"),
    ("scripts/test", "nobody", "the Unix user"),
];

/// Reason of an exception: the text is sent to models.
const PROMPT: &str = "a prompt, or a schema that is sent to models";

/// Folders and files that are searched for banned words.
const CHECKED: [&str; 16] = [
    ".config",
    ".github",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "bench",
    "crates",
    "deploy",
    "docs",
    "examples",
    "mkdocs.yml",
    "scripts",
    "ui/browser",
    "ui/src",
];

/// Folders that are not searched: texts for models (`prompts`, `data`), samples for tests of the gate (`corpus`), and
/// files that tools install or build (`node_modules`, `target`).
const SKIPPED: [&str; 5] = ["corpus", "data", "node_modules", "prompts", "target"];

/// Collects every text file below `path`: its path relative to the project root, and its content.
fn texts(path: &Path, found: &mut Vec<(String, String)>) {
    if path.is_dir() {
        if SKIPPED.iter().any(|skipped| path.ends_with(skipped)) {
            return;
        }
        let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| texts(entry, found));
    } else if let Ok(text) = fs::read_to_string(path) {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        found.push((name, text));
    }
}

/// Pattern of the banned words. The words of an identifier count separately: `told_to_end` contains `told to`.
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let words = BANNED_WORDS.join("|").replace(' ', r"\P{Alphabetic}+");
    Regex::new(&format!(r"(?i)(?:^|\P{{Alphabetic}})({words})(?:\P{{Alphabetic}}|$)")).unwrap()
});

/// Banned words in a line.
fn banned_words(line: &str) -> Vec<&str> {
    PATTERN.captures_iter(line).map(|found| found.get(1).unwrap().as_str()).collect()
}

#[test]
fn project_texts_contain_no_banned_words() {
    let mut files = Vec::new();
    CHECKED.iter().for_each(|name| texts(&root().join(name), &mut files));
    assert!(files.len() > 500, "expected more than 500 text files, but read only {}", files.len());
    let mut used = vec![false; ALLOWED.len()];
    let mut complaints = Vec::new();
    for (name, text) in &files {
        if name.ends_with("tests/cli/words.rs") || name == "docs/glossary.md" {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for marker in banned_words(line) {
                let allowed = ALLOWED
                    .iter()
                    .position(|(file, part, _)| name.ends_with(file) && line.contains(part));
                match allowed {
                    Some(index) => used[index] = true,
                    None => complaints.push(format!(
                        "{name}:{}: `{marker}`: {}",
                        number + 1,
                        line.trim()
                    )),
                }
            }
        }
    }
    for ((file, part, _), _) in ALLOWED.iter().zip(used).filter(|(_, used)| !used) {
        complaints.push(format!(
            "unneeded exception: no banned word in a line with `{part}` of `{file}`"
        ));
    }
    assert!(
        complaints.is_empty(),
        "banned words (see docs/glossary.md):\n{}",
        complaints.join("\n")
    );
}

#[test]
fn banned_words_are_found_in_comments_and_identifiers() {
    assert_eq!(banned_words("/// Whoever holds it."), ["Whoever"]);
    assert_eq!(banned_words("fn workers_told_to_end() {"), ["told_to"]);
    assert_eq!(banned_words("the node, nobody's lease"), ["nobody"]);
    assert!(banned_words("fn a_thawing_snapshot() { let handle = 1; }").is_empty());
}

/// Names of the exported types in a source file, each with a flag: whether the comment above the definition contains
/// `Shares its name with`, which permits another type with the same name.
fn exported_types(text: &str) -> Vec<(String, bool)> {
    let mut types = Vec::new();
    let mut explained = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("//") {
            explained |= line.contains("Shares its name with");
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let item = line.strip_prefix("pub").map(|rest| match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, item)| item),
            None => rest,
        });
        let mut words = item.unwrap_or_default().split_whitespace();
        let kind = words.next().unwrap_or_default();
        if let ("struct" | "enum" | "trait" | "type" | "union", Some(name)) = (kind, words.next()) {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            // In a macro, the name is a placeholder such as `$name`, which is skipped.
            types.extend((end > 0).then(|| (name[..end].to_owned(), explained)));
        }
        explained = false;
    }
    types
}

#[test]
fn exported_type_names_are_unique() {
    let mut files = Vec::new();
    ["bench", "crates"].iter().for_each(|name| texts(&root().join(name), &mut files));
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".rs")) {
        if name.contains("/tests/") {
            continue;
        }
        for (exported, _) in exported_types(text).into_iter().filter(|(_, explained)| !explained) {
            places.entry(exported).or_default().push(name);
        }
    }
    assert!(
        places.len() > 500,
        "expected more than 500 exported types, but found only {}",
        places.len()
    );
    let shared: Vec<_> = places.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(
        shared.is_empty(),
        "types with the same name (rename them, or add a comment `Shares its name with`): {shared:#?}"
    );
}

#[test]
fn search_for_exported_types_finds_public_definitions_and_explained_duplicates() {
    let text = "pub struct A;\npub(crate) enum B<T> {\nstruct Private;\n/// Shares its name with `x::C`: an API's word.\n\
                #[derive(Debug)]\npub type C = u8;\n// pub trait D {}\n";
    let types = [("A", false), ("B", false), ("C", true)].map(|(name, why)| (name.to_owned(), why));
    assert_eq!(exported_types(text), types);
}

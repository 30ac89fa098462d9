//! Paths in what somebody adds that exist on one machine only.
//!
//! Home folders, drives of Windows, shares, folders for what is temporary, and `file:///` with any of these. What
//! every system has (`/etc`, `/usr/bin/env`, `/dev/null`) is none, and neither is what a program looks up
//! (`$HOME`, `~/`, `%TEMP%`) or a template fills in (`/home/<user>/`, `/home/{name}/`). Tests and
//! documents may use `/tmp`, and what is about a container has folders of its own.
//!
//! Names that stand for somebody, such as `/home/user/`, are fine in a comment, and hard-coded in a program: there
//! they are opened.

use std::sync::LazyLock;

use regex::Regex;

/// What a line must say to keep a path in it; that it does is itself told.
pub const ALLOWED: &str = "assize: allow-path";

/// How much of a path is shown, in characters.
const SHOWN: usize = 80;
/// How many paths of a line are looked at: whoever adds more of them hears of enough.
const MOST: usize = 200;

/// What a file is, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Code,
    Test,
    /// Read by people, who take an example for one.
    Prose,
    /// About a container, whose folders are its own.
    Container,
}

impl FileKind {
    pub fn of(path: &str) -> FileKind {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        match () {
            () if starts(&["dockerfile", "containerfile", "docker-compose", "compose."])
                || ends(&[".dockerfile"]) =>
            {
                FileKind::Container
            }
            () if ends(&[".md", ".mdx", ".rst", ".adoc", ".txt"]) => FileKind::Prose,
            () if is_test_path(path) => FileKind::Test,
            () => FileKind::Code,
        }
    }

    /// Whether files of this kind may have what a rule finds.
    fn has(self, rule: &str) -> bool {
        match self {
            FileKind::Code => false,
            FileKind::Test | FileKind::Prose => rule == "temp-folder",
            FileKind::Container => matches!(rule, "temp-folder" | "home-folder"),
        }
    }
}

/// A path in a line that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardCoded {
    /// The rule, such as `home-folder`.
    pub rule: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// The path, or its beginning.
    pub found: String,
    /// The line says that it may stay.
    pub allowed: bool,
}

struct Rule {
    id: &'static str,
    what: &'static str,
    /// The path begins with the first group; a second one is a name.
    pattern: Regex,
}

struct Compiled {
    /// Of two that fit at one place, the first one tells.
    rules: Vec<Rule>,
    /// Addresses in the web, whose paths are their own affair.
    address: Regex,
    /// What is about addresses, or about places in a document.
    elsewhere: Regex,
    comment: Regex,
    end: Regex,
}

/// What may stand before a path; after anything else it is the rest of one.
const BEFORE: &str = r#"(?:^|[\s"'`=(\[,:;<>|@!]|-[ILo])"#;

static COMPILED: LazyLock<Option<Compiled>> = LazyLock::new(|| {
    let rule = |id, what, pattern: &str| {
        Regex::new(&format!("{BEFORE}({pattern})")).ok().map(|pattern| Rule { id, what, pattern })
    };
    let temporary = "a folder for temporary files";
    Some(Compiled {
        rules: vec![
            rule("temp-folder", temporary, r"(?i)[a-z]:[\\/]{1,2}(?:windows[\\/]{1,2})?te?mp\b")?,
            rule("home-folder", "the home folder of somebody", r"(?i)[a-z]:[\\/]{1,2}Users[\\/]{1,2}([a-z0-9_][\w.-]*)")?,
            rule("temp-folder", temporary, r"(?:file://)?(?:/private)?/(?:var/)?tmp/[\w.$%{*-]")?,
            rule("temp-folder", temporary, r"(?:file://)?(?:/private)?/var/folders/\w")?,
            rule("file-url", "an address of a file on one machine", r"file:///(?:[A-Za-z]:|[\w.-]+/)[\w./-]")?,
            rule("home-folder", "the home folder of somebody", r"(?:/export)?/(?:home|Users)/([A-Za-z0-9_][\w.-]*)")?,
            rule("home-folder", "the home folder of root", r"/root/[\w.]")?,
            rule("home-folder", "the home folder of somebody", r"(?:/mnt)?/[a-z]/Users/([A-Za-z0-9_][\w.-]*)")?,
            rule("windows-drive", "a drive of Windows", r"/mnt/[a-z]/\w")?,
            rule("windows-drive", "a drive of Windows", r"[A-Zc-e]:/\w")?,
            rule("windows-drive", "a drive of Windows", r"[A-Zc-e]:\\\\[\w.-]{2}")?,
            // After one backslash, some letters may mean a new line, a tab and so on.
            rule("windows-drive", "a drive of Windows", r"[A-Zc-e]:\\[A-Zc-eg-moqyz1-9_][\w.-]")?,
            rule("windows-drive", "a drive of Windows", r"[C-Ec-e]:\\[\w-]{2,}[\\.]\w")?,
            rule("network-share", "a share of one network", r"\\\\([A-Za-z0-9][\w.$-]+)\\[\w$][\w$.-]+")?,
            rule("network-share", "a share of one network", r"\\{4}([A-Za-z0-9][\w.$-]+)\\{2}[\w$][\w$.-]+")?,
        ],
        address: Regex::new(r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>`]*"#).ok()?,
        elsewhere: Regex::new(
            r"(?x) \b(?i:href|routes?|router|routerlink|navigate|redirect\w*|pathname|fetch|axios|urls?|xpath|findall)\b
              | \bselect\w*Nodes?\b | <Route | \b(?:app|api|client|http|requests)\.(?:get|post|put|patch|delete|use)\(
              | @(?:Get|Post|Put|Patch|Delete|Request)Mapping | \b(?:GET|POST|PUT|PATCH|DELETE|HEAD)\s+/ | [Ll]ocation: | \bto=",
        )
        .ok()?,
        comment: Regex::new(r"^\s*(?:#|//|/\*|\*|--|<!--|;|>|\||-\s|\d+\.\s)").ok()?,
        end: Regex::new(r#"[\s"'`<>|()\[\],;]"#).ok()?,
    })
});

/// The paths in one line.
pub fn in_line(line: &str, kind: FileKind) -> Vec<HardCoded> {
    let Some(compiled) = COMPILED.as_ref() else { return Vec::new() };
    let addresses: Vec<_> = compiled
        .address
        .find_iter(line)
        .filter(|address| !address.as_str().starts_with("file:"))
        .map(|address| address.range())
        .collect();
    let comment = kind == FileKind::Prose || compiled.comment.is_match(line);
    let mut found: Vec<HardCoded> = Vec::new();
    let mut seen: Vec<std::ops::Range<usize>> = Vec::new();
    for Rule { id, what, pattern } in &compiled.rules {
        for captures in pattern.captures_iter(line) {
            let Some(start) = captures.get(1).map(|path| path.start()) else { continue };
            let name = captures.get(2).map(|name| name.as_str());
            let before = addresses.partition_point(|address| address.start <= start);
            let in_address = before > 0 && addresses[before - 1].contains(&start);
            if in_address || seen.iter().any(|path| path.contains(&start)) {
                continue;
            }
            if seen.len() == MOST {
                break;
            }
            let end =
                compiled.end.find(&line[start..]).map_or(line.len(), |end| start + end.start());
            let path = &line[start..end];
            seen.push(start..end);
            let before = before_path(line, start);
            let fine = is_fine(compiled, before, path, name, comment);
            if !fine && !kind.has(id) {
                let shown = path.chars().take(SHOWN).collect();
                found.push(HardCoded { rule: id, what, found: shown, allowed: false });
            }
        }
    }
    let allowed = line.contains(ALLOWED);
    found.iter_mut().for_each(|path| path.allowed = allowed);
    found
}

/// What a statement says before a path, and the path's first sign.
fn before_path(line: &str, start: usize) -> &str {
    let end = line[start..].chars().next().map_or(start, |first| start + first.len_utf8());
    let said = &line[..end];
    let from = said.rfind([';', '#']).map_or(0, |at| at + 1);
    &said[from..]
}

/// Fine where it stands.
fn is_fine(
    compiled: &Compiled,
    before: &str,
    path: &str,
    name: Option<&str>,
    comment: bool,
) -> bool {
    const ANYBODY: [&str; 14] = [
        "user",
        "username",
        "you",
        "me",
        "name",
        "yourname",
        "your-name",
        "your_name",
        "youruser",
        "someone",
        "server",
        "host",
        "hostname",
        "computer",
    ];
    const EVERYWHERE: [&str; 8] = ["etc", "usr", "dev", "proc", "sys", "bin", "run", "path"];
    // Where Homebrew lives on Linux, on every machine.
    const HOMEBREW: &str = "/home/linuxbrew/";
    let anybody = name.is_some_and(|name| ANYBODY.contains(&name.to_lowercase().as_str()));
    let in_the_web = path.starts_with('/') && compiled.elsewhere.is_match(before);
    let everywhere = path
        .strip_prefix("file:///")
        .and_then(|path| path.split('/').next())
        .is_some_and(|first| EVERYWHERE.contains(&first));
    comment && anybody || in_the_web || everywhere || path.starts_with(HOMEBREW)
}

/// Whether a file is a test, by where it lies and what it is called.
fn is_test_path(path: &str) -> bool {
    const FOLDERS: [&str; 13] = [
        "test",
        "tests",
        "__tests__",
        "spec",
        "specs",
        "testdata",
        "test_data",
        "test-data",
        "fixtures",
        "__fixtures__",
        "__mocks__",
        "e2e",
        "testing",
    ];
    let mut parts = path.split(['/', '\\']).rev();
    let file = parts.next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let middle = file.split('.').skip(1).any(|part| matches!(part, "test" | "spec" | "tests"));
    parts.any(|folder| FOLDERS.contains(&folder.to_lowercase().as_str()))
        || (middle && file.matches('.').count() > 1)
        || matches!(stem, "conftest" | "test" | "tests")
        || stem.starts_with("test_")
        || ["_test", "_tests", "_spec", "Test", "Tests", "Spec"]
            .iter()
            .any(|end| stem.ends_with(end))
}

#[cfg(test)]
mod tests;

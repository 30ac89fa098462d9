//! Rules for the crates: dependencies as listed in `ARCHITECTURE.md`, and no access to the environment in libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::root;

/// Direct normal dependencies between the crates, by folder name, from `cargo metadata`.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let folder = |manifest: &Path| {
        let folder = manifest.parent()?.strip_prefix(root().join("crates")).ok()?;
        Some(folder.to_str().unwrap().to_owned())
    };
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let Some(name) = folder(Path::new(package["manifest_path"].as_str().unwrap())) else {
            continue;
        };
        let normal = package["dependencies"].as_array().unwrap().iter();
        let ours = normal.filter(|one| one["kind"].is_null()).filter_map(|one| {
            let path = Path::new(one["path"].as_str()?);
            folder(&path.join("Cargo.toml"))
        });
        crates.insert(name, ours.collect());
    }
    crates
}

/// Rows of the table of crates, in order: name and direct dependencies.
fn table(text: &str) -> Result<Vec<(String, BTreeSet<String>)>, String> {
    let name = |cell: &str| -> Option<String> {
        let name = cell.strip_prefix('`')?.strip_suffix('`')?;
        let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
        valid.then(|| name.to_owned())
    };
    let mut lines = text.lines().skip_while(|line| *line != "| crate | owns | may use |").skip(2);
    let mut rows: Vec<(String, BTreeSet<String>)> = Vec::new();
    for line in lines.by_ref().take_while(|line| line.starts_with('|')) {
        let invalid = |why: &str| format!("invalid row ({why}): {line}");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", folder, owns, uses, ""] = cells[..] else { return Err(invalid("three cells")) };
        let folder = folder.strip_prefix("`crates/").map(|name| format!("`{name}"));
        let folder = folder.and_then(|folder| name(&folder)).ok_or_else(|| invalid("name"))?;
        if owns.is_empty() {
            return Err(invalid("nothing owned"));
        }
        let uses: BTreeSet<String> = match uses {
            "nothing" => BTreeSet::new(),
            names => names
                .split(", ")
                .map(name)
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("names in backticks, or `nothing`"))?,
        };
        if rows.iter().any(|(known, _)| *known == folder) {
            return Err(invalid("twice"));
        }
        rows.push((folder, uses));
    }
    if rows.is_empty() { Err("no table of crates".to_owned()) } else { Ok(rows) }
}

/// Differences between the table and the real dependencies, and dependencies on a crate that is not above.
fn complaints(
    rows: &[(String, BTreeSet<String>)],
    dependencies: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, uses) in dependencies {
        let Some((_, listed)) = rows.iter().find(|(row, _)| row == name) else {
            complaints.push(format!("`{name}` has no row"));
            continue;
        };
        let missing =
            uses.difference(listed).map(|one| format!("`{name}` uses `{one}`: not in its row"));
        let unused = listed.difference(uses).map(|one| format!("`{name}` does not use `{one}`"));
        complaints.extend(missing.chain(unused));
    }
    for (index, (name, uses)) in rows.iter().enumerate() {
        if !dependencies.contains_key(name) {
            complaints.push(format!("there is no crate `{name}`"));
        }
        // Each crate is listed below every crate that it uses, so no cycle is possible.
        let above = |one: &&String| rows[..index].iter().any(|(row, _)| row == *one);
        let upwards = uses.iter().filter(|one| !above(one));
        complaints
            .extend(upwards.map(|one| format!("`{name}` uses `{one}`, which is not above it")));
    }
    complaints
}

#[test]
fn crate_table_in_architecture_md_matches_cargo_metadata() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = table(&text).unwrap();
    let complaints = complaints(&rows, &dependencies());
    assert!(complaints.is_empty(), "ARCHITECTURE.md:\n{}", complaints.join("\n"));
}

#[test]
fn wrong_or_malformed_crate_table_is_rejected() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let dependencies: BTreeMap<String, BTreeSet<String>> =
        BTreeMap::from([("a".to_owned(), set(&[])), ("b".to_owned(), set(&["a"]))]);
    let checked = |rows: &str| {
        let text = format!("| crate | owns | may use |\n|---|---|---|\n{rows}\n\nText.\n");
        table(&text).map(|rows| complaints(&rows, &dependencies))
    };
    let a = "| `crates/a` | things | nothing |";
    assert_eq!(checked(&format!("{a}\n| `crates/b` | more | `a` |")), Ok(vec![]));
    for (rows, expected) in [
        (format!("{a}\n| `crates/b` | more | nothing |"), "`b` uses `a`: not in its row"),
        (
            "| `crates/a` | things | `b` |\n| `crates/b` | more | `a` |".to_owned(),
            "`a` does not use `b`",
        ),
        (format!("| `crates/b` | more | `a` |\n{a}"), "`b` uses `a`, which is not above it"),
        (a.to_owned(), "`b` has no row"),
        (
            format!("{a}\n| `crates/b` | more | `a` |\n| `crates/c` | x | nothing |"),
            "there is no crate `c`",
        ),
    ] {
        assert!(checked(&rows).unwrap().contains(&expected.to_owned()), "{rows}");
    }
    for invalid in [
        "| `crates/a` | things | all |",
        "| `crates/a` | things | `b` and what it uses |",
        "| `crates/a` | things | `b`,`c` |",
        "| `crates/a` | things |  |",
        "| crates/a | things | nothing |",
        "| `a` | things | nothing |",
        "| `crates/a` | | nothing |",
        "| `crates/a` | things | nothing | more |",
        &format!("{a}\n{a}"),
        "",
    ] {
        assert!(checked(invalid).is_err(), "{invalid}");
    }
}

/// Crates that may read the environment, each with its reason.
const EXEMPT_CRATES: [(&str, &str); 3] = [
    ("cli", "the command line: it reads the environment and passes it on"),
    ("embed", "called by build scripts, which Cargo configures with variables"),
    ("testkit", "for tests alone"),
];

/// Files that may read one thing of their process: file, name and reason.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    (
        "guest/src/main.rs",
        "args",
        "the program inside a sandbox has no other way to learn its role",
    ),
    ("negotiator/src/main.rs", "args_os", "the program inside a sandbox gets the path of its job"),
    (
        "sandbox/src/jail/keeper.rs",
        "current_exe",
        "an AppArmor profile names the program it is for",
    ),
];

/// Items of `std::env` that read nothing of the process.
const HARMLESS: [&str; 3] = ["split_paths", "join_paths", "consts"];

/// Other functions and crates that read the environment, the current folder or the home folder.
const OTHER_WAYS: [&str; 5] = ["home_dir", "etcetera::", "getenv(", "getcwd(", "dotenv"];

/// Names by which a line of code reads the environment, the arguments or a folder of the process.
fn reads(line: &str) -> Vec<String> {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found: Vec<String> = code
        .match_indices("env::")
        .filter(|(at, _)| !code[..*at].ends_with(is_name))
        .map(|(at, matched)| {
            let rest = &code[at + matched.len()..];
            // The name of an import list is its brace.
            rest.chars().take_while(|c| is_name(*c) || *c == '{').collect::<String>()
        })
        .filter(|name| !HARMLESS.contains(&name.as_str()))
        .collect();
    found.extend(OTHER_WAYS.into_iter().filter(|way| code.contains(way)).map(str::to_owned));
    found
}

/// The numbered lines of a formatted file outside of its tests, and the names of its test modules in other files.
fn without_tests(text: &str) -> (Vec<(usize, &str)>, Vec<String>) {
    let (mut lines, mut modules) = (Vec::new(), Vec::new());
    let mut rest = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = rest.next() {
        if line.trim() != "#[cfg(test)]" {
            lines.push((number, line));
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        // The item ends at its own indentation.
        for (_, line) in rest.by_ref() {
            let Some(item) = line.strip_prefix(indent) else { continue };
            if let Some(name) = item.strip_prefix("mod ").and_then(|name| name.strip_suffix(';')) {
                modules.push(name.to_owned());
            }
            let is_last = !item.starts_with([' ', '#', '/']) && item.ends_with(['}', ';']);
            if is_last && (!item.ends_with('}') || item.starts_with('}') || item.contains('{')) {
                break;
            }
        }
    }
    (lines, modules)
}

/// Collects all Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn libraries_read_no_environment() {
    let crates = root().join("crates");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let exempt = EXEMPT_CRATES.iter().any(|(exempt, _)| name == *exempt);
        if !exempt && entry.path().join("src").is_dir() {
            sources(&entry.path().join("src"), &mut files);
        }
    }
    assert!(files.len() > 100, "{files:?}");
    let texts: Vec<(PathBuf, String)> =
        files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    let mut tests = BTreeSet::new();
    for (path, text) in &texts {
        // Modules of `a/mod.rs` and `a/lib.rs` are in `a`, those of `a/b.rs` in `a/b`.
        let folder = match path.file_stem().unwrap().to_str().unwrap() {
            "mod" | "lib" | "main" => path.parent().unwrap().to_owned(),
            _ => path.with_extension(""),
        };
        for module in without_tests(text).1 {
            tests.extend([folder.join(format!("{module}.rs")), folder.join(module).join("mod.rs")]);
        }
    }
    let mut used = BTreeSet::new();
    let mut complaints = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| !tests.contains(path)) {
        let path = path.strip_prefix(&crates).unwrap().to_str().unwrap();
        for (number, line) in without_tests(text).0 {
            for name in reads(line) {
                if EXCEPTIONS.iter().any(|(file, one, _)| *file == path && *one == name) {
                    used.insert((path.to_owned(), name));
                } else {
                    complaints.push(format!("crates/{path}:{number}: `{name}`: {}", line.trim()));
                }
            }
        }
    }
    assert!(
        complaints.is_empty(),
        "libraries read no environment, arguments or home folder; the caller passes what they need:\n{}",
        complaints.join("\n")
    );
    assert_eq!(used.len(), EXCEPTIONS.len(), "an exception is no longer needed; used: {used:?}");
}

#[test]
fn environment_reads_are_detected() {
    for line in [
        "let home = std::env::var_os(\"HOME\");",
        "let home = env::var(\"HOME\");",
        "for (name, value) in std::env::vars() {",
        "use std::env::{self, var};",
        "use std::env::var;",
        "let folder = std::env::current_dir();",
        "let folder = env::temp_dir();",
        "let folder = std::env::home_dir();",
        "let all = std::env::args();",
        "let folder = etcetera::home_dir();",
    ] {
        assert!(!reads(line).is_empty(), "{line}");
    }
    for line in [
        "let version = env!(\"CARGO_PKG_VERSION\");",
        "let folders = std::env::split_paths(&search);",
        "// As `std::env::var` has it.",
        "command.env(\"HOME\", home).current_dir(folder);",
        "environment_env::take();",
    ] {
        assert!(reads(line).is_empty(), "{line}");
    }
    let text = "mod a;\n#[cfg(test)]\nmod corpus;\n\n#[cfg(test)]\nimpl A {\n    fn f() {\n        env::var();\n    }\n}\n\
                fn g() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\nfn h() {}\n";
    let (lines, modules) = without_tests(text);
    assert_eq!(lines, [(1, "mod a;"), (4, ""), (11, "fn g() {}"), (16, "fn h() {}")]);
    assert_eq!(modules, ["corpus"]);
}

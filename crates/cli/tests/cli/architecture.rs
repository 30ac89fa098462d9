//! Checks of the crates: their dependencies match the table in `ARCHITECTURE.md`, and library crates do not read the
//! environment of the process.

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

/// Parses the table of crates in `ARCHITECTURE.md`. Returns its rows in order: name and direct dependencies of a crate.
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
        let ["", folder, owns, uses, ""] = cells[..] else {
            return Err(invalid("expected three cells"));
        };
        let folder = folder.strip_prefix("`crates/").map(|name| format!("`{name}"));
        let folder = folder
            .and_then(|folder| name(&folder))
            .ok_or_else(|| invalid("expected `crates/NAME`"))?;
        if owns.is_empty() {
            return Err(invalid("the cell `owns` is empty"));
        }
        let uses: BTreeSet<String> = match uses {
            "nothing" => BTreeSet::new(),
            names => names
                .split(", ")
                .map(name)
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("expected names in backticks, or `nothing`"))?,
        };
        if rows.iter().any(|(known, _)| *known == folder) {
            return Err(invalid("second row of this crate"));
        }
        rows.push((folder, uses));
    }
    if rows.is_empty() { Err("found no table of crates".to_owned()) } else { Ok(rows) }
}

/// Messages about errors in the table: a row differs from the real dependencies of its crate, or the table lists a
/// crate above one of its dependencies.
fn table_errors(
    rows: &[(String, BTreeSet<String>)],
    dependencies: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, uses) in dependencies {
        let Some((_, listed)) = rows.iter().find(|(row, _)| row == name) else {
            complaints.push(format!("`{name}` has no row in the table"));
            continue;
        };
        let missing = uses
            .difference(listed)
            .map(|one| format!("`{name}` uses `{one}`, but its row does not list `{one}`"));
        let unused = listed
            .difference(uses)
            .map(|one| format!("`{name}` does not use `{one}`, but its row lists `{one}`"));
        complaints.extend(missing.chain(unused));
    }
    for (index, (name, uses)) in rows.iter().enumerate() {
        if !dependencies.contains_key(name) {
            complaints.push(format!("the table lists `{name}`, but there is no such crate"));
        }
        // The table lists each crate below every crate that it uses, so dependency cycles are impossible.
        let above = |one: &&String| rows[..index].iter().any(|(row, _)| row == *one);
        let upwards = uses.iter().filter(|one| !above(one));
        complaints.extend(
            upwards.map(|one| format!("`{name}` uses `{one}`, whose row is not above its own row")),
        );
    }
    complaints
}

#[test]
fn crate_table_in_architecture_md_matches_cargo_metadata() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = table(&text).unwrap();
    let complaints = table_errors(&rows, &dependencies());
    assert!(complaints.is_empty(), "ARCHITECTURE.md:\n{}", complaints.join("\n"));
}

#[test]
fn wrong_or_malformed_crate_table_is_rejected() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let dependencies: BTreeMap<String, BTreeSet<String>> =
        BTreeMap::from([("a".to_owned(), set(&[])), ("b".to_owned(), set(&["a"]))]);
    let checked = |rows: &str| {
        let text = format!("| crate | owns | may use |\n|---|---|---|\n{rows}\n\nText.\n");
        table(&text).map(|rows| table_errors(&rows, &dependencies))
    };
    let a = "| `crates/a` | things | nothing |";
    assert_eq!(checked(&format!("{a}\n| `crates/b` | more | `a` |")), Ok(vec![]));
    for (rows, expected) in [
        (
            format!("{a}\n| `crates/b` | more | nothing |"),
            "`b` uses `a`, but its row does not list `a`",
        ),
        (
            "| `crates/a` | things | `b` |\n| `crates/b` | more | `a` |".to_owned(),
            "`a` does not use `b`, but its row lists `b`",
        ),
        (
            format!("| `crates/b` | more | `a` |\n{a}"),
            "`b` uses `a`, whose row is not above its own row",
        ),
        (a.to_owned(), "`b` has no row in the table"),
        (
            format!("{a}\n| `crates/b` | more | `a` |\n| `crates/c` | x | nothing |"),
            "the table lists `c`, but there is no such crate",
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

/// Crates that are allowed to read the environment of the process, each with the reason.
const EXEMPT_CRATES: [(&str, &str); 3] = [
    ("cli", "the program reads the environment and passes the values to the libraries"),
    ("embed", "build scripts call this crate, and Cargo configures them with variables"),
    ("testkit", "only tests use this crate"),
];

/// Files that are allowed to use one item of `std::env`: source file, name of the item, and reason.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    ("guest/src/main.rs", "args", "the guest agent gets its role as a command-line argument"),
    (
        "negotiator/src/main.rs",
        "args_os",
        "the negotiator, which runs inside a sandbox, gets the path of its job as an argument",
    ),
    (
        "sandbox/src/jail/supervisor.rs",
        "current_exe",
        "the suggested AppArmor profile contains the path of the running program",
    ),
];

/// Items of `std::env` that every crate is allowed to use, because they do not read the state of the process.
const HARMLESS: [&str; 3] = ["split_paths", "join_paths", "consts"];

/// Functions and crates outside of `std::env` that read the environment, the current folder or the home folder.
const OTHER_WAYS: [&str; 5] = ["home_dir", "etcetera::", "getenv(", "getcwd(", "dotenv"];

/// Names of the functions with which a line of code reads the environment, the arguments or a folder of the process.
fn environment_reads(line: &str) -> Vec<String> {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found: Vec<String> = code
        .match_indices("env::")
        .filter(|(at, _)| !code[..*at].ends_with(is_name))
        .map(|(at, matched)| {
            let rest = &code[at + matched.len()..];
            // For an import list such as `env::{self, var}`, the brace is returned as the name.
            rest.chars().take_while(|c| is_name(*c) || *c == '{').collect::<String>()
        })
        .filter(|name| !HARMLESS.contains(&name.as_str()))
        .collect();
    found.extend(OTHER_WAYS.into_iter().filter(|way| code.contains(way)).map(str::to_owned));
    found
}

/// Removes the test code from the text of a source file, which must be formatted with rustfmt. Returns the numbered
/// lines outside of `#[cfg(test)]` items, and the names of `#[cfg(test)]` modules whose code is in other files.
fn without_tests(text: &str) -> (Vec<(usize, &str)>, Vec<String>) {
    let (mut lines, mut modules) = (Vec::new(), Vec::new());
    let mut rest = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = rest.next() {
        if line.trim() != "#[cfg(test)]" {
            lines.push((number, line));
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        // The `#[cfg(test)]` item ends at a closing line with the same indentation as the attribute.
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
fn library_crates_do_not_read_the_process_environment() {
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
        // Submodules of `a/mod.rs` and `a/lib.rs` are files in `a`; submodules of `a/b.rs` are files in `a/b`.
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
            for name in environment_reads(line) {
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
        "library crates must not read the environment, the arguments or the home folder; pass the values to them:\n{}",
        complaints.join("\n")
    );
    assert_eq!(
        used.len(),
        EXCEPTIONS.len(),
        "some entry of `EXCEPTIONS` is unneeded; used entries: {used:?}"
    );
}

#[test]
fn environment_access_is_detected_outside_of_test_code() {
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
        assert!(!environment_reads(line).is_empty(), "{line}");
    }
    for line in [
        "let version = env!(\"CARGO_PKG_VERSION\");",
        "let folders = std::env::split_paths(&search);",
        "// As `std::env::var` has it.",
        "command.env(\"HOME\", home).current_dir(folder);",
        "environment_env::take();",
    ] {
        assert!(environment_reads(line).is_empty(), "{line}");
    }
    let text = "mod a;\n#[cfg(test)]\nmod corpus;\n\n#[cfg(test)]\nimpl A {\n    fn f() {\n        env::var();\n    }\n}\n\
                fn g() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\nfn h() {}\n";
    let (lines, modules) = without_tests(text);
    assert_eq!(lines, [(1, "mod a;"), (4, ""), (11, "fn g() {}"), (16, "fn h() {}")]);
    assert_eq!(modules, ["corpus"]);
}

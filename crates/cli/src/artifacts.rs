//! Files into a sandbox and out of it. What comes out is hostile: names, kinds, sizes, numbers.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use assize_sandbox::{Entry, EntryKind, Sandbox};

use crate::failure::{Failure, FailureKind};

/// The most files that are taken out at once, and the deepest folder.
const MOST_FILES: usize = 1000;
const DEEPEST: usize = 16;

/// What was taken out, and what was left and why.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) files: Vec<(String, u64)>,
    pub(crate) left: Vec<String>,
}

/// Takes the plain files of a folder in the sandbox into a folder here. `except` are left, by their
/// names below it.
pub(crate) async fn take(
    sandbox: &Sandbox,
    from: &str,
    to: &Path,
    except: &BTreeSet<String>,
) -> Result<Taken, Failure> {
    let mut taken = Taken::default();
    let most = sandbox.spec().limits.disk;
    let mut left = most;
    let mut folders = vec![String::new()];
    while let Some(below) = folders.pop() {
        for entry in sandbox.list(&join(from, &below)).await? {
            let name = join(&below, &entry.name).trim_start_matches('/').to_owned();
            if except.contains(&name) {
                continue;
            }
            match verdict(&entry, &name, left, taken.files.len()) {
                Err(why) => taken.left.push(format!("`{name}` was left: {why}")),
                Ok(()) if entry.kind == EntryKind::Folder => folders.push(name),
                Ok(()) => {
                    let bytes = sandbox.read(&join(from, &name), left).await?;
                    left -= bytes.len() as u64;
                    write(&to.join(&name), &bytes)?;
                    taken.files.push((name, bytes.len() as u64));
                }
            }
        }
    }
    taken.files.sort();
    Ok(taken)
}

fn join(folder: &str, name: &str) -> String {
    if name.is_empty() { folder.to_owned() } else { format!("{folder}/{name}") }
}

/// Whether something may be taken, and why not.
fn verdict(entry: &Entry, name: &str, left: u64, count: usize) -> Result<(), String> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let sound = !entry.name.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
    if !plain || !sound || entry.name.contains(['/', '\\']) {
        return Err("its name is not sound".to_owned());
    }
    match entry.kind {
        EntryKind::Folder if name.matches('/').count() >= DEEPEST => {
            Err("it is in too many folders".to_owned())
        }
        EntryKind::Folder => Ok(()),
        EntryKind::File if count >= MOST_FILES => Err(format!("{MOST_FILES} files are enough")),
        EntryKind::File if entry.size > left => Err("it is too large".to_owned()),
        EntryKind::File => Ok(()),
        EntryKind::Link => Err("it is a link".to_owned()),
        EntryKind::Other => Err("it is no plain file".to_owned()),
    }
}

/// Writes a file, through no link.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    const NO_LINK: i32 = 0o400_000;
    let failed = |error: std::io::Error| {
        Failure::new(
            FailureKind::Environment,
            format!("cannot write `{}`: {error}", path.display()),
        )
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(NO_LINK)
        .open(path)
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)
}

/// Reads a file to be given to a sandbox, of at most so many bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let refused = |why: String| {
        Failure::new(FailureKind::Usage, format!("cannot give `{}`: {why}", path.display()))
    };
    let metadata = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_file() {
        return Err(refused("it is not a regular file".to_owned()));
    }
    if metadata.len() > most {
        let why = format!("it has {} bytes, and the sandbox has room for {most}", metadata.len());
        return Err(refused(why).hint("allow more with `--disk`"));
    }
    std::fs::read(path).map_err(|error| refused(error.to_string()))
}

/// Puts a folder of this machine, or a file, into the sandbox.
pub(crate) async fn put(sandbox: &Sandbox, from: &Path, to: &str) -> Result<usize, Failure> {
    let mut count = 0;
    let mut left = sandbox.spec().limits.disk;
    let mut paths = vec![(from.to_owned(), to.to_owned())];
    while let Some((path, to)) = paths.pop() {
        if path.is_dir() {
            for (entry, name) in names_in(&path)? {
                paths.push((entry, join(&to, &name)));
            }
            continue;
        }
        let bytes = read(&path, left)?;
        left = left.saturating_sub(bytes.len() as u64);
        sandbox.write(&to, &bytes).await?;
        count += 1;
    }
    Ok(count)
}

fn names_in(folder: &Path) -> Result<Vec<(PathBuf, String)>, Failure> {
    let failed = |why: String| {
        Failure::new(FailureKind::Usage, format!("cannot read `{}`: {why}", folder.display()))
    };
    let entries = std::fs::read_dir(folder).map_err(|error| failed(error.to_string()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(error.to_string()))?;
        let name = entry.file_name().into_string();
        let name = name.map_err(|_| failed("it has a name that is not text".to_owned()))?;
        names.push((entry.path(), name));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sound_plain_files_are_taken() {
        let entry = |name: &str, kind| Entry { name: name.to_owned(), kind, size: 10, mode: 0o644 };
        let check = |name: &str, kind| verdict(&entry(name, kind), name, 100, 0);
        assert!(check("plot.png", EntryKind::File).is_ok());
        for name in ["..", "a\\b", "a\nb", "\u{fffd}x", "\u{1b}[2J"] {
            assert!(check(name, EntryKind::File).is_err(), "{name:?}");
        }
        assert!(check("link", EntryKind::Link).is_err());
        assert!(verdict(&entry("big", EntryKind::File), "big", 9, 0).is_err());
        assert!(verdict(&entry("many", EntryKind::File), "many", 100, MOST_FILES).is_err());
        let deep = "a/".repeat(DEEPEST) + "b";
        assert!(verdict(&entry("b", EntryKind::Folder), &deep, 100, 0).is_err());
    }
}

//! Collects the files that a program created in a sandbox. Their names, kinds, sizes and number are untrusted.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use assize_protocol::{FolderEntry, FolderEntryKind};
use assize_types::text::is_invisible;

use crate::error::SandboxError;
use crate::sandbox::Sandbox;

/// Maximum number of collected files.
const MAX_FILES: usize = 1000;

/// Maximum nesting depth of the folders that are searched.
const MAX_DEPTH: usize = 16;

/// Maximum number of folders that are searched.
const MAX_FOLDERS: usize = 1000;

/// Folders that programs create in their home folder as a side effect. They are skipped without a message.
const IGNORED: [&str; 4] = [".cache", ".config", ".local", ".npm"];

/// Time limit for the collection of files from one sandbox.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of skipped files that are listed by name.
const MAX_SKIPPED_LISTED: usize = 100;

/// Files collected from a sandbox, and the files that were skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedFiles {
    /// Path and contents of each collected file. Paths are relative to the collected folder, without `..` or `\\`.
    pub files: Vec<(String, Vec<u8>)>,
    skipped: Vec<String>,
    /// Number of skipped files that are not listed by name.
    unlisted: usize,
}

impl From<Vec<(String, Vec<u8>)>> for CollectedFiles {
    fn from(files: Vec<(String, Vec<u8>)>) -> CollectedFiles {
        CollectedFiles { files, ..CollectedFiles::default() }
    }
}

impl CollectedFiles {
    /// Records that a file was skipped, and why.
    pub fn skip(&mut self, name: &str, why: impl std::fmt::Display) {
        if self.skipped.len() < MAX_SKIPPED_LISTED {
            // The name is untrusted and may contain terminal control codes.
            let line = format!("`{name}` was not copied: {why}");
            let line = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
            self.skipped.push(line.collect());
        } else {
            self.unlisted += 1;
        }
    }

    /// Returns one line for each skipped file, with the reason; at most 101 lines.
    pub fn skipped_messages(&self) -> Vec<String> {
        let more = (self.unlisted > 0)
            .then(|| format!("number of other files not copied: {}", self.unlisted));
        self.skipped.iter().cloned().chain(more).collect()
    }
}

impl Sandbox {
    /// Collects the regular files in a folder and its subfolders, except files and folders whose relative paths are in
    /// `except`. The total size of the collected files is at most the disk limit of the sandbox. Files that cannot be
    /// collected are skipped without an error.
    pub async fn collect_files(
        &self,
        from: &str,
        except: &BTreeSet<String>,
    ) -> Result<CollectedFiles, SandboxError> {
        let mut harvest = CollectedFiles::default();
        self.collect_files_into(&mut harvest, from, except, u64::MAX).await?;
        Ok(harvest)
    }

    /// Like [`Sandbox::collect_files`], but collects at most `bytes` bytes in total and never fails. If the sandbox
    /// ends during the collection, returns the files that were already read, and lists the folder as skipped, with the
    /// error.
    pub async fn collect_files_up_to(
        &self,
        from: &str,
        except: &BTreeSet<String>,
        bytes: u64,
    ) -> CollectedFiles {
        let mut harvest = CollectedFiles::default();
        if let Err(error) = self.collect_files_into(&mut harvest, from, except, bytes).await {
            harvest.skip(from, format!("cannot read the remaining files: {error}"));
        }
        harvest
    }

    async fn collect_files_into(
        &self,
        harvest: &mut CollectedFiles,
        from: &str,
        except: &BTreeSet<String>,
        bytes: u64,
    ) -> Result<(), SandboxError> {
        let mut room = self.spec().limits.disk.min(bytes);
        let mut folders = VecDeque::from([String::new()]);
        let begun = Instant::now();
        let mut seen = 0;
        while let Some(below) = folders.pop_front() {
            // A program that still runs could create folders without end.
            seen += 1;
            let reason = if seen > MAX_FOLDERS {
                Some("too many folders")
            } else if begun.elapsed() > TIMEOUT {
                Some("collecting the files took too long")
            } else {
                None
            };
            if let Some(reason) = reason {
                harvest.skip(&below, format!("{reason}; the remaining folders were skipped too"));
                break;
            }
            let entries = match self.list(&join(from, &below)).await {
                Ok(entries) => entries,
                Err(error) if error.cause().is_some() => {
                    harvest.skip(if below.is_empty() { from } else { &below }, error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for entry in entries {
                let name = join(&below, &entry.name).trim_start_matches('/').to_owned();
                if except.contains(&name) || below.is_empty() && IGNORED.contains(&&*entry.name) {
                    continue;
                }
                match check(&entry, &name, room, harvest.files.len()) {
                    Err(why) => harvest.skip(&name, why),
                    Ok(()) if entry.kind == FolderEntryKind::Folder => folders.push_back(name),
                    Ok(()) => match self.read(&join(from, &name), room).await {
                        Ok(bytes) => {
                            room -= bytes.len() as u64;
                            harvest.files.push((name, bytes));
                        }
                        Err(error) if error.cause().is_some() => harvest.skip(&name, error),
                        Err(error) => return Err(error),
                    },
                }
            }
        }
        harvest.files.sort();
        Ok(())
    }
}

fn join(folder: &str, name: &str) -> String {
    if name.is_empty() { folder.to_owned() } else { format!("{folder}/{name}") }
}

/// Checks whether a folder entry is allowed to be collected. The error is the reason why the entry is skipped.
fn check(entry: &FolderEntry, name: &str, room: u64, count: usize) -> Result<(), String> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if entry.name.starts_with('.') {
        // Hidden files may configure shells, editors or version control, and would take effect unnoticed.
        return Err("the name begins with a dot".to_owned());
    }
    let visible = |c: char| !c.is_control() && !is_invisible(c) && c != char::REPLACEMENT_CHARACTER;
    // A shell or a program could interpret a name with these characters as an option, a home folder or a path.
    let ambiguous = entry.name.starts_with(['-', '~']) || entry.name.contains(['/', '\\']);
    if !plain || ambiguous || !entry.name.chars().all(visible) {
        return Err("the name contains unsafe characters".to_owned());
    }
    match entry.kind {
        FolderEntryKind::Folder if name.matches('/').count() >= MAX_DEPTH => {
            Err("the folder is nested too deeply".to_owned())
        }
        FolderEntryKind::Folder => Ok(()),
        FolderEntryKind::File if count >= MAX_FILES => {
            Err(format!("at most {MAX_FILES} files are copied"))
        }
        FolderEntryKind::File if entry.size > room => {
            Err("the total size of copied files would exceed the limit".to_owned())
        }
        FolderEntryKind::File => Ok(()),
        FolderEntryKind::Link => Err("symbolic links are not copied".to_owned()),
        FolderEntryKind::Other => Err("only regular files are copied".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_with_safe_names_are_collected() {
        let entry =
            |name: &str, kind| FolderEntry { name: name.to_owned(), kind, size: 10, mode: 0o644 };
        let checked = |name: &str, kind| check(&entry(name, kind), name, 100, 0);
        assert!(checked("plot.png", FolderEntryKind::File).is_ok());
        let wrong =
            ["..", ".bashrc", "a\\b", "a\nb", "\u{fffd}x", "\u{1b}[2J", "-rf", "~", "a\u{202e}b"];
        let invisible =
            ["plot\u{200b}.png", "\u{feff}plot.png", "plo\u{ad}t.png", "plot\u{e0041}.png"];
        for name in wrong.into_iter().chain(invisible) {
            assert!(checked(name, FolderEntryKind::File).is_err(), "{name:?}");
        }
        assert!(checked("link", FolderEntryKind::Link).is_err());
        assert!(check(&entry("big", FolderEntryKind::File), "big", 9, 0).is_err());
        assert!(check(&entry("many", FolderEntryKind::File), "many", 100, MAX_FILES).is_err());
        let deep = "a/".repeat(MAX_DEPTH) + "b";
        assert!(check(&entry("b", FolderEntryKind::Folder), &deep, 100, 0).is_err());
    }
}

//! Files that code left in a sandbox, to be taken out. They are hostile: names, kinds, sizes, numbers.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Component, Path};
use std::time::{Duration, Instant};

use assize_protocol::{Entry, EntryKind};
use assize_types::text::is_invisible;

use crate::error::SandboxError;
use crate::sandbox::Sandbox;

/// The most files that are taken out at once, and the deepest folder.
const MOST_FILES: usize = 1000;
const DEEPEST: usize = 16;
const MOST_FOLDERS: usize = 1000;

/// What programs leave in their home without a thought, and nobody wants.
const IGNORED: [&str; 4] = [".cache", ".config", ".local", ".npm"];

/// How long it may take to look for them.
const LONGEST: Duration = Duration::from_secs(30);

/// The most that is told of what was left.
const MOST_LEFT: usize = 100;

/// What was taken out of a sandbox, and what was left in it and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Harvest {
    /// By their names below the folder that was asked for: plain, relative, without `..` or `\\`.
    pub files: Vec<(String, Vec<u8>)>,
    left: Vec<String>,
    /// What was left besides, and is not told one by one.
    more: usize,
}

impl From<Vec<(String, Vec<u8>)>> for Harvest {
    fn from(files: Vec<(String, Vec<u8>)>) -> Harvest {
        Harvest { files, ..Harvest::default() }
    }
}

impl Harvest {
    /// Notes that something was left.
    pub fn leave(&mut self, name: &str, why: impl std::fmt::Display) {
        if self.left.len() < MOST_LEFT {
            // A name is no message of ours.
            let line = format!("`{name}` was not taken: {why}");
            let line = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
            self.left.push(line.collect());
        } else {
            self.more += 1;
        }
    }

    /// What was left and why, in a bounded number of lines.
    pub fn left(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("{} more were not taken", self.more));
        self.left.iter().cloned().chain(more).collect()
    }
}

impl Sandbox {
    /// Takes the plain files of a folder, but for those named in `except`, as much as its disk could
    /// hold. What cannot be taken is left: it says nothing about the code.
    pub async fn harvest(
        &self,
        from: &str,
        except: &BTreeSet<String>,
    ) -> Result<Harvest, SandboxError> {
        let mut harvest = Harvest::default();
        self.harvest_into(&mut harvest, from, except, u64::MAX).await?;
        Ok(harvest)
    }

    /// Takes files as [`Sandbox::harvest`] does, at most so many bytes of them. When the sandbox is gone, the files
    /// that were read before are kept, and a line says why the others were not taken.
    pub async fn harvest_at_most(
        &self,
        from: &str,
        except: &BTreeSet<String>,
        bytes: u64,
    ) -> Harvest {
        let mut harvest = Harvest::default();
        if let Err(error) = self.harvest_into(&mut harvest, from, except, bytes).await {
            harvest.leave(from, format!("its files cannot be read: {error}"));
        }
        harvest
    }

    async fn harvest_into(
        &self,
        harvest: &mut Harvest,
        from: &str,
        except: &BTreeSet<String>,
        bytes: u64,
    ) -> Result<(), SandboxError> {
        let mut room = self.spec().limits.disk.min(bytes);
        let mut folders = VecDeque::from([String::new()]);
        let begun = Instant::now();
        let mut seen = 0;
        while let Some(below) = folders.pop_front() {
            // What still runs in there could make folders for ever.
            seen += 1;
            if seen > MOST_FOLDERS || begun.elapsed() > LONGEST {
                harvest
                    .leave(&below, "there are too many folders, and others were not taken either");
                break;
            }
            let entries = match self.list(&join(from, &below)).await {
                Ok(entries) => entries,
                Err(error) if error.cause().is_some() => {
                    harvest.leave(&below, error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for entry in entries {
                let name = join(&below, &entry.name).trim_start_matches('/').to_owned();
                if except.contains(&name) || below.is_empty() && IGNORED.contains(&&*entry.name) {
                    continue;
                }
                match verdict(&entry, &name, room, harvest.files.len()) {
                    Err(why) => harvest.leave(&name, why),
                    Ok(()) if entry.kind == EntryKind::Folder => folders.push_back(name),
                    Ok(()) => match self.read(&join(from, &name), room).await {
                        Ok(bytes) => {
                            room -= bytes.len() as u64;
                            harvest.files.push((name, bytes));
                        }
                        Err(error) if error.cause().is_some() => harvest.leave(&name, error),
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

/// Whether something may be taken, and why not.
fn verdict(entry: &Entry, name: &str, left: u64, count: usize) -> Result<(), String> {
    let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if entry.name.starts_with('.') {
        // Settings of shells, editors and version control, which nobody looks at before they act.
        return Err("its name begins with a dot".to_owned());
    }
    let sound = |c: char| !c.is_control() && !is_invisible(c) && c != char::REPLACEMENT_CHARACTER;
    // A shell would take these for something else.
    let taken_for_other = entry.name.starts_with(['-', '~']) || entry.name.contains(['/', '\\']);
    if !plain || taken_for_other || !entry.name.chars().all(sound) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sound_plain_files_are_taken() {
        let entry = |name: &str, kind| Entry { name: name.to_owned(), kind, size: 10, mode: 0o644 };
        let check = |name: &str, kind| verdict(&entry(name, kind), name, 100, 0);
        assert!(check("plot.png", EntryKind::File).is_ok());
        let wrong =
            ["..", ".bashrc", "a\\b", "a\nb", "\u{fffd}x", "\u{1b}[2J", "-rf", "~", "a\u{202e}b"];
        let invisible =
            ["plot\u{200b}.png", "\u{feff}plot.png", "plo\u{ad}t.png", "plot\u{e0041}.png"];
        for name in wrong.into_iter().chain(invisible) {
            assert!(check(name, EntryKind::File).is_err(), "{name:?}");
        }
        assert!(check("link", EntryKind::Link).is_err());
        assert!(verdict(&entry("big", EntryKind::File), "big", 9, 0).is_err());
        assert!(verdict(&entry("many", EntryKind::File), "many", 100, MOST_FILES).is_err());
        let deep = "a/".repeat(DEEPEST) + "b";
        assert!(verdict(&entry("b", EntryKind::Folder), &deep, 100, 0).is_err());
    }
}

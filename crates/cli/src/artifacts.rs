//! Files into a sandbox and out of it. What comes out is hostile: names, kinds, sizes, numbers.

use std::collections::{BTreeSet, VecDeque};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use assize_sandbox::{Entry, EntryKind, Sandbox};
use assize_types::text::is_invisible;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::failure::{Failure, FailureKind};

/// The most files that are taken out at once, and the deepest folder.
const MOST_FILES: usize = 1000;
const DEEPEST: usize = 16;
const MOST_FOLDERS: usize = 1000;
/// The most that is told of what was left.
const MOST_LEFT: usize = 100;

/// How long it may take to look for them.
const LONGEST: Duration = Duration::from_secs(30);

/// What was taken out, and what was left and why.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) files: Vec<(String, u64)>,
    pub(crate) left: Vec<String>,
    /// What was left besides, and is not told one by one.
    more: usize,
}

impl Taken {
    fn leave(&mut self, name: &str, why: impl std::fmt::Display) {
        if self.left.len() < MOST_LEFT {
            // A name is no message of ours.
            let line = format!("`{name}` was left: {why}");
            let line = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
            self.left.push(line.collect());
        } else {
            self.more += 1;
        }
    }

    fn done(mut self) -> Taken {
        if self.more > 0 {
            self.left.push(format!("{} more were left", self.more));
        }
        self.files.sort();
        self
    }
}

/// Takes the plain files of a folder in the sandbox into a folder here. `except` are left, by their
/// names below it. Nothing that is here already is written over, and what cannot be taken is left: it
/// says nothing about the code.
pub(crate) async fn take(
    sandbox: &Sandbox,
    from: &str,
    to: &Path,
    except: &BTreeSet<String>,
) -> Result<Taken, Failure> {
    let mut taken = Taken::default();
    let target = Target::open(to)?;
    let mut left = sandbox.spec().limits.disk;
    let mut folders = VecDeque::from([String::new()]);
    let begun = Instant::now();
    let mut seen = 0;
    while let Some(below) = folders.pop_front() {
        // What still runs in there could make folders for ever.
        seen += 1;
        if seen > MOST_FOLDERS || begun.elapsed() > LONGEST {
            taken.leave(&below, "there are too many folders, and others were left as well");
            break;
        }
        let entries = match sandbox.list(&join(from, &below)).await {
            Ok(entries) => entries,
            Err(error) if error.cause().is_some() => {
                taken.leave(&below, error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let name = join(&below, &entry.name).trim_start_matches('/').to_owned();
            if except.contains(&name) {
                continue;
            }
            match verdict(&entry, &name, left, taken.files.len()) {
                Err(why) => taken.leave(&name, why),
                Ok(()) if entry.kind == EntryKind::Folder => folders.push_back(name),
                Ok(()) => match sandbox.read(&join(from, &name), left).await {
                    Ok(bytes) => match target.write(&name, &bytes) {
                        Ok(()) => {
                            left -= bytes.len() as u64;
                            taken.files.push((name, bytes.len() as u64));
                        }
                        Err(error) if is_in_the_way(&error) => {
                            taken.leave(&name, "something of that name is here already");
                        }
                        Err(error) => return Err(cannot_write(&to.join(&name), &error)),
                    },
                    Err(error) if error.cause().is_some() => {
                        taken.leave(&name, error);
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }
    Ok(taken.done())
}

/// Whether something is where a file would go, or its folder: it says nothing about the others.
fn is_in_the_way(error: &std::io::Error) -> bool {
    let link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    link || matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory)
}

/// A folder of this machine that files are written below, through no link and over nothing.
struct Target(OwnedFd);

impl Target {
    fn open(folder: &Path) -> Result<Target, Failure> {
        let failed = |error: std::io::Error| cannot_write(folder, &error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(folder, flags, Mode::empty())
            .map(Target)
            .map_err(|error| failed(error.into()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mut folder = self.0.try_clone()?;
        let mut parts = name.split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_some() {
                match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
                folder = rustix::fs::openat2(&folder, part, flags, Mode::empty(), beneath)?;
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                let file = rustix::fs::openat2(&folder, part, flags, mode, beneath)?;
                std::fs::File::from(file).write_all(bytes)?;
            }
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Environment, format!("cannot write `{}`: {error}", path.display()))
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

/// Writes a file that the user named, through no link.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| cannot_write(path, &error);
    let flags =
        OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644));
    let file = file.map_err(|error| failed(error.into()))?;
    std::fs::File::from(file).write_all(bytes).map_err(failed)
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
    fn nothing_is_written_over_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
        std::fs::create_dir_all(&outside).unwrap();
        let target = Target::open(&out).unwrap();
        target.write("a/b.txt", b"one").unwrap();
        assert_eq!(target.write("a/b.txt", b"two").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(out.join("a/b.txt")).unwrap(), b"one");
        std::os::unix::fs::symlink(&outside, out.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("planted"), out.join("file")).unwrap();
        assert!(target.write("link/planted", b"x").is_err());
        assert!(target.write("file", b"x").is_err());
        assert!(target.write("../outside/planted", b"x").is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }

    #[test]
    fn only_sound_plain_files_are_taken() {
        let entry = |name: &str, kind| Entry { name: name.to_owned(), kind, size: 10, mode: 0o644 };
        let check = |name: &str, kind| verdict(&entry(name, kind), name, 100, 0);
        assert!(check("plot.png", EntryKind::File).is_ok());
        let wrong =
            ["..", ".bashrc", "a\\b", "a\nb", "\u{fffd}x", "\u{1b}[2J", "-rf", "~", "a\u{202e}b"];
        for name in wrong {
            assert!(check(name, EntryKind::File).is_err(), "{name:?}");
        }
        assert!(check("link", EntryKind::Link).is_err());
        assert!(verdict(&entry("big", EntryKind::File), "big", 9, 0).is_err());
        assert!(verdict(&entry("many", EntryKind::File), "many", 100, MOST_FILES).is_err());
        let deep = "a/".repeat(DEEPEST) + "b";
        assert!(verdict(&entry("b", EntryKind::Folder), &deep, 100, 0).is_err());
    }
}

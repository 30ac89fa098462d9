//! Copies files of this machine into a sandbox.
//!
//! While a file is copied, another process may replace it by a pipe, a device, a symlink or a much larger file. So each
//! file is opened once, without blocking, and all checks use the open file descriptor. A relative path below the
//! current folder must not lead out of that folder, because a repository could contain a symlink to a secret file.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use assize_config::Environment;
use assize_sandbox::Sandbox;
use assize_types::{Failure, FailureKind};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Flags for opening a file that is copied. With `NONBLOCK`, opening a pipe without a writer does not block.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Maximum number of attempts to open a file while other processes rename files or folders.
const MAX_ATTEMPTS: usize = 100;

/// Converts a relative path to a path that stays below the current folder. Returns `None` if the path is absolute or
/// leads out of the current folder. Symlinks are not resolved.
pub(super) fn below_current_folder(path: &Path, current: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return None;
    }
    let (mut resolved, mut below) = (current.to_owned(), PathBuf::new());
    for part in path.components() {
        let was_outside = !resolved.starts_with(current);
        match part {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            part => resolved.push(part),
        }
        below.push(part);
        if was_outside && resolved == current {
            below = PathBuf::from(".");
        }
    }
    resolved.starts_with(current).then_some(below)
}

/// Opens a path that the user named. A relative path below the current folder must not lead out of that folder through
/// symlinks.
fn open(path: &Path, environment: &Environment) -> Result<OwnedFd, Failure> {
    let opened = match below_current_folder(path, &environment.working_folder) {
        Some(below) => open_beneath(CWD, &below),
        None => rustix::fs::open(path, OPEN, Mode::empty()),
    };
    opened.map_err(|error| match error {
        Errno::XDEV => refused(path, "a symlink leads out of the current folder".to_owned())
            .hint("to copy the target of the symlink, use the absolute path of the target"),
        error => refused(path, std::io::Error::from(error).to_string()),
    })
}

/// Opens a path below a folder. Fails if a symlink in the path leads out of the folder.
fn open_beneath(folder: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut opened = Err(Errno::AGAIN);
    for _ in 0..MAX_ATTEMPTS {
        opened = rustix::fs::openat2(folder.as_fd(), path, OPEN, Mode::empty(), beneath);
        if opened.as_ref().err() != Some(&Errno::AGAIN) {
            break;
        }
    }
    opened
}

fn refused(path: &Path, why: String) -> Failure {
    Failure::new(FailureKind::Usage, format!("cannot copy `{}`: {why}", path.display()))
}

/// Opens a file that the user named, for reading. Returns `None` if the path is not a regular file.
pub fn open_regular(path: &Path) -> std::io::Result<Option<File>> {
    let file = File::from(rustix::fs::open(path, OPEN, Mode::empty())?);
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Reads a file that is to be copied into a sandbox. Fails if the file has more than `max` bytes.
pub fn read(path: &Path, max: u64, environment: &Environment) -> Result<Vec<u8>, Failure> {
    read_opened(path, open(path, environment)?, max)
}

/// Reads an open file, which must be a regular file of at most `max` bytes.
fn read_opened(path: &Path, opened: OwnedFd, max: u64) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| refused(path, error.to_string());
    let too_large = |size: String| {
        let why = format!("the file has {size} bytes, but the sandbox has space for {max} bytes");
        refused(path, why).hint("raise the disk limit with `--disk`")
    };
    let file = File::from(opened);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(refused(path, "the path is not a regular file".to_owned()));
    }
    if metadata.len() > max {
        return Err(too_large(metadata.len().to_string()));
    }
    let mut bytes = Vec::new();
    // Check the size again: the file may have grown since the first check.
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(too_large(format!("more than {max}")));
    }
    Ok(bytes)
}

/// Result of copying files into a sandbox.
#[derive(Debug, Default)]
pub struct CopiedIn {
    /// Number of copied files.
    pub files: usize,
    /// Messages about files that were not copied into the sandbox, each with the reason.
    pub not_copied: Vec<String>,
}

/// Copies a file or a folder of this machine into the sandbox. A symlink in the folder is not copied if it is broken,
/// points to a folder, or leads out of the copied folder.
pub async fn copy_into_sandbox(
    sandbox: &Sandbox,
    from: &Path,
    to: &str,
    environment: &Environment,
) -> Result<CopiedIn, Failure> {
    let (mut put, mut space) = (CopiedIn::default(), sandbox.spec().limits.disk);
    let root = open(from, environment)?;
    if !is_folder(&root) {
        sandbox.write(to, &read_opened(from, root, space)?).await?;
        return Ok(CopiedIn { files: 1, ..put });
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for (name, is_link) in names_in(&root, from, &folder)? {
            let (below, shown) = (folder.join(&name), from.join(&folder).join(&name));
            let leave = |why: &str| format!("`{}` was not copied: {why}", shown.display());
            let opened = match open_beneath(&root, &below) {
                Ok(opened) => opened,
                Err(Errno::XDEV) => {
                    put.not_copied.push(leave("a symlink leads out of the copied folder"));
                    continue;
                }
                Err(error) if is_link => {
                    put.not_copied.push(leave(&std::io::Error::from(error).to_string()));
                    continue;
                }
                Err(error) => return Err(refused(&shown, std::io::Error::from(error).to_string())),
            };
            match is_folder(&opened) {
                true if is_link => put.not_copied.push(leave("the path is a symlink to a folder")),
                true => folders.push(below),
                false => {
                    let bytes = read_opened(&shown, opened, space)?;
                    space = space.saturating_sub(bytes.len() as u64);
                    sandbox.write(&format!("{to}/{}", below.display()), &bytes).await?;
                    put.files += 1;
                }
            }
        }
    }
    Ok(put)
}

fn is_folder(opened: &OwnedFd) -> bool {
    rustix::fs::fstat(opened).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// Returns the name of each entry of a folder below `root`, and whether the entry is a symlink.
fn names_in(root: &OwnedFd, from: &Path, folder: &Path) -> Result<Vec<(String, bool)>, Failure> {
    let shown = from.join(folder);
    let failed = |why: String| {
        Failure::new(FailureKind::Usage, format!("cannot read `{}`: {why}", shown.display()))
    };
    let errno = |error: Errno| failed(std::io::Error::from(error).to_string());
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let opened = open_beneath(root, here).map_err(errno)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(opened).map_err(errno)? {
        let entry = entry.map_err(errno)?;
        let name = entry.file_name().to_str();
        let name =
            name.map_err(|_| failed("the folder has a file name that is not UTF-8".to_owned()))?;
        if name != "." && name != ".." {
            names.push((name.to_owned(), entry.file_type() == FileType::Symlink));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn below_current_folder_accepts_only_relative_paths_that_stay_inside() {
        let current = std::env::current_dir().unwrap();
        let name = current.file_name().unwrap().to_str().unwrap();
        for (inside, below) in [
            ("results", "results"),
            ("./a/../b", "./a/../b"),
            (".", "."),
            (&format!("../{name}/results"), "./results"),
            (&format!("a/../../{name}/b/c"), "./b/c"),
        ] {
            let found = below_current_folder(Path::new(inside), &current);
            assert_eq!(found, Some(below.into()), "{inside}");
        }
        let absolute = current.join("results");
        for outside in ["..", "../elsewhere", "a/../../b", "/tmp", absolute.to_str().unwrap()] {
            assert_eq!(below_current_folder(Path::new(outside), &current), None, "{outside}");
        }
    }

    /// Sets a flag when dropped, so that the swapping thread ends even if an assertion fails.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Calls `reads` until it has returned true 5000 times and false 5000 times. Meanwhile another thread swaps the
    /// file at `path` with each of the files in `with` in turn.
    fn while_swapping(path: &Path, with: &[PathBuf], mut reads: impl FnMut() -> bool) {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for next in with.iter().cycle() {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, path, CWD, next, exchange).unwrap();
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let _stop = Stop(&done);
            let (mut read, mut refused) = (0, 0);
            while read < 5000 || refused < 5000 {
                *(if reads() { &mut read } else { &mut refused }) += 1;
            }
        });
    }

    #[test]
    fn reading_a_file_while_it_is_replaced_returns_its_content_or_fails() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("data"), "data").unwrap();
        std::fs::write(at("large"), [0; 64]).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        let environment = Environment::in_folder(folder.path(), Default::default());
        // This path takes a long time to resolve, so many swaps happen during one read.
        let slow = at(&format!("{}data", "./".repeat(1500)));
        while_swapping(&at("data"), &["large", "pipe", "endless"].map(at), || {
            match read(&slow, 16, &environment) {
                Ok(bytes) => assert_eq!(bytes, b"data"),
                Err(failure) => {
                    assert_eq!(failure.kind, FailureKind::Usage);
                    return false;
                }
            }
            true
        });
    }

    #[test]
    fn open_beneath_a_folder_that_is_swapped_with_a_symlink_never_opens_files_outside() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (path, text) in [("repo/in/file", "mine"), ("outside/file", "SECRET")] {
            std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            std::fs::write(at(path), text).unwrap();
        }
        std::os::unix::fs::symlink(at("outside"), at("repo/link")).unwrap();
        let root = rustix::fs::open(at("repo"), OFlags::DIRECTORY, Mode::empty()).unwrap();
        while_swapping(&at("repo/in"), &[at("repo/link")], || {
            match open_beneath(&root, Path::new("in/file")) {
                Ok(opened) => {
                    assert_eq!(read_opened(Path::new("file"), opened, 16).unwrap(), b"mine");
                }
                Err(error) => {
                    assert_eq!(error, Errno::XDEV);
                    return false;
                }
            }
            true
        });
    }
}

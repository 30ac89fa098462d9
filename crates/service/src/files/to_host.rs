//! Files that are copied out of a sandbox, into folders of this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use assize_config::Environment;
use assize_sandbox::{Harvest, Sandbox};
use assize_types::{Failure, FailureKind};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::from_host::below_current_folder;

/// What was taken out, and what was left and why.
#[derive(Debug, Default)]
pub struct Taken {
    pub files: Vec<(String, u64)>,
    pub left: Vec<String>,
    /// Those of them whose names are taken here.
    pub in_the_way: Vec<String>,
}

/// Takes the plain files of a folder in the sandbox into a folder here. `except` are left, by their
/// names below it.
pub async fn take(
    sandbox: &Sandbox,
    from: &str,
    to: &Path,
    except: &BTreeSet<String>,
    environment: &Environment,
) -> Result<Taken, Failure> {
    // Before the work, not after it.
    let target = Target::open(to, environment)?;
    target.fill(to, sandbox.harvest(from, except).await?)
}

/// Whether files can be put into a folder, which is made if need be.
pub fn check_folder(folder: &Path, environment: &Environment) -> Result<(), Failure> {
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        let message = format!("`{}` is not a folder", folder.display());
        return Err(Failure::new(FailureKind::Usage, message).hint("name another for `--out`"));
    }
    let target = Target::open(folder, environment)?;
    rustix::fs::accessat(&target.0, ".", rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS)
        .map_err(|error| cannot_write(folder, &error.into()))
}

/// Writes what was taken out of a sandbox into a folder here. Nothing that is here already is written
/// over.
pub fn keep(harvest: Harvest, to: &Path, environment: &Environment) -> Result<Taken, Failure> {
    Target::open(to, environment)?.fill(to, harvest)
}

/// Whether something is where a file would go, or its folder: it says nothing about the others.
fn is_in_the_way(error: &std::io::Error) -> bool {
    let link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    link || matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory)
}

fn symlink_refused(folder: &Path, link: &Path) -> Failure {
    let message = format!("`{}` goes through the symlink `{}`", folder.display(), link.display());
    Failure::new(FailureKind::Usage, message)
        .hint("name a folder without symlinks, or the absolute path of the one you mean")
}

/// How folders are opened.
const OPEN_FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// The mode of new folders, before the umask.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);

/// A folder of this machine that files are written below, through no link and over nothing.
struct Target(OwnedFd);

impl Target {
    /// Opens a folder, which is made if need be. A relative path below the current folder goes through no symlink: a
    /// repository could have planted one. Other paths are the user's own and may.
    fn open(folder: &Path, environment: &Environment) -> Result<Target, Failure> {
        if below_current_folder(folder, &environment.working_folder).is_some() {
            return Target::open_without_symlinks(rustix::fs::CWD, folder);
        }
        let failed = |error: std::io::Error| cannot_write(folder, &error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        rustix::fs::open(folder, OPEN_FOLDER, Mode::empty())
            .map(Target)
            .map_err(|error| failed(error.into()))
    }

    /// Opens a folder by a relative path, part by part; missing ones are made.
    fn open_without_symlinks(start: impl AsFd, folder: &Path) -> Result<Target, Failure> {
        let mut walked = PathBuf::new();
        let open = |at: BorrowedFd<'_>, part: &OsStr| {
            rustix::fs::openat2(at, part, OPEN_FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        };
        let opened = open(start.as_fd(), OsStr::new("."));
        let mut at = opened.map_err(|error| cannot_write(Path::new("."), &error.into()))?;
        for part in folder.components().map(Component::as_os_str) {
            walked.push(part);
            let opened = match open(at.as_fd(), part) {
                Err(Errno::NOENT) => match rustix::fs::mkdirat(&at, part, NEW_FOLDER) {
                    Ok(()) | Err(Errno::EXIST) => open(at.as_fd(), part),
                    Err(error) => Err(error),
                },
                opened => opened,
            };
            at = opened.map_err(|error| match error {
                Errno::LOOP => symlink_refused(folder, &walked),
                error => cannot_write(&walked, &error.into()),
            })?;
        }
        Ok(Target(at))
    }

    fn fill(&self, folder: &Path, mut harvest: Harvest) -> Result<Taken, Failure> {
        let mut taken = Taken::default();
        for (name, bytes) in std::mem::take(&mut harvest.files) {
            match self.write(&name, &bytes) {
                Ok(()) => taken.files.push((name, bytes.len() as u64)),
                Err(error) if is_in_the_way(&error) => {
                    harvest.leave(&name, "something of that name is here already");
                    taken.in_the_way.push(name);
                }
                Err(error) => return Err(cannot_write(&folder.join(&name), &error)),
            }
        }
        taken.left = harvest.left();
        Ok(taken)
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
                folder = rustix::fs::openat2(&folder, part, OPEN_FOLDER, Mode::empty(), beneath)?;
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                let file = rustix::fs::openat2(&folder, part, flags, mode, beneath)?;
                if let Err(error) = std::fs::File::from(file).write_all(bytes) {
                    // Half a file would be taken for a whole one.
                    let _ = rustix::fs::unlinkat(&folder, part, rustix::fs::AtFlags::empty());
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Environment, format!("cannot write `{}`: {error}", path.display()))
}

/// Writes a file that the user named, through no link.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| cannot_write(path, &error);
    let flags =
        OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644));
    let file = file.map_err(|error| failed(error.into()))?;
    std::fs::File::from(file).write_all(bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
        std::fs::create_dir_all(&outside).unwrap();
        let environment = Environment::in_folder(folder.path(), Default::default());
        let target = Target::open(&out, &environment).unwrap();
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
    fn relative_folder_is_opened_part_by_part_through_no_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let (work, outside) = (folder.path().join("work"), folder.path().join("outside"));
        std::fs::create_dir_all(work.join("sub")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", work.join("dangling")).unwrap();
        std::os::unix::fs::symlink("../../outside", work.join("sub/link")).unwrap();
        let start = std::fs::File::open(&work).unwrap();
        let open = |path: &str| Target::open_without_symlinks(&start, Path::new(path));
        for (path, link) in [
            ("link", "link"),
            ("./link", "./link"),
            ("link/deeper", "link"),
            ("link/../sub", "link"),
            ("sub/link/deeper", "sub/link"),
            ("dangling", "dangling"),
        ] {
            let refused = open(path).err().unwrap();
            assert_eq!(refused.kind, FailureKind::Usage, "{path}");
            let message = format!("`{path}` goes through the symlink `{link}`");
            assert_eq!(refused.message(), message);
        }
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        for path in ["sub", "new/deep/er", "sub/../new", "../work/sub", "."] {
            open(path).unwrap().write(&path.replace(['/', '.'], "_"), b"x").unwrap();
        }
        assert!(work.join("new/deep/er/new_deep_er").is_file());
        assert!(work.join("new/sub____new").is_file() && work.join("sub/sub").is_file());
    }
}

//! Copies files from a sandbox to folders of this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use assize_config::Environment;
use assize_sandbox::{CollectedFiles, Sandbox};
use assize_types::{Failure, FailureKind};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::from_host::below_current_folder;

/// Result of copying files from a sandbox to this machine.
#[derive(Debug, Default)]
pub struct CopiedOut {
    /// Names of the copied files with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// Messages about files that were not copied from the sandbox, each with the reason.
    pub not_copied: Vec<String>,
    /// Names of the files that were not copied, because files or folders with these names already exist in the target
    /// folder.
    pub in_the_way: Vec<String>,
}

/// Copies the regular files of a folder in the sandbox to a folder of this machine, except the files named in `except`.
pub async fn copy_from_sandbox(
    sandbox: &Sandbox,
    from: &str,
    to: &Path,
    except: &BTreeSet<String>,
    environment: &Environment,
) -> Result<CopiedOut, Failure> {
    // Open the target folder first, so that its errors are reported before the files are read.
    let target = Target::open(to, environment)?;
    target.fill(to, sandbox.collect_files(from, except).await?)
}

/// Checks that files can be written to a folder of this machine, and creates the folder if needed.
pub fn check_folder(folder: &Path, environment: &Environment) -> Result<(), Failure> {
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        let message = format!("cannot write files: `{}` is not a folder", folder.display());
        return Err(
            Failure::new(FailureKind::Usage, message).hint("choose another folder with `--out`")
        );
    }
    let target = Target::open(folder, environment)?;
    rustix::fs::accessat(&target.0, ".", rustix::fs::Access::WRITE_OK, rustix::fs::AtFlags::EACCESS)
        .map_err(|error| cannot_write(folder, &error.into()))
}

/// Writes files that were read from a sandbox to a folder of this machine, without overwriting existing files.
pub fn write_collected(
    harvest: CollectedFiles,
    to: &Path,
    environment: &Environment,
) -> Result<CopiedOut, Failure> {
    Target::open(to, environment)?.fill(to, harvest)
}

/// Whether an error means that the name of the file, or of its folder, is already in use. After such an error, other
/// files can still be written.
fn is_in_the_way(error: &std::io::Error) -> bool {
    let link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    link || matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory)
}

fn symlink_refused(folder: &Path, link: &Path) -> Failure {
    let (folder, link) = (folder.display(), link.display());
    let message = format!("cannot write files: `{folder}` goes through the symlink `{link}`");
    Failure::new(FailureKind::Usage, message)
        .hint("use a path without symlinks, or the absolute path of the folder")
}

/// Flags for opening the folders that files are written to.
const OPEN_FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// File mode of new folders, before the umask is applied.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);

/// Folder of this machine that files are written to, without following symlinks or overwriting files.
struct Target(OwnedFd);

impl Target {
    /// Opens a folder, and creates it if needed. A relative path below the current folder must not contain symlinks,
    /// because the symlinks could be part of a malicious repository. Other paths may contain symlinks.
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

    /// Opens a folder by its relative path, one path component at a time, and creates missing folders. Fails if a
    /// component is a symlink.
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

    fn fill(&self, folder: &Path, mut harvest: CollectedFiles) -> Result<CopiedOut, Failure> {
        let mut taken = CopiedOut::default();
        for (name, bytes) in std::mem::take(&mut harvest.files) {
            match self.write(&name, &bytes) {
                Ok(()) => taken.files.push((name, bytes.len() as u64)),
                Err(error) if is_in_the_way(&error) => {
                    harvest.skip(&name, "the name already exists");
                    taken.in_the_way.push(name);
                }
                Err(error) => return Err(cannot_write(&folder.join(&name), &error)),
            }
        }
        taken.not_copied = harvest.skipped_messages();
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
                    // Remove the partial file, because it would look complete.
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

/// Writes a file that the user named, and overwrites an existing file. The file must not be a symlink.
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
    fn writing_to_a_target_folder_overwrites_no_file_and_follows_no_symlink() {
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
    fn relative_target_path_that_goes_through_a_symlink_is_rejected() {
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
            let message = format!("cannot write files: `{path}` goes through the symlink `{link}`");
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

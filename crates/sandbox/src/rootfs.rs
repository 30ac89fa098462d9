//! Builds the root file system of Docker and microVM sandboxes: a small Debian with Python, built only from packages.
//!
//! The archive that [`build`] creates is plain Debian, so it stays valid when the guest agent changes. The backends
//! add the guest agent and its files (function `additions`) to every image.

use assize_types::{Failure, FailureKind};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::guest;
use crate::sandbox::{PYTHON_FILES, PYTHON_FOLDER, WORKSPACE};

/// Path of the guest agent in every image.
pub(crate) const GUEST: &str = "/.assize/guest";

/// Target of the `/workspace` symlink, on the only writable disk.
pub(crate) const WORKSPACE_FOLDER: &str = "/tmp/workspace";

/// Version of the layout of the files that are added to every image. It is raised when the layout changes.
const LAYOUT: u32 = 1;

/// Shell script that finishes a new root file system before it is packed. It compiles the Python files so that Python
/// loads them without checking the source files, adds the user that programs run as, and removes documentation,
/// package-manager files and most of Perl.
const FINISH: &str = include_str!("finish_rootfs.sh");

/// Fixed Unix timestamp of the files in a root file system and on microVM disks, so that the same packages give
/// the same image.
pub(crate) const MADE: u64 = 1_704_067_200;

/// Command-line option with the packages that are installed in addition to the base system.
const PACKAGES: &str = "--include=python3,tzdata";

/// Error of building a root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootfsError {
    #[error("neither `mmdebstrap` nor `debootstrap` is installed")]
    NoTool,
    #[error("`debootstrap` must run as root")]
    NeedsRoot,
    #[error("`{tool}` failed: {words}")]
    Failed { tool: &'static str, words: String },
    #[error("cannot write `{path}`", path = .0.display())]
    File(PathBuf, #[source] io::Error),
}

impl RootfsError {
    /// Hint for the user, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            RootfsError::NoTool => Some("install `mmdebstrap`: `sudo apt install mmdebstrap`"),
            RootfsError::NeedsRoot => {
                Some("install `mmdebstrap`, which needs no root, or run this command with `sudo`")
            }
            RootfsError::Failed { words, .. }
                if ["chroot mode", "newuidmap", "subuid"]
                    .iter()
                    .any(|word| words.contains(word)) =>
            {
                Some(
                    "without root, `mmdebstrap` needs the package `uidmap` and lines for this user in /etc/subuid \
                     and /etc/subgid",
                )
            }
            _ => None,
        }
    }
}

/// Builds the root file system as a tar archive and reports each step to `progress`.
pub async fn build(out: &Path, progress: &mut (dyn FnMut(&str) + Send)) -> Result<(), RootfsError> {
    let partial = out.with_extension("partial");
    let made = match with_mmdebstrap(&partial, progress).await {
        Err(RootfsError::NoTool) => with_debootstrap(&partial, progress).await,
        made => made,
    };
    let moved = match made {
        Ok(()) => tokio::fs::rename(&partial, out)
            .await
            .map_err(|error| RootfsError::File(out.into(), error)),
        Err(error) => Err(error),
    };
    if moved.is_err() {
        let _ = tokio::fs::remove_file(&partial).await;
    }
    moved
}

async fn with_mmdebstrap(
    out: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<(), RootfsError> {
    let archive =
        std::fs::File::create(out).map_err(|error| RootfsError::File(out.into(), error))?;
    let mut command = Command::new("mmdebstrap");
    command.env("SOURCE_DATE_EPOCH", MADE.to_string());
    // The variant `essential` has no `apt`, because no packages are ever installed in a sandbox.
    command.args(["--variant=essential", PACKAGES, "--customize-hook", FINISH, "--format=tar"]);
    let sources = sources();
    // This machine's APT sources determine the Debian release. If it has none, mmdebstrap uses its default mirror.
    command.arg(if sources.is_empty() { "stable" } else { "" }).arg("-").args(sources);
    run("mmdebstrap", command.stdout(archive), progress).await
}

async fn with_debootstrap(
    out: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<(), RootfsError> {
    const TOOL: &str = "debootstrap";
    let root = out.with_extension("root");
    let mut command = Command::new(TOOL);
    command.args(["--variant=minbase", PACKAGES, &release()]).arg(&root);
    let made = match run(TOOL, &mut command, progress).await {
        // `debootstrap` is in `/usr/sbin`, which is not in the PATH of every user.
        Err(RootfsError::NoTool) => {
            let mut command = Command::new("/usr/sbin/debootstrap");
            command.args(["--variant=minbase", PACKAGES, &release()]).arg(&root);
            run(TOOL, &mut command, progress).await
        }
        made => made,
    };
    let packed = match made {
        Ok(()) => {
            progress("packing the root file system");
            let mut finish = Command::new("sh");
            finish.args(["-c", FINISH, "sh"]).arg(&root);
            let mut pack = Command::new("tar");
            pack.args(["--numeric-owner", "--one-file-system", "-cf"])
                .arg(out)
                .arg("-C")
                .arg(&root)
                .arg(".");
            match run(TOOL, &mut finish, progress).await {
                Ok(()) => run("tar", &mut pack, progress).await,
                failed => failed,
            }
        }
        Err(RootfsError::Failed { .. }) if !rustix::process::geteuid().is_root() => {
            Err(RootfsError::NeedsRoot)
        }
        Err(error) => Err(error),
    };
    let _ = tokio::fs::remove_dir_all(&root).await;
    packed
}

/// Runs a tool to completion and passes its information lines (`I: …`) to `progress`.
async fn run(
    tool: &'static str,
    command: &mut Command,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<(), RootfsError> {
    let failed = |output: String| RootfsError::Failed { tool, words: output };
    let mut child =
        match command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RootfsError::NoTool);
            }
            Err(error) => return Err(failed(error.to_string())),
        };
    let mut errors = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            match line.strip_prefix("I: ") {
                Some(step) if step.starts_with("running --customize-hook") => {
                    progress("cleaning up the root file system")
                }
                Some(step) => progress(step),
                None => errors.push(line),
            }
        }
    }
    let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let last: Vec<&str> = errors.iter().rev().take(5).rev().map(String::as_str).collect();
    Err(failed(if last.is_empty() { status.to_string() } else { last.join("\n") }))
}

/// Finds the files with APT sources of this machine.
fn sources() -> Vec<PathBuf> {
    let folder = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = folder
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension().is_some_and(|ending| ending == "list" || ending == "sources")
        })
        .collect();
    files.push("/etc/apt/sources.list".into());
    files.retain(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.starts_with("deb ") || line.starts_with("Types:"))
    });
    files.sort();
    files
}

/// Code name of the Debian release of this machine, or `stable` if it is unknown.
fn release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map_or("stable", |name| name.trim_matches('"')).to_owned()
}

/// Returns the files that are added to every image, as a tar archive to unpack at the root of the image.
pub(crate) fn additions() -> io::Result<Vec<u8>> {
    if guest::PROGRAM.is_empty() {
        return Err(io::Error::other("this assize was built without the guest agent"));
    }
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: &str, kind: tar::EntryType, mode: u32, bytes: &[u8]| {
        let mut header = header(kind, mode, bytes.len() as u64);
        archive.append_data(&mut header, path.trim_start_matches('/'), bytes)
    };
    let folder = |path: &str| {
        Path::new(path).parent().map(|path| path.display().to_string()).unwrap_or_default()
    };
    add(&folder(GUEST), tar::EntryType::Directory, 0o755, b"")?;
    add(GUEST, tar::EntryType::Regular, 0o755, guest::PROGRAM)?;
    add(&folder(PYTHON_FOLDER), tar::EntryType::Directory, 0o755, b"")?;
    add(PYTHON_FOLDER, tar::EntryType::Directory, 0o755, b"")?;
    for (name, text) in PYTHON_FILES {
        add(&format!("{PYTHON_FOLDER}/{name}"), tar::EntryType::Regular, 0o644, text.as_bytes())?;
    }
    let mut link = header(tar::EntryType::Symlink, 0o777, 0);
    archive.append_link(&mut link, WORKSPACE.trim_start_matches('/'), WORKSPACE_FOLDER)?;
    archive.into_inner()
}

/// Returns the header of a tar entry that is owned by root and has the timestamp 0.
pub(crate) fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header
}

/// Digest of the files that are added to every image, as twelve hex digits. It changes with the guest agent.
pub(crate) fn digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        let mut hash = Sha256::new();
        hash.update(LAYOUT.to_le_bytes());
        hash.update(Sha256::digest(guest::PROGRAM));
        for (name, text) in PYTHON_FILES {
            hash.update(Sha256::digest(name));
            hash.update(Sha256::digest(text));
        }
        short(hash)
    })
}

/// The first twelve hex digits of a hash.
pub(crate) fn short(hash: Sha256) -> String {
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

impl From<RootfsError> for Failure {
    fn from(error: RootfsError) -> Failure {
        Failure::from_error(FailureKind::Environment, &error).with_optional_hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_additions_are_complete_and_owned_by_root() {
        let bytes = additions().unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!((entry.header().uid().unwrap(), entry.header().gid().unwrap()), (0, 0));
            seen.push(entry.path().unwrap().display().to_string());
        }
        for path in [".assize/guest", "run/assize/python/sitecustomize.py", "workspace"] {
            assert!(seen.iter().any(|each| each == path), "{path} in {seen:?}");
        }
        assert_eq!(digest().len(), 12);
    }
}

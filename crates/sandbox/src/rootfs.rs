//! A root file system for sandboxes that bring their own: a small Debian with Python, made from
//! packages and nothing else.
//!
//! The archive that [`build`] makes is plain Debian and outlives many a guest; what we put into it,
//! and into any other image, is added by whoever uses it.

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

/// Where the guest is in every image.
pub(crate) const GUEST: &str = "/.assize/guest";

/// Where the workspace really is: on the one disk that can be written to.
pub(crate) const WORKSPACE_FOLDER: &str = "/tmp/workspace";

/// Raised whenever what is added changes other than by its contents.
const LAYOUT: u32 = 1;

/// What is done to the new root before it is packed: compiled files that need not be compared with
/// their source, the user that programs run as, and nothing that only people read, or only the tool
/// that installed it (of Perl, its base stays).
const FINISH: &str = include_str!("finish_rootfs.sh");

/// When everything in an image was made, as far as it can be seen: so that the same packages come to the
/// same image.
pub(crate) const MADE: u64 = 1_704_067_200;

/// What is in it besides what every Debian has.
const PACKAGES: &str = "--include=python3,tzdata";

/// Why no root file system could be made.
#[derive(Debug, thiserror::Error)]
pub enum RootfsError {
    #[error("neither `mmdebstrap` nor `debootstrap` is installed here")]
    NoTool,
    #[error("`debootstrap` needs root")]
    NeedsRoot,
    #[error("`{tool}` failed: {words}")]
    Failed { tool: &'static str, words: String },
    #[error("`{path}` cannot be written", path = .0.display())]
    File(PathBuf, #[source] io::Error),
}

impl RootfsError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            RootfsError::NoTool => Some("install it: `sudo apt install mmdebstrap`"),
            RootfsError::NeedsRoot => {
                Some("install `mmdebstrap`, which needs no root, or run this with `sudo`")
            }
            RootfsError::Failed { words, .. }
                if ["chroot mode", "newuidmap", "subuid"]
                    .iter()
                    .any(|word| words.contains(word)) =>
            {
                Some(
                    "without root it needs the package `uidmap` and lines for this user in /etc/subuid and /etc/subgid",
                )
            }
            _ => None,
        }
    }
}

/// Makes the root file system as a tar archive, telling what it does as it goes.
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
    // Without `apt`: nothing is ever installed in a sandbox.
    command.args(["--variant=essential", PACKAGES, "--customize-hook", FINISH, "--format=tar"]);
    let sources = sources();
    // This machine's own sources say which release it is; without any, the tool knows where to look.
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
        // It is where only root looks for programs.
        Err(RootfsError::NoTool) => {
            let mut command = Command::new("/usr/sbin/debootstrap");
            command.args(["--variant=minbase", PACKAGES, &release()]).arg(&root);
            run(TOOL, &mut command, progress).await
        }
        made => made,
    };
    let packed = match made {
        Ok(()) => {
            progress("packing");
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

/// Runs a tool to its end, handing on what it says it does.
async fn run(
    tool: &'static str,
    command: &mut Command,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<(), RootfsError> {
    let failed = |words: String| RootfsError::Failed { tool, words };
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
                Some(said) if said.starts_with("running --customize-hook") => {
                    progress("tidying up")
                }
                Some(said) => progress(said),
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

/// The files that say where this machine gets its own packages from.
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

/// The release that this machine runs.
fn release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map_or("stable", |name| name.trim_matches('"')).to_owned()
}

/// What every image needs besides its own files, as a tar archive to be unpacked at its root.
pub(crate) fn additions() -> io::Result<Vec<u8>> {
    if guest::PROGRAM.is_empty() {
        return Err(io::Error::other("this assize was built without its guest"));
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

/// Header of an entry that is root's, and was made at no time in particular.
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

/// Which additions these are: twelve digits that differ whenever the guest or its files do.
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

/// The first twelve digits of a hash.
pub(crate) fn short(hash: Sha256) -> String {
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

impl From<RootfsError> for Failure {
    fn from(error: RootfsError) -> Failure {
        Failure::from_error(FailureKind::Environment, &error).maybe_hint(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_owned_by_root_and_complete() {
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

//! Image of microVMs: a kernel with its modules, and a root file system on a read-only disk.
//!
//! The image is built once, from Debian packages or from files that the user specifies. The guest agent is not part of
//! the image: it is in the initrd, next to the modules.

use assize_config::Isolation;
use assize_types::{Failure, FailureKind};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cpio::CpioArchive;
use super::kernel::{self, Kernel};
use super::squashfs;
use crate::error::SandboxError;
use crate::memfd::data_file;
use crate::rootfs::{self, RootfsError};
use crate::sandbox::{PYTHON_FILES, WORKSPACE};
use crate::spec::LAYERS;

/// Version of the image layout; raised when an older image would not work with the guest agent.
const LAYOUT: u32 = 1;

/// Maximum age at which the archive of a root file system is reused. An older archive is built again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// First bytes of compressed archives: gzip, xz and zstd.
const PACKED: [[u8; 2]; 3] = [[0x1f, 0x8b], [0xfd, 0x37], [0x28, 0xb5]];

/// Names of the files in the folder of an image.
const ABOUT: &str = "image.json";
const KERNEL: &str = "kernel";
const MODULES: &str = "modules";
const ROOT: &str = "root";

/// Error of building an image.
#[derive(Debug, thiserror::Error)]
pub enum VmImageError {
    #[error("`{tool}` is not installed")]
    NoTool { tool: &'static str, package: &'static str },
    #[error("`{tool}` failed: {words}")]
    Failed { tool: &'static str, words: String },
    #[error("the root file system archive `{path}` is compressed", path = .0.display())]
    Packed(PathBuf),
    #[error("`{path}` is not a tar archive: {1}", path = .0.display())]
    NoArchive(PathBuf, #[source] io::Error),
    #[error("`{path}` is not a kernel for x86-64", path = .0.display())]
    NoKernel(PathBuf),
    #[error("kernel package `{0}` not found")]
    NoPackage(&'static str),
    #[error("cannot read or write `{path}`: {1}", path = .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Rootfs(#[from] RootfsError),
}

impl VmImageError {
    /// Hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            VmImageError::NoTool { tool: "apt-cache" | "apt-get" | "dpkg-deb", .. } => Some(
                "this system is not Debian: specify a kernel with `--kernel FILE` (and `--modules FOLDER`), and \
                 a root file system with `--rootfs TAR`"
                    .to_owned(),
            ),
            VmImageError::NoTool { package, .. } => {
                Some(format!("install the package: `sudo apt install {package}`"))
            }
            VmImageError::NoPackage(_) => Some(
                "run `sudo apt-get update` first; or specify a kernel with `--kernel FILE`"
                    .to_owned(),
            ),
            VmImageError::Failed { tool: "apt-get", .. } => Some(
                "check with `sudo apt-get update` that the package sources are reachable".to_owned(),
            ),
            VmImageError::Packed(_) => {
                Some("decompress the archive first, with `gunzip`, `unxz` or `unzstd`".to_owned())
            }
            VmImageError::NoArchive(..) => {
                Some("create an archive: `tar --numeric-owner -C FOLDER -cf ROOT.tar .`".to_owned())
            }
            VmImageError::NoKernel(_) => {
                Some("specify a bootable kernel such as `/boot/vmlinuz-…`".to_owned())
            }
            VmImageError::Rootfs(error) => error.hint().map(str::to_owned),
            VmImageError::Failed { .. } | VmImageError::File(..) => None,
        }
    }
}

/// Files from which an image is built. If `kernel` or `rootfs` is `None`, that part comes from Debian packages.
/// `modules` is the folder with the modules of `kernel`.
#[derive(Debug, Clone, Default)]
pub struct VmImageSources {
    pub kernel: Option<PathBuf>,
    pub modules: Option<PathBuf>,
    /// Tar archive of the root file system.
    pub rootfs: Option<PathBuf>,
}

/// Description of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmImageInfo {
    layout: u32,
    /// Digest of the contents, as twelve hex digits.
    pub digest: String,
    /// Package or file that the kernel comes from.
    pub kernel: String,
    /// Archive that the root file system comes from, or `packages` if it was built from Debian packages.
    pub rootfs: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    pub bytes: u64,
}

/// An opened image.
#[derive(Debug)]
pub(super) struct VmImage {
    pub(super) info: VmImageInfo,
    pub(super) kernel: File,
    pub(super) root: File,
    modules: Vec<u8>,
}

impl VmImage {
    pub(super) fn open(folder: &Path) -> Result<VmImage, SandboxError> {
        let missing = |reason: &str| SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: reason.to_owned(),
            hint: Some("run `assize image build microvm`".to_owned()),
        };
        let info = info(folder).ok_or_else(|| missing("the microVM image is not built"))?;
        if info.layout != LAYOUT {
            return Err(missing("the microVM image was built by another version of assize"));
        }
        let open = || {
            let mut modules = Vec::new();
            File::open(folder.join(MODULES))?.read_to_end(&mut modules)?;
            // The kernel is copied into memory, so that QEMU can read it as any user.
            let mut kernel = data_file("assize-kernel")?;
            io::copy(&mut File::open(folder.join(KERNEL))?, &mut kernel)?;
            let root = File::open(folder.join(ROOT))?;
            Ok::<_, io::Error>(VmImage { info, kernel, root, modules })
        };
        open().map_err(|error| missing(&format!("the microVM image is incomplete: {error}")))
    }

    /// Builds the initrd. It contains the init process `first` (normally the guest agent), the startup files of the
    /// Python interpreter, and the kernel modules.
    pub(super) fn initrd(&self, first: &[u8]) -> io::Result<File> {
        let mut archive = CpioArchive::default();
        for folder in ["dev", "root", "python"] {
            archive.folder(folder);
        }
        archive.device("dev/null", 1, 3);
        archive.program("init", first);
        for (name, text) in PYTHON_FILES {
            archive.file(&format!("python/{name}"), text.as_bytes());
        }
        let mut file = data_file("assize-initrd")?;
        file.write_all(&archive.finish())?;
        file.write_all(&self.modules)?;
        Ok(file)
    }
}

/// Reads the description of the image in a folder, if there is one.
pub(super) fn info(folder: &Path) -> Option<VmImageInfo> {
    serde_json::from_slice(&fs::read(folder.join(ABOUT)).ok()?).ok()
}

/// Builds an image in a folder and reports each step to `progress`. `archive` is the path of the cached root file
/// system that was built from Debian packages.
pub(super) async fn build(
    folder: &Path,
    archive: &Path,
    sources: VmImageSources,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<VmImageInfo, VmImageError> {
    let rootfs = match &sources.rootfs {
        Some(named) => named.clone(),
        None => {
            if is_fresh(archive) {
                progress("reusing the root file system, which is less than a day old");
            } else {
                rootfs::build(archive, progress).await?;
            }
            archive.to_owned()
        }
    };
    let partial = folder.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    // The following code blocks the thread, which is acceptable because no other task runs during a build.
    let built = assemble(&partial, &rootfs, &sources, progress).and_then(|info| {
        let _ = fs::remove_dir_all(folder);
        fs::rename(&partial, folder).map_err(|error| VmImageError::File(folder.into(), error))?;
        Ok(info)
    });
    if built.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    built
}

fn is_fresh(archive: &Path) -> bool {
    let made = fs::metadata(archive).and_then(|found| found.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < FRESH))
}

fn assemble(
    folder: &Path,
    rootfs: &Path,
    sources: &VmImageSources,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<VmImageInfo, VmImageError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |error| VmImageError::File(path, error)
    };
    let packages = folder.join("packages");
    fs::create_dir_all(&packages).map_err(file(&packages))?;
    let kernel = match &sources.kernel {
        Some(image) => kernel::from_files(image, sources.modules.as_deref())?,
        None => kernel::from_package(&packages, progress)?,
    };
    fs::remove_dir_all(&packages).map_err(file(&packages))?;
    let missing = kernel::missing(&kernel);
    if !missing.is_empty() {
        progress(&format!(
            "kernel modules not found, assumed to be built into the kernel: {}",
            missing.join(", ")
        ));
    }
    progress("creating a disk from the root file system");
    let mut archive = File::open(rootfs).map_err(file(rootfs))?;
    let mut first = [0; 2];
    let packed = archive.read_exact(&mut first).is_ok() && PACKED.contains(&first);
    if packed {
        return Err(VmImageError::Packed(rootfs.into()));
    }
    io::Seek::rewind(&mut archive).map_err(file(rootfs))?;
    // The archive is checked here, because the error of `sqfstar` would be less clear.
    let no_archive = |error| VmImageError::NoArchive(rootfs.into(), error);
    match tar::Archive::new(&archive).entries().map_err(no_archive)?.next() {
        Some(entry) => drop(entry.map_err(no_archive)?),
        None => return Err(no_archive(io::ErrorKind::UnexpectedEof.into())),
    }
    io::Seek::rewind(&mut archive).map_err(file(rootfs))?;
    squashfs::make(&folder.join(ROOT), |out| {
        out.write_all(&skeleton()?)?;
        io::copy(&mut archive, out).map(drop)
    })?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(file(&path))
    };
    write(KERNEL, &kernel.image)?;
    write(MODULES, &modules(&kernel))?;
    let (digest, bytes) = digest(folder).map_err(file(folder))?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let from = match &sources.rootfs {
        Some(named) => named.display().to_string(),
        None => "packages".to_owned(),
    };
    let info =
        VmImageInfo { layout: LAYOUT, digest, kernel: kernel.from, rootfs: from, created, bytes };
    write(ABOUT, &serde_json::to_vec_pretty(&info).unwrap_or_default())?;
    Ok(info)
}

/// Returns the folders that a microVM needs in its root file system, as the beginning of a tar archive (without the end
/// marker).
fn skeleton() -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let layers = LAYERS.trim_start_matches('/');
    for folder in ["dev", "proc", "run", "tmp", "opt", layers] {
        let mut header = rootfs::header(tar::EntryType::Directory, 0o755, 0);
        archive.append_data(&mut header, folder, io::empty())?;
    }
    let mut link = rootfs::header(tar::EntryType::Symlink, 0o777, 0);
    let workspace = WORKSPACE.trim_start_matches('/');
    archive.append_link(&mut link, workspace, rootfs::WORKSPACE_FOLDER)?;
    let mut bytes = archive.into_inner()?;
    bytes.truncate(bytes.len().saturating_sub(1024));
    Ok(bytes)
}

/// Returns a cpio archive of the kernel modules, with a list of their load order.
fn modules(kernel: &Kernel) -> Vec<u8> {
    let mut archive = CpioArchive::default();
    archive.folder("modules");
    let names: Vec<&str> = kernel.modules.iter().map(|(name, _)| name.as_str()).collect();
    archive.file("modules/list", names.join("\n").as_bytes());
    for (name, bytes) in &kernel.modules {
        archive.file(&format!("modules/{name}"), bytes);
    }
    archive.finish()
}

fn digest(folder: &Path) -> io::Result<(String, u64)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    for name in [KERNEL, MODULES, ROOT] {
        let mut file = File::open(folder.join(name))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => {
                    bytes += count as u64;
                    hash.update(&buffer[..count]);
                }
            }
        }
    }
    Ok((rootfs::short(hash), bytes))
}

impl From<VmImageError> for Failure {
    fn from(error: VmImageError) -> Failure {
        let hint = error.hint();
        Failure::from_error(FailureKind::Environment, &error).with_optional_hint(hint.as_deref())
    }
}

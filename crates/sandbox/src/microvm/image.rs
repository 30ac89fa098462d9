//! What machines are made of: a kernel, the modules it needs, and a root file system on a disk that
//! cannot be written to. It is gathered once, from packages or from what the user names; the guest is
//! not part of it, and comes in with the kernel.

use assize_config::Isolation;
use assize_types::{Failure, FailureKind};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cpio::Archive;
use super::kernel::{self, Kernel};
use super::squashfs;
use crate::error::SandboxError;
use crate::memfd::data_file;
use crate::rootfs::{self, RootfsError};
use crate::sandbox::{PYTHON_FILES, WORKSPACE};
use crate::spec::LAYERS;

/// Raised whenever what is gathered would not do for the guest of another build.
const LAYOUT: u32 = 1;

/// A root file system that was made not longer ago is as good as a new one.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// How archives that are packed begin: by gzip, xz and zstd.
const PACKED: [[u8; 2]; 3] = [[0x1f, 0x8b], [0xfd, 0x37], [0x28, 0xb5]];

/// Its files.
const ABOUT: &str = "image.json";
const KERNEL: &str = "kernel";
const MODULES: &str = "modules";
const ROOT: &str = "root";

/// Why no image could be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("`{tool}` is not installed here")]
    NoTool { tool: &'static str, package: &'static str },
    #[error("`{tool}` failed: {words}")]
    Failed { tool: &'static str, words: String },
    #[error("`{path}` is packed", path = .0.display())]
    Packed(PathBuf),
    #[error("`{path}` is no archive as `tar` makes them: {1}", path = .0.display())]
    NoArchive(PathBuf, #[source] io::Error),
    #[error("`{path}` is no kernel that an x86-64 machine starts", path = .0.display())]
    NoKernel(PathBuf),
    #[error("the package `{0}` is not to be had here")]
    NoPackage(&'static str),
    #[error("`{path}`: {1}", path = .0.display())]
    File(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Rootfs(#[from] RootfsError),
}

impl ImageError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ImageError::NoTool { tool: "apt-cache" | "apt-get" | "dpkg-deb", .. } => Some(
                "this is no Debian: name a kernel with `--kernel FILE` (and `--modules FOLDER`), and a \
                 root file system with `--rootfs TAR`"
                    .to_owned(),
            ),
            ImageError::NoTool { package, .. } => {
                Some(format!("install it: `sudo apt install {package}`"))
            }
            ImageError::NoPackage(_) => Some(
                "run `sudo apt-get update` first; or name a kernel with `--kernel FILE`".to_owned(),
            ),
            ImageError::Failed { tool: "apt-get", .. } => Some(
                "see whether the sources of packages can be reached: `sudo apt-get update`".to_owned(),
            ),
            ImageError::Packed(_) => {
                Some("unpack it first, with `gunzip`, `unxz` or `unzstd`".to_owned())
            }
            ImageError::NoArchive(..) => {
                Some("archive a root file system: `tar --numeric-owner -C FOLDER -cf ROOT.tar .`".to_owned())
            }
            ImageError::NoKernel(_) => {
                Some("name a file that starts machines, as `/boot/vmlinuz-…`".to_owned())
            }
            ImageError::Rootfs(error) => error.hint().map(str::to_owned),
            ImageError::Failed { .. } | ImageError::File(..) => None,
        }
    }
}

/// Where its parts come from; from Debian's packages what is not named.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub kernel: Option<PathBuf>,
    pub modules: Option<PathBuf>,
    /// An archive, as `tar` makes them.
    pub rootfs: Option<PathBuf>,
}

/// What is known of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    layout: u32,
    /// Twelve digits that differ whenever anything in it does.
    pub digest: String,
    /// Where the kernel comes from.
    pub kernel: String,
    /// Where the root file system comes from.
    pub rootfs: String,
    /// Seconds since 1970.
    pub created: u64,
    pub bytes: u64,
}

/// An image, opened.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) info: ImageInfo,
    pub(super) kernel: File,
    pub(super) root: File,
    modules: Vec<u8>,
}

impl Image {
    pub(super) fn open(folder: &Path) -> Result<Image, SandboxError> {
        let missing = |reason: &str| SandboxError::Unavailable {
            isolation: Isolation::Microvm,
            reason: reason.to_owned(),
            hint: Some("make it: `assize image build microvm`".to_owned()),
        };
        let info = info(folder).ok_or_else(|| missing("its image was not built yet"))?;
        if info.layout != LAYOUT {
            return Err(missing("its image was built by another version of assize"));
        }
        let open = || {
            let mut modules = Vec::new();
            File::open(folder.join(MODULES))?.read_to_end(&mut modules)?;
            // Whoever the emulator runs as, it may read what is in memory.
            let mut kernel = data_file("assize-kernel")?;
            io::copy(&mut File::open(folder.join(KERNEL))?, &mut kernel)?;
            let root = File::open(folder.join(ROOT))?;
            Ok::<_, io::Error>(Image { info, kernel, root, modules })
        };
        open().map_err(|error| missing(&format!("its image is not whole: {error}")))
    }

    /// What the kernel unpacks to start with: its first process, what that needs, and the modules.
    pub(super) fn initrd(&self, first: &[u8]) -> io::Result<File> {
        let mut archive = Archive::default();
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

/// What is known of the image in a folder, if there is one.
pub(super) fn info(folder: &Path) -> Option<ImageInfo> {
    serde_json::from_slice(&fs::read(folder.join(ABOUT)).ok()?).ok()
}

/// Gathers an image into a folder, telling what it does as it goes. `archive` is where a root file
/// system made of packages is kept.
pub(super) async fn build(
    folder: &Path,
    archive: &Path,
    sources: Sources,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<ImageInfo, ImageError> {
    let rootfs = match &sources.rootfs {
        Some(named) => named.clone(),
        None => {
            if is_fresh(archive) {
                progress("the root file system was made within a day, and is used again");
            } else {
                rootfs::build(archive, progress).await?;
            }
            archive.to_owned()
        }
    };
    let partial = folder.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    // Blocking from here on: nothing else goes on meanwhile.
    let built = gather(&partial, &rootfs, &sources, progress).and_then(|info| {
        let _ = fs::remove_dir_all(folder);
        fs::rename(&partial, folder).map_err(|error| ImageError::File(folder.into(), error))?;
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

fn gather(
    folder: &Path,
    rootfs: &Path,
    sources: &Sources,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<ImageInfo, ImageError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |error| ImageError::File(path, error)
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
        progress(&format!("taken to be part of the kernel: {}", missing.join(", ")));
    }
    progress("making a disk of the root file system");
    let mut archive = File::open(rootfs).map_err(file(rootfs))?;
    let mut first = [0; 2];
    let packed = archive.read_exact(&mut first).is_ok() && PACKED.contains(&first);
    if packed {
        return Err(ImageError::Packed(rootfs.into()));
    }
    io::Seek::rewind(&mut archive).map_err(file(rootfs))?;
    // Said better here than by what makes a disk of it.
    let no_archive = |error| ImageError::NoArchive(rootfs.into(), error);
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
        ImageInfo { layout: LAYOUT, digest, kernel: kernel.from, rootfs: from, created, bytes };
    write(ABOUT, &serde_json::to_vec_pretty(&info).unwrap_or_default())?;
    Ok(info)
}

/// The places that a machine needs in its root, whatever else is in it; without the mark that ends an
/// archive, as more follows.
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

/// The modules, with the order in which they are loaded.
fn modules(kernel: &Kernel) -> Vec<u8> {
    let mut archive = Archive::default();
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

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Failure {
        let hint = error.hint();
        Failure::from_error(FailureKind::Environment, &error).maybe_hint(hint.as_deref())
    }
}

//! Kernel of microVMs and its modules, from a Debian package (extracted, not installed) or from files of the user.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::image::VmImageError;

/// Debian meta-package of the newest cloud kernel, which is small.
const NEWEST: &str = "linux-image-cloud-amd64";

/// Kernel modules that a microVM needs. A missing module is assumed to be built into the kernel.
const NEEDED: [&str; 4] = ["virtio_mmio", "virtio_blk", "virtio_console", "squashfs"];

/// Compression formats of modules: file extension, tool that decompresses the file, Debian package of the tool.
const PACKED: [(&str, &str, &str); 3] =
    [("xz", "xz", "xz-utils"), ("zst", "zstd", "zstd"), ("gz", "gzip", "gzip")];

/// A kernel image with its modules.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) image: Vec<u8>,
    /// File name and contents of each module, in load order.
    pub(super) modules: Vec<(String, Vec<u8>)>,
    /// Name of the package or file that the kernel comes from, shown to users.
    pub(super) from: String,
}

/// Downloads the newest kernel package of this machine's APT sources, and extracts the kernel.
pub(super) fn from_package(
    folder: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Kernel, VmImageError> {
    let mut query = Command::new("apt-cache");
    let depends = run(query.env("LC_ALL", "C").args(["depends", NEWEST]), "apt-cache", "apt");
    let depends = match depends {
        // `apt-cache` fails for an unknown package.
        Err(VmImageError::Failed { .. }) => return Err(VmImageError::NoPackage(NEWEST)),
        depends => depends?,
    };
    let depends = String::from_utf8_lossy(&depends).into_owned();
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .ok_or(VmImageError::NoPackage(NEWEST))?;
    progress(&format!("downloading {package}"));
    let mut download = Command::new("apt-get");
    // APT must not switch to its own user for downloads, because that user may not write to this folder.
    download.current_dir(folder).args(["-qq", "-o", "APT::Sandbox::User=root"]);
    run(download.args(["download", package]), "apt-get", "apt")?;
    let file = |error| VmImageError::File(folder.into(), error);
    let found = fs::read_dir(folder).map_err(file)?.flatten().map(|entry| entry.path());
    let archive = found
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .ok_or(VmImageError::NoPackage(NEWEST))?;
    progress("extracting the kernel");
    let mut unpack = Command::new("dpkg-deb");
    let unpacked = run(unpack.arg("--fsys-tarfile").arg(&archive), "dpkg-deb", "dpkg")?;
    let version = archive.file_stem().map(|name| name.to_string_lossy().into_owned());
    let mut kernel = Kernel { from: version.unwrap_or_default(), ..Kernel::default() };
    let mut modules = BTreeMap::new();
    let mut archive = tar::Archive::new(unpacked.as_slice());
    for entry in archive.entries().map_err(file)? {
        let mut entry = entry.map_err(file)?;
        let path = entry.path().map_err(file)?.into_owned();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.filter(|_| entry.header().entry_type().is_file()) else { continue };
        if name.starts_with("vmlinuz") {
            entry.read_to_end(&mut kernel.image).map_err(file)?;
        } else if let Some(module) = module_name(&name) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(file)?;
            modules.insert(module, (name, bytes));
        }
    }
    if kernel.image.is_empty() {
        return Err(VmImageError::NoPackage(NEWEST));
    }
    kernel.modules = in_order(&modules)?;
    Ok(kernel)
}

/// Reads a kernel file of the user, and its modules from a folder.
pub(super) fn from_files(image: &Path, modules: Option<&Path>) -> Result<Kernel, VmImageError> {
    let file = |path: &Path| {
        let path = path.to_owned();
        move |error| VmImageError::File(path, error)
    };
    let bytes = fs::read(image).map_err(file(image))?;
    if !is_kernel(&bytes) {
        return Err(VmImageError::NoKernel(image.to_owned()));
    }
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = modules.map(Path::to_owned).into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(file(&folder))? {
            let entry = entry.map_err(file(&folder))?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(module) = module_name(&name) {
                found.insert(module, (name, fs::read(&path).map_err(file(&path))?));
            }
        }
    }
    Ok(Kernel { image: bytes, modules: in_order(&found)?, from: image.display().to_string() })
}

/// Whether these bytes are an x86-64 kernel: compressed (`bzImage`) or an ELF file (`vmlinux`).
fn is_kernel(bytes: &[u8]) -> bool {
    const BZIMAGE: &[u8] = b"HdrS";
    const ELF: &[u8] = b"\x7fELF";
    const X86_64: &[u8] = &[62, 0];
    let plain = bytes.starts_with(ELF) && bytes.get(18..20) == Some(X86_64);
    bytes.get(0x202..0x206) == Some(BZIMAGE) || plain
}

/// Returns the name that the kernel uses for a module, given the name of the file; `None` if the file is not a module.
fn module_name(name: &str) -> Option<String> {
    let (module, rest) = name.split_once(".ko")?;
    let plain = rest.is_empty() || PACKED.iter().any(|(ending, ..)| rest == format!(".{ending}"));
    plain.then(|| module.replace('-', "_"))
}

/// Returns the needed modules that were not found. They are assumed to be built into the kernel.
pub(super) fn missing(kernel: &Kernel) -> Vec<&'static str> {
    let there = |name: &str| kernel.modules.iter().any(|(file, _)| *file == format!("{name}.ko"));
    NEEDED.into_iter().filter(|name| !there(name)).collect()
}

/// Returns the needed modules and their dependencies, sorted so that each module follows its dependencies.
fn in_order(
    modules: &BTreeMap<String, (String, Vec<u8>)>,
) -> Result<Vec<(String, Vec<u8>)>, VmImageError> {
    let mut order: Vec<(String, Vec<u8>)> = Vec::new();
    // Stack of modules to add to the order. The flag is true if the dependencies of the module are already added.
    let mut wanted: Vec<(String, bool)> =
        NEEDED.iter().rev().map(|name| ((*name).to_owned(), false)).collect();
    while let Some((name, after_others)) = wanted.pop() {
        let file = format!("{name}.ko");
        let Some((packed, bytes)) = modules.get(&name) else { continue };
        if order.iter().any(|(placed, _)| *placed == file) {
            continue;
        }
        let bytes = unpack(packed, bytes)?;
        if after_others {
            order.push((file, bytes));
            continue;
        }
        wanted.push((name, true));
        wanted.extend(depends(&bytes).into_iter().rev().map(|name| (name, false)));
    }
    Ok(order)
}

/// Returns the dependencies of a module, which its `modinfo` section lists.
fn depends(module: &[u8]) -> Vec<String> {
    const WORD: &[u8] = b"\0depends=";
    let Some(at) = module.windows(WORD.len()).position(|bytes| bytes == WORD) else {
        return Vec::new();
    };
    let rest = &module[at + WORD.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    let names = String::from_utf8_lossy(&rest[..end]).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn unpack(name: &str, bytes: &[u8]) -> Result<Vec<u8>, VmImageError> {
    let ending = name.rsplit('.').next().unwrap_or_default();
    let Some((_, tool, package)) = PACKED.iter().find(|(packed, ..)| *packed == ending) else {
        return Ok(bytes.to_vec());
    };
    let input = tempfile_in_memory(bytes)?;
    run(Command::new(tool).arg("-dc").stdin(Stdio::from(input)), tool, package)
}

fn tempfile_in_memory(bytes: &[u8]) -> Result<fs::File, VmImageError> {
    let written = crate::memfd::data_file("module").and_then(|mut file| {
        io::Write::write_all(&mut file, bytes)?;
        io::Seek::rewind(&mut file)?;
        Ok(file)
    });
    written.map_err(|error| VmImageError::File("memory".into(), error))
}

/// Runs a tool and returns its standard output.
fn run(
    command: &mut Command,
    tool: &'static str,
    package: &'static str,
) -> Result<Vec<u8>, VmImageError> {
    let output = command.stderr(Stdio::piped()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => VmImageError::NoTool { tool, package },
        _ => VmImageError::Failed { tool, words: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(VmImageError::Failed { tool, words: stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, depends: &str) -> (String, (String, Vec<u8>)) {
        let bytes = format!("ELF\0license=GPL\0depends={depends}\0name={name}\0").into_bytes();
        (name.replace('-', "_"), (format!("{name}.ko"), bytes))
    }

    #[test]
    fn kernel_modules_are_ordered_after_their_dependencies() {
        let modules = BTreeMap::from([
            module("virtio_blk", "virtio,virtio_ring"),
            module("virtio_ring", "virtio"),
            module("virtio", ""),
            module("squashfs", ""),
            module("virtio_mmio", "virtio-ring,virtio"),
            module("unneeded", ""),
        ]);
        let order = in_order(&modules).unwrap();
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        let expected =
            ["virtio.ko", "virtio_ring.ko", "virtio_mmio.ko", "virtio_blk.ko", "squashfs.ko"];
        assert_eq!(names, expected);
    }

    #[test]
    fn compressed_kernel_modules_are_decompressed() {
        let (_, (_, plain)) = module("squashfs", "");
        let mut gzip = Command::new("gzip")
            .stdin(Stdio::from(tempfile_in_memory(&plain).unwrap()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut packed = Vec::new();
        gzip.stdout.take().unwrap().read_to_end(&mut packed).unwrap();
        gzip.wait().unwrap();
        assert_eq!(unpack("squashfs.ko.gz", &packed).unwrap(), plain);
        assert_eq!(module_name("a-b.ko.gz").unwrap(), "a_b");
        assert_eq!(module_name("a.ko").unwrap(), "a");
        assert!(module_name("a.kontrol").is_none() && module_name("README").is_none());
    }
}

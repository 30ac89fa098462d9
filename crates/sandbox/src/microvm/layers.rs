//! Disk with the layers of a sandbox. Every microVM has a layer disk. The guest agent mounts the disk only if
//! the host's first message, `Hello`, contains a mount point for the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::builder::lock_folder;
use super::squashfs;
use crate::error::SandboxError;
use crate::rootfs;
use crate::spec::{LAYERS, SandboxLayer};

/// Size of every layer disk in bytes. All layer disks have the same size, because a snapshot can be restored only with
/// disks of the same size.
pub(super) const SIZE: u64 = 16 << 30;

/// Time after which an unused layer disk is removed; it is created again when it is needed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Opens the disk with these layers, and creates it if necessary. Returns `None` if there are no layers.
pub(super) async fn disk(
    folder: &Path,
    layers: &[SandboxLayer],
) -> Result<Option<File>, SandboxError> {
    if layers.is_empty() {
        return Ok(None);
    }
    let disks = folder.join("layers");
    let place = disk_path(&disks, layers);
    let lock = if place.exists() { None } else { lock_folder(folder).await };
    let layers = layers.to_vec();
    let made = tokio::task::spawn_blocking(move || {
        if !place.exists() {
            fs::create_dir_all(&disks).map_err(|error| error.to_string())?;
            remove_unused(&disks);
            make(&place, &layers)?;
        }
        drop(lock);
        let file = squashfs::open(&place, SIZE).map_err(|error| error.to_string())?;
        // The modification time of the disk is the time of its last use.
        let _ = file.set_modified(SystemTime::now());
        Ok::<_, String>(file)
    });
    let made = made.await.unwrap_or_else(|error| Err(error.to_string()));
    made.map(Some).map_err(|reason| SandboxError::failed("creating a layer disk", reason))
}

/// Returns the path of the disk with these layers. The order of the layers does not change the path.
fn disk_path(folder: &Path, layers: &[SandboxLayer]) -> PathBuf {
    let mut known: Vec<String> =
        layers.iter().map(|layer| format!("{} {}", layer.at, layer.digest)).collect();
    known.sort();
    let hash = known.iter().fold(Sha256::new(), |hash, one| hash.chain_update(Sha256::digest(one)));
    folder.join(format!("{}.squashfs", rootfs::short(hash)))
}

fn make(place: &Path, layers: &[SandboxLayer]) -> Result<(), String> {
    squashfs::make(place, |out| archive(layers, out)).map_err(|error| {
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{error}{hint}")
    })?;
    if fs::metadata(place).is_ok_and(|found| found.len() > SIZE) {
        let _ = fs::remove_file(place);
        return Err(format!("the layers are larger than {} GB", SIZE >> 30));
    }
    Ok(())
}

fn archive(layers: &[SandboxLayer], out: &mut dyn Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(out);
    archive.follow_symlinks(false);
    archive.mode(tar::HeaderMode::Deterministic);
    for layer in layers {
        let name = Path::new(&layer.at).strip_prefix(LAYERS).map_err(|_| {
            io::Error::other(format!("layer path `{}` is not below `{LAYERS}`", layer.at))
        })?;
        archive.append_dir_all(name, &layer.from)?;
    }
    archive.finish()
}

fn remove_unused(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let used = entry.metadata().and_then(|found| found.modified());
        let disk = entry.path().extension().is_some_and(|ending| ending == "squashfs");
        if disk && used.is_ok_and(|used| used.elapsed().is_ok_and(|age| age > UNUSED)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

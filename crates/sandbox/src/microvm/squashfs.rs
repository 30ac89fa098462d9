//! Creates read-only squashfs disks from tar archives.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::image::VmImageError;
use crate::rootfs::MADE;

pub(super) const TOOL: &str = "sqfstar";

/// Options of `sqfstar`. The disk is not compressed: all microVMs share its pages in the page cache, and reading needs
/// no CPU time. Timestamps are fixed and extended attributes are left out, so that the same archive gives the same
/// disk.
const OPTIONS: [&str; 9] =
    ["-quiet", "-no-progress", "-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-mkfs-time", "0"];

/// Creates a disk from the tar archive that `write` writes.
pub(super) fn make(
    out: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), VmImageError> {
    let partial = out.with_extension("partial");
    let made = make_at(&partial, write).and_then(|()| {
        fs::rename(&partial, out).map_err(|error| VmImageError::File(out.into(), error))
    });
    if made.is_err() {
        let _ = fs::remove_file(&partial);
    }
    made
}

fn make_at(
    out: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), VmImageError> {
    // `sqfstar` would append to an existing file.
    let _ = fs::remove_file(out);
    let failed = |output: String| VmImageError::Failed { tool: TOOL, words: output };
    let mut child = Command::new(TOOL)
        .args(OPTIONS)
        .args(["-all-time", &MADE.to_string()])
        .arg(out)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                VmImageError::NoTool { tool: TOOL, package: "squashfs-tools" }
            }
            _ => failed(error.to_string()),
        })?;
    let stderr = child.stderr.take();
    let stderr = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.map(|stderr| stderr.take(4096).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).trim().to_owned()
    });
    let written = match child.stdin.take() {
        Some(mut input) => write(&mut input),
        None => Ok(()),
    };
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    let stderr = stderr.join().unwrap_or_default();
    match (status.success(), written) {
        (true, Ok(())) => Ok(()),
        // The tool's error is more precise than the broken pipe that it causes.
        (false, _) if !stderr.is_empty() => Err(failed(stderr)),
        (_, Err(error)) => Err(failed(error.to_string())),
        (false, Ok(())) => Err(failed(status.to_string())),
    }
}

/// Opens a disk, padded to `size` bytes. All disks that a snapshot is restored with must have the same size, because
/// the guest kernel does not notice a change of the size.
pub(super) fn open(path: &Path, size: u64) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(path)?;
    if file.metadata()?.len() < size {
        file.set_len(size)?;
    }
    File::open(path)
}

//! Disks that are only read: an archive goes in, a file system comes out.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::image::ImageError;
use crate::rootfs::MADE;

pub(super) const TOOL: &str = "sqfstar";

/// Nothing is packed: to read it costs memory once for all machines, and no time. Nothing depends on
/// when and where it is made.
const OPTIONS: [&str; 9] =
    ["-quiet", "-no-progress", "-noI", "-noD", "-noF", "-noX", "-no-xattrs", "-mkfs-time", "0"];

/// Makes one of what is written, which must be an archive as `tar` makes them.
pub(super) fn make(
    out: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), ImageError> {
    let partial = out.with_extension("partial");
    let made = make_at(&partial, write).and_then(|()| {
        fs::rename(&partial, out).map_err(|error| ImageError::File(out.into(), error))
    });
    if made.is_err() {
        let _ = fs::remove_file(&partial);
    }
    made
}

fn make_at(
    out: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), ImageError> {
    // It would add to what is there.
    let _ = fs::remove_file(out);
    let failed = |words: String| ImageError::Failed { tool: TOOL, words };
    let mut child = Command::new(TOOL)
        .args(OPTIONS)
        .args(["-all-time", &MADE.to_string()])
        .arg(out)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ImageError::NoTool { tool: TOOL, package: "squashfs-tools" },
            _ => failed(error.to_string()),
        })?;
    let errors = child.stderr.take();
    let words = std::thread::spawn(move || {
        let mut words = Vec::new();
        let _ = errors.map(|errors| errors.take(4096).read_to_end(&mut words));
        String::from_utf8_lossy(&words).trim().to_owned()
    });
    let written = match child.stdin.take() {
        Some(mut input) => write(&mut input),
        None => Ok(()),
    };
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    let words = words.join().unwrap_or_default();
    match (status.success(), written) {
        (true, Ok(())) => Ok(()),
        // It is said better by who did not read on.
        (false, _) if !words.is_empty() => Err(failed(words)),
        (_, Err(error)) => Err(failed(error.to_string())),
        (false, Ok(())) => Err(failed(status.to_string())),
    }
}

/// The disk as it is handed to a machine, as large as all others in its place: a machine that sleeps
/// does not see that it changes.
pub(super) fn open(path: &Path, size: u64) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(path)?;
    if file.metadata()?.len() < size {
        file.set_len(size)?;
    }
    File::open(path)
}

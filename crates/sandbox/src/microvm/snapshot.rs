//! Snapshot (memory and device state) of a microVM whose guest agent waits for the host's first message, `Hello`. Every
//! microVM sandbox is restored from a snapshot.
//!
//! In this process, the memory of a snapshot is a sealed file, which all microVMs map copy-on-write. On disk, a
//! snapshot is stored with checksums and its origin. A snapshot that cannot be restored is discarded; [`SnapshotError`]
//! is the reason.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::origin::{OriginPart, SnapshotOrigin};
use super::qmp::QmpError;
use crate::memfd::{data_file, read_only, seal};

/// Chunk size in bytes for copying memory; chunks of zeros are skipped.
const CHUNK: usize = 64 * 1024;

/// Tolerated difference between two measurements of the frequency of the CPU's time-stamp counter (TSC), in thousandths
/// of the frequency.
const TOLERANCE: u64 = 1;

const ABOUT: &str = "snapshot.json";
const MEMORY: &str = "memory";
const STATE: &str = "state";

/// A snapshot in memory.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) memory: File,
    state: File,
}

/// Description of a snapshot on disk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    origin: SnapshotOrigin,
    /// Frequency of the CPU's time-stamp counter (TSC) in kHz on the machine that created the snapshot.
    ticks: u64,
    memory: Contents,
    state: Contents,
}

/// Length and checksum of a file of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    bytes: u64,
    crc32: u32,
}

/// Reason why no snapshot on disk can be used, so that a new snapshot is created.
#[derive(Debug, thiserror::Error)]
pub(super) enum SnapshotError {
    #[error("no snapshot found")]
    Missing,
    #[error("invalid description of the snapshot: {0}")]
    Header(#[source] serde_json::Error),
    #[error("the snapshot was created with a different {}", list(.0))]
    Origin(Vec<OriginPart>),
    #[error("the snapshot's TSC frequency is {saved} kHz, but this CPU's is {here} kHz")]
    Speed { saved: u64, here: u64 },
    #[error("the snapshot file `{file}` has {found} bytes instead of {expected}")]
    Length { file: &'static str, found: u64, expected: u64 },
    #[error("wrong checksum of the snapshot file `{file}`")]
    Checksum { file: &'static str },
    #[error("cannot read the snapshot file `{file}`: {source}")]
    Read { file: &'static str, source: io::Error },
    #[error("cannot load the snapshot into memory: {0}")]
    Memory(#[source] io::Error),
    /// QEMU cannot restore the snapshot. `words` is the diagnostic output of the microVM or QEMU.
    #[error("{source}{}", after_colon(.words))]
    Restore { source: QmpError, words: Option<String> },
}

fn list(parts: &[OriginPart]) -> String {
    parts.iter().map(OriginPart::to_string).collect::<Vec<_>>().join(", ")
}

fn after_colon(words: &Option<String>) -> String {
    words.as_ref().map(|words| format!(": {words}")).unwrap_or_default()
}

impl Snapshot {
    /// Creates a snapshot from the memory and the device state of a microVM that has ended.
    pub(super) fn new(memory: File, state: &[u8]) -> io::Result<Snapshot> {
        let file = data_file("assize-state")?;
        (&file).write_all(state)?;
        seal(&memory)?;
        seal(&file)?;
        Ok(Snapshot { memory, state: file })
    }

    /// Opens the file with the device state, at offset 0.
    pub(super) fn state(&self) -> io::Result<File> {
        read_only(&self.state)
    }

    /// Loads a snapshot from disk. Fails if the snapshot is damaged, if its origin (software and hardware) differs from
    /// `origin`, or if its TSC frequency differs from `ticks` (in kHz).
    pub(super) fn load(
        folder: &Path,
        origin: &SnapshotOrigin,
        ticks: u64,
    ) -> Result<Snapshot, SnapshotError> {
        let about = match About::read(folder) {
            Err(SnapshotError::Missing) => return Err(other_origin(folder, origin)),
            about => about?,
        };
        let differences = origin.differences(&about.origin);
        if !differences.is_empty() {
            return Err(SnapshotError::Origin(differences));
        }
        if about.ticks.abs_diff(ticks) > ticks * TOLERANCE / 1000 {
            return Err(SnapshotError::Speed { saved: about.ticks, here: ticks });
        }
        let read_error = |file| move |source| SnapshotError::Read { file, source };
        let state = fs::read(folder.join(STATE)).map_err(read_error(STATE))?;
        about.state.check_length(STATE, state.len() as u64)?;
        about.state.check_sum(STATE, crc32fast::hash(&state))?;
        let saved = File::open(folder.join(MEMORY)).map_err(read_error(MEMORY))?;
        about.memory.check_length(MEMORY, saved.metadata().map_err(read_error(MEMORY))?.len())?;
        let memory = data_file("assize-memory").map_err(SnapshotError::Memory)?;
        memory.set_len(about.memory.bytes).map_err(SnapshotError::Memory)?;
        let sum = copy(&saved, &memory).map_err(SnapshotError::Memory)?;
        about.memory.check_sum(MEMORY, sum)?;
        Snapshot::new(memory, &state).map_err(SnapshotError::Memory)
    }

    /// Saves the snapshot to disk, for this and other processes.
    pub(super) fn save(
        &self,
        folder: &Path,
        origin: &SnapshotOrigin,
        ticks: u64,
    ) -> io::Result<()> {
        let partial = folder.with_extension("partial");
        let saved = self.save_in(&partial, origin, ticks).and_then(|()| {
            let _ = fs::remove_dir_all(folder);
            fs::rename(&partial, folder)
        });
        if saved.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        saved
    }

    fn save_in(&self, folder: &Path, origin: &SnapshotOrigin, ticks: u64) -> io::Result<()> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let bytes = self.memory.metadata()?.len();
        let file = File::create(folder.join(MEMORY))?;
        file.set_len(bytes)?;
        let memory = Contents { bytes, crc32: copy(&self.memory, &file)? };
        let mut state = Vec::new();
        io::Read::read_to_end(&mut self.state()?, &mut state)?;
        fs::write(folder.join(STATE), &state)?;
        let state = Contents { bytes: state.len() as u64, crc32: crc32fast::hash(&state) };
        let about = About { origin: origin.clone(), ticks, memory, state };
        fs::write(folder.join(ABOUT), serde_json::to_vec(&about)?)
    }
}

impl About {
    fn read(folder: &Path) -> Result<About, SnapshotError> {
        let bytes = fs::read(folder.join(ABOUT)).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SnapshotError::Missing,
            _ => SnapshotError::Read { file: ABOUT, source },
        })?;
        serde_json::from_slice(&bytes).map_err(SnapshotError::Header)
    }
}

impl Contents {
    fn check_length(self, file: &'static str, found: u64) -> Result<(), SnapshotError> {
        let expected = self.bytes;
        let wrong = SnapshotError::Length { file, found, expected };
        if found == expected { Ok(()) } else { Err(wrong) }
    }

    fn check_sum(self, file: &'static str, found: u32) -> Result<(), SnapshotError> {
        if found == self.crc32 { Ok(()) } else { Err(SnapshotError::Checksum { file }) }
    }
}

/// Returns the reason why there is no snapshot for this origin: the properties in which the origin of the most similar
/// snapshot on disk differs from `origin`, or [`SnapshotError::Missing`] if there is no similar snapshot.
fn other_origin(folder: &Path, origin: &SnapshotOrigin) -> SnapshotError {
    let beside = folder.parent().map(fs::read_dir).and_then(Result::ok);
    let others = beside.into_iter().flatten().flatten();
    let differences = others
        .filter_map(|entry| About::read(&entry.path()).ok())
        .filter(|about| about.origin.megabytes == origin.megabytes)
        .map(|about| origin.differences(&about.origin))
        .min_by_key(Vec::len);
    differences.map_or(SnapshotError::Missing, SnapshotError::Origin)
}

/// Copies the chunks of a memory file, except chunks of zeros. Returns one checksum, which covers the copied chunks and
/// their offsets.
fn copy(from: &File, to: &File) -> io::Result<u32> {
    let length = from.metadata()?.len();
    let mut sum = crc32fast::Hasher::new();
    let (mut buffer, zeros) = (vec![0; CHUNK], [0; CHUNK]);
    let mut at = 0;
    while at < length {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // The rest of the file contains no data.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = data - data % CHUNK as u64;
        let end = seek(from, SeekFrom::Hole(data))?.min(length);
        while at < end {
            let size = CHUNK.min(usize::try_from(length - at).unwrap_or(CHUNK));
            let chunk = &mut buffer[..size];
            from.read_exact_at(chunk, at)?;
            if *chunk != zeros[..size] {
                to.write_all_at(chunk, at)?;
                sum.update(&at.to_le_bytes());
                sum.update(chunk);
            }
            at += size as u64;
        }
    }
    Ok(sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS: u64 = 2_000_000;

    fn snapshot() -> Snapshot {
        let memory = data_file("test").unwrap();
        memory.set_len(4 << 20).unwrap();
        memory.write_all_at(b"here", 1000).unwrap();
        memory.write_all_at(b"and there", (3 << 20) - 4).unwrap();
        Snapshot::new(memory, b"state").unwrap()
    }

    #[test]
    fn saved_snapshot_is_loaded_unchanged_and_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        snapshot().save(&place, &SnapshotOrigin::example(), TICKS).unwrap();
        let loaded = Snapshot::load(&place, &SnapshotOrigin::example(), TICKS + 100).unwrap();
        let mut bytes = [0; 9];
        loaded.memory.read_exact_at(&mut bytes, (3 << 20) - 4).unwrap();
        assert_eq!(&bytes, b"and there");
        assert_eq!(loaded.memory.metadata().unwrap().len(), 4 << 20);
        for _ in 0..2 {
            let state = io::read_to_string(loaded.state().unwrap()).unwrap();
            assert_eq!(state, "state");
        }
        // The memory is sealed: even this process cannot change it.
        assert!(loaded.memory.write_all_at(b"x", 0).is_err());
        assert!(loaded.memory.set_len(0).is_err());
        // The saved file is sparse: it needs little more disk space than its non-zero chunks.
        let saved = fs::metadata(place.join(MEMORY)).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&saved) * 512 < 1 << 20);
    }

    #[test]
    fn unusable_snapshot_is_rejected_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        let fresh = || snapshot().save(&place, &SnapshotOrigin::example(), TICKS).unwrap();
        let reason = || {
            let reason = Snapshot::load(&place, &SnapshotOrigin::example(), TICKS).unwrap_err();
            fresh();
            reason
        };
        assert!(matches!(reason(), SnapshotError::Missing));
        let faster = Snapshot::load(&place, &SnapshotOrigin::example(), TICKS * 2).unwrap_err();
        assert!(matches!(faster, SnapshotError::Speed { saved: TICKS, here: 4_000_000 }));
        let change = |name: &str| File::options().write(true).open(place.join(name)).unwrap();
        change(MEMORY).write_all_at(b"H", 1000).unwrap();
        assert!(matches!(reason(), SnapshotError::Checksum { file: MEMORY }));
        change(MEMORY).set_len(100).unwrap();
        let cut = reason();
        assert_eq!(cut.to_string(), "the snapshot file `memory` has 100 bytes instead of 4194304");
        fs::remove_file(place.join(MEMORY)).unwrap();
        assert!(matches!(reason(), SnapshotError::Read { file: MEMORY, .. }));
        change(STATE).write_all_at(b"S", 0).unwrap();
        assert!(matches!(reason(), SnapshotError::Checksum { file: STATE }));
        change(STATE).set_len(4).unwrap();
        let cut = reason();
        assert!(matches!(cut, SnapshotError::Length { file: STATE, found: 4, expected: 5 }));
        for header in ["{", "{}", "no JSON", ""] {
            fs::write(place.join(ABOUT), header).unwrap();
            assert!(matches!(reason(), SnapshotError::Header(_)), "{header}");
        }
        fs::remove_file(place.join(ABOUT)).unwrap();
        fs::create_dir(place.join(ABOUT)).unwrap();
        assert!(matches!(reason(), SnapshotError::Read { file: ABOUT, .. }));
        assert!(Snapshot::load(&place, &SnapshotOrigin::example(), TICKS).is_ok());
    }

    #[test]
    fn snapshot_of_a_different_origin_is_rejected_with_the_differences() {
        let folder = tempfile::tempdir().unwrap();
        let place = |origin: &SnapshotOrigin| folder.path().join(origin.name());
        let saved = SnapshotOrigin::example();
        snapshot().save(&place(&saved), &saved, TICKS).unwrap();
        for part in [
            OriginPart::Assize,
            OriginPart::Image,
            OriginPart::Qemu,
            OriginPart::Processor,
            OriginPart::Accelerator,
        ] {
            let origin = SnapshotOrigin::example().with_other(part);
            // Load from the folder of the other origin, which does not exist, and from that of the saved snapshot.
            for place in [place(&origin), place(&saved)] {
                let reason = Snapshot::load(&place, &origin, TICKS).unwrap_err();
                assert!(matches!(&reason, SnapshotError::Origin(parts) if *parts == [part]));
                let expected = format!("the snapshot was created with a different {part}");
                assert_eq!(reason.to_string(), expected);
            }
        }
        // The origin is compared with that of the most similar snapshot with the same memory size.
        let far =
            SnapshotOrigin::example().with_other(OriginPart::Qemu).with_other(OriginPart::Image);
        let reason = Snapshot::load(&place(&far), &far, TICKS).unwrap_err().to_string();
        assert_eq!(
            reason,
            "the snapshot was created with a different kernel or root file system, QEMU"
        );
        let close = far.clone().with_other(OriginPart::Image);
        snapshot().save(&place(&close), &close, TICKS).unwrap();
        let reason = Snapshot::load(&place(&far), &far, TICKS).unwrap_err();
        assert!(matches!(reason, SnapshotError::Origin(parts) if parts == [OriginPart::Image]));
        let mut larger = far;
        larger.megabytes = 8;
        let reason = Snapshot::load(&place(&larger), &larger, TICKS).unwrap_err();
        assert!(matches!(reason, SnapshotError::Missing));
    }
}

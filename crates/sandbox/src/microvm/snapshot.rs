//! A machine that was frozen while its guest waited for the host's first word: its memory, and the
//! state of everything else. Every sandbox is thawed from one.
//!
//! In this process the memory is a file that nobody can change any more, and that all machines share
//! until they write to it. On disk it is kept with a checksum: what is cut short or damaged is as if it
//! were not there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, memfd_create, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Memory is looked at and kept by pieces of this size; those that are all zeros are left out.
const PIECE: usize = 64 * 1024;

/// By how many thousandths the speed of a processor may seem to have changed.
const TOLERANCE: u64 = 1;

const ABOUT: &str = "snapshot.json";
const MEMORY: &str = "memory";
const STATE: &str = "state";

#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) memory: File,
    state: File,
}

/// What is needed to know that it is whole, and fits this processor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    ticks: u64,
    bytes: u64,
    memory: u32,
    state: u32,
}

impl Snapshot {
    /// Of a machine that is gone.
    pub(super) fn new(memory: File, state: &[u8]) -> io::Result<Snapshot> {
        let file = memory_file("assize-state")?;
        (&file).write_all(state)?;
        seal(&memory)?;
        seal(&file)?;
        Ok(Snapshot { memory, state: file })
    }

    /// The state, to be read from its beginning.
    pub(super) fn state(&self) -> io::Result<File> {
        read_only(&self.state)
    }

    /// Reads one that was kept. `None` when there is none that is whole, and was taken on a processor
    /// as fast as this one.
    pub(super) fn load(folder: &Path, ticks: u64) -> Option<Snapshot> {
        let about: About = serde_json::from_slice(&fs::read(folder.join(ABOUT)).ok()?).ok()?;
        if about.ticks.abs_diff(ticks) > ticks * TOLERANCE / 1000 {
            return None;
        }
        let state = fs::read(folder.join(STATE)).ok()?;
        if crc32fast::hash(&state) != about.state {
            return None;
        }
        let kept = File::open(folder.join(MEMORY)).ok()?;
        if kept.metadata().ok()?.len() != about.bytes {
            return None;
        }
        let memory = memory_file("assize-memory").ok()?;
        memory.set_len(about.bytes).ok()?;
        let sum = copy(&kept, &memory).ok()?;
        if sum != about.memory {
            return None;
        }
        Snapshot::new(memory, &state).ok()
    }

    /// Keeps it for others.
    pub(super) fn save(&self, folder: &Path, ticks: u64) -> io::Result<()> {
        let partial = folder.with_extension("partial");
        let saved = self.save_in(&partial, ticks).and_then(|()| {
            let _ = fs::remove_dir_all(folder);
            fs::rename(&partial, folder)
        });
        if saved.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        saved
    }

    fn save_in(&self, folder: &Path, ticks: u64) -> io::Result<()> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let bytes = self.memory.metadata()?.len();
        let kept = File::create(folder.join(MEMORY))?;
        kept.set_len(bytes)?;
        let memory = copy(&self.memory, &kept)?;
        let mut state = Vec::new();
        io::Read::read_to_end(&mut self.state()?, &mut state)?;
        fs::write(folder.join(STATE), &state)?;
        let about = About { ticks, bytes, memory, state: crc32fast::hash(&state) };
        fs::write(folder.join(ABOUT), serde_json::to_vec(&about)?)
    }
}

/// A file in memory, that can be sealed.
pub(super) fn memory_file(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Newer kernels want to be told that it will never be run; older ones do not know the word.
    let made = memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL);
    Ok(made.or_else(|_| memfd_create(name, flags))?.into())
}

/// Has nobody change a file any more, whoever it is handed to.
pub(super) fn seal(file: &File) -> io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    Ok(fcntl_add_seals(file, seals)?)
}

/// The same file, only to be read, from its beginning.
pub(super) fn read_only(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Copies all that is not zero, and gives the sum of it and of where it is.
fn copy(from: &File, to: &File) -> io::Result<u32> {
    let length = from.metadata()?.len();
    let mut sum = crc32fast::Hasher::new();
    let (mut buffer, nothing) = (vec![0; PIECE], [0; PIECE]);
    let mut at = 0;
    while at < length {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // From here on there is none.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = data - data % PIECE as u64;
        let end = seek(from, SeekFrom::Hole(data))?.min(length);
        while at < end {
            let size = PIECE.min(usize::try_from(length - at).unwrap_or(PIECE));
            let piece = &mut buffer[..size];
            from.read_exact_at(piece, at)?;
            if *piece != nothing[..size] {
                to.write_all_at(piece, at)?;
                sum.update(&at.to_le_bytes());
                sum.update(piece);
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
        let memory = memory_file("test").unwrap();
        memory.set_len(4 << 20).unwrap();
        memory.write_all_at(b"here", 1000).unwrap();
        memory.write_all_at(b"and there", (3 << 20) - 4).unwrap();
        Snapshot::new(memory, b"state").unwrap()
    }

    #[test]
    fn what_was_kept_is_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        snapshot().save(&place, TICKS).unwrap();
        let loaded = Snapshot::load(&place, TICKS + 100).unwrap();
        let mut bytes = [0; 9];
        loaded.memory.read_exact_at(&mut bytes, (3 << 20) - 4).unwrap();
        assert_eq!(&bytes, b"and there");
        assert_eq!(loaded.memory.metadata().unwrap().len(), 4 << 20);
        for _ in 0..2 {
            let state = io::read_to_string(loaded.state().unwrap()).unwrap();
            assert_eq!(state, "state");
        }
        // Not even we can change it.
        assert!(loaded.memory.write_all_at(b"x", 0).is_err());
        assert!(loaded.memory.set_len(0).is_err());
        // Two pieces and a little beside them.
        let kept = fs::metadata(place.join(MEMORY)).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&kept) * 512 < 1 << 20);
    }

    #[test]
    fn what_is_damaged_or_of_another_machine_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        let fresh = || snapshot().save(&place, TICKS).unwrap();
        fresh();
        assert!(Snapshot::load(&place, TICKS * 2).is_none(), "a faster processor");
        let memory = File::options().write(true).open(place.join(MEMORY)).unwrap();
        memory.write_all_at(b"H", 1000).unwrap();
        assert!(Snapshot::load(&place, TICKS).is_none(), "one byte is another");
        fresh();
        File::options().write(true).open(place.join(MEMORY)).unwrap().set_len(100).unwrap();
        assert!(Snapshot::load(&place, TICKS).is_none(), "memory is cut");
        fresh();
        fs::write(place.join(STATE), "stat").unwrap();
        assert!(Snapshot::load(&place, TICKS).is_none(), "the state is cut");
        fresh();
        fs::write(place.join(ABOUT), "{").unwrap();
        assert!(Snapshot::load(&place, TICKS).is_none(), "nothing is known of it");
        fresh();
        assert!(Snapshot::load(&place, TICKS).is_some());
    }
}

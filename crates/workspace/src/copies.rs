//! Copies of what was there and of what was proposed, by their hash, outside the workspace. The gate judges
//! and applies copies alone: nobody can change them between one and the other.

use std::collections::BTreeSet;

use assize_types::Fingerprint;

use crate::folder::Folder;
use crate::workspace::FileError;

#[derive(Debug)]
pub struct Copies {
    folder: Folder,
}

impl Copies {
    pub fn new(folder: Folder) -> Copies {
        Copies { folder }
    }

    /// Keeps bytes, on the disk.
    pub fn keep(&self, bytes: &[u8]) -> Result<Fingerprint, FileError> {
        let hash = Fingerprint::of(bytes);
        if self.get(hash).is_err() {
            self.folder.write(&hash.to_string(), bytes)?;
        }
        Ok(hash)
    }

    /// What was kept, if it is still what it was.
    pub fn get(&self, hash: Fingerprint) -> Result<Vec<u8>, FileError> {
        let bytes = self.folder.read(&hash.to_string(), u64::MAX - 1)?;
        if Fingerprint::of(&bytes) == hash { Ok(bytes) } else { Err(FileError::Missing) }
    }

    /// Puts away all but these; gives how many.
    pub fn sweep(&self, wanted: &BTreeSet<Fingerprint>) -> Result<usize, FileError> {
        let mut swept = 0;
        for name in self.folder.names()? {
            if name.parse().is_ok_and(|hash: Fingerprint| !wanted.contains(&hash)) {
                self.folder.remove(&name)?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

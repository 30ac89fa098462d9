//! Store of copies of original and proposed files, addressed by their hashes and located outside the workspace. The
//! gate checks and applies only these copies, so an agent cannot change a file between the check and the apply.

use std::collections::BTreeSet;

use assize_types::Fingerprint;

use crate::folder::FolderHandle;
use crate::workspace::FileError;

/// Store of file copies in one folder, addressed by the hash of their content.
#[derive(Debug)]
pub struct ContentStore {
    folder: FolderHandle,
}

impl ContentStore {
    pub fn new(folder: FolderHandle) -> ContentStore {
        ContentStore { folder }
    }

    /// Stores a copy of the bytes durably, unless it is already stored, and returns the hash of the bytes.
    pub fn put(&self, bytes: &[u8]) -> Result<Fingerprint, FileError> {
        let hash = Fingerprint::of(bytes);
        if self.get(hash).is_err() {
            self.folder.write(&hash.to_string(), bytes)?;
        }
        Ok(hash)
    }

    /// Reads the copy with this hash. A copy whose content no longer matches the hash counts as missing.
    pub fn get(&self, hash: Fingerprint) -> Result<Vec<u8>, FileError> {
        let bytes = self.folder.read(&hash.to_string(), u64::MAX - 1)?;
        if Fingerprint::of(&bytes) == hash { Ok(bytes) } else { Err(FileError::Missing) }
    }

    /// Removes all copies except those with a hash in `wanted`. Returns the number of removed copies.
    pub fn remove_unused(&self, wanted: &BTreeSet<Fingerprint>) -> Result<usize, FileError> {
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

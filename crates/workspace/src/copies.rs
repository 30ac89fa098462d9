//! Content-addressed copies of original and proposed files, stored outside the workspace. The gate checks and applies
//! only these copies, so an agent cannot change a file between check and apply.

use std::collections::BTreeSet;

use assize_types::Fingerprint;

use crate::folder::FolderHandle;
use crate::workspace::FileError;

#[derive(Debug)]
pub struct ContentStore {
    folder: FolderHandle,
}

impl ContentStore {
    pub fn new(folder: FolderHandle) -> ContentStore {
        ContentStore { folder }
    }

    /// Stores bytes durably and returns their hash.
    pub fn keep(&self, bytes: &[u8]) -> Result<Fingerprint, FileError> {
        let hash = Fingerprint::of(bytes);
        if self.get(hash).is_err() {
            self.folder.write(&hash.to_string(), bytes)?;
        }
        Ok(hash)
    }

    /// Reads a copy. A copy that no longer matches its hash counts as missing.
    pub fn get(&self, hash: Fingerprint) -> Result<Vec<u8>, FileError> {
        let bytes = self.folder.read(&hash.to_string(), u64::MAX - 1)?;
        if Fingerprint::of(&bytes) == hash { Ok(bytes) } else { Err(FileError::Missing) }
    }

    /// Removes all copies except `wanted`; returns how many were removed.
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

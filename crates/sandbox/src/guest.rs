//! The guest program, as it is embedded, and as a file that can be started.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustix::fs::MemfdFlags;

use crate::error::SandboxError;
use crate::memfd::{memory_file, seal};

/// The program itself.
pub(crate) const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/assize-guest"));

/// The program as a file in memory, which no one can change any more.
#[derive(Debug, Clone)]
pub(crate) struct GuestFile(Arc<File>);

impl GuestFile {
    /// One for the whole process: it takes as long to write as a jail takes to build.
    pub(crate) fn get() -> Result<GuestFile, SandboxError> {
        static FILE: OnceLock<GuestFile> = OnceLock::new();
        if let Some(file) = FILE.get() {
            return Ok(file.clone());
        }
        let file =
            GuestFile::write().map_err(|error| SandboxError::failed("writing the guest", error))?;
        Ok(FILE.get_or_init(|| file).clone())
    }

    fn write() -> std::io::Result<GuestFile> {
        if PROGRAM.is_empty() {
            return Err(std::io::Error::other("this assize was built without its guest"));
        }
        let mut file = memory_file("assize-guest", MemfdFlags::EXEC)?;
        file.write_all(PROGRAM)?;
        file.rewind()?;
        seal(&file)?;
        Ok(GuestFile(Arc::new(file)))
    }

    /// Its path, for a child of this process.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

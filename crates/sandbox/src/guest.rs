//! The embedded guest agent binary, and the same binary as an executable in-memory file.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::MemfdFlags;

use crate::error::SandboxError;
use crate::memfd::{memory_file, seal};

/// The guest agent binary.
pub(crate) const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/assize-guest"));

/// Returns the guest agent binary. Empty if assize was built without it.
pub fn guest_program() -> &'static [u8] {
    PROGRAM
}

/// The guest agent binary in a sealed (immutable) in-memory file.
#[derive(Debug, Clone)]
pub(crate) struct GuestFile(Arc<File>);

impl GuestFile {
    /// Returns the in-memory file. It is created once per process, because writing the binary takes as long as building
    /// a jail.
    pub(crate) fn get() -> Result<GuestFile, SandboxError> {
        static FILE: Mutex<Option<GuestFile>> = Mutex::new(None);
        let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        let written = GuestFile::write()
            .map_err(|error| SandboxError::failed("writing the guest agent to memory", error))?;
        Ok(file.insert(written).clone())
    }

    fn write() -> std::io::Result<GuestFile> {
        if PROGRAM.is_empty() {
            return Err(std::io::Error::other("this assize was built without the guest agent"));
        }
        let mut file = memory_file("assize-guest", MemfdFlags::EXEC)?;
        file.write_all(PROGRAM)?;
        file.rewind()?;
        seal(&file)?;
        Ok(GuestFile(Arc::new(file)))
    }

    /// Path at which a child process of this process can execute the file.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

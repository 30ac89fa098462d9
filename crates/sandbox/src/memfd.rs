//! Files in memory, which can be sealed so that nobody changes them any more.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file in memory, to be run (`EXEC`) or never to be (`NOEXEC_SEAL`).
pub(crate) fn memory_file(name: &str, kind: MemfdFlags) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Newer kernels want to be told whether it will be run; older ones do not know the words.
    Ok(memfd_create(name, flags | kind).or_else(|_| memfd_create(name, flags))?.into())
}

/// A file in memory for data.
pub(crate) fn data_file(name: &str) -> io::Result<File> {
    memory_file(name, MemfdFlags::NOEXEC_SEAL)
}

/// Has nobody change a file any more, whoever it is handed to.
pub(crate) fn seal(file: &File) -> io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    Ok(fcntl_add_seals(file, seals)?)
}

/// The same file, only to be read, from its beginning.
pub(crate) fn read_only(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

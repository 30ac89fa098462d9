//! In-memory files (memfd) that can be sealed against changes.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Creates an in-memory file. `kind` is `EXEC` for an executable file, or `NOEXEC_SEAL` for a file that can never
/// become executable.
pub(crate) fn memory_file(name: &str, kind: MemfdFlags) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Newer kernels expect either `EXEC` or `NOEXEC_SEAL`; older kernels reject both flags.
    Ok(memfd_create(name, flags | kind).or_else(|_| memfd_create(name, flags))?.into())
}

/// Creates an in-memory file for data, which can never become executable.
pub(crate) fn data_file(name: &str) -> io::Result<File> {
    memory_file(name, MemfdFlags::NOEXEC_SEAL)
}

/// Makes an in-memory file immutable for every process that has a descriptor of it.
pub(crate) fn seal(file: &File) -> io::Result<()> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    Ok(fcntl_add_seals(file, seals)?)
}

/// Opens an in-memory file again, read-only and at offset 0.
pub(crate) fn read_only(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

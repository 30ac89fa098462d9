//! Copies files between this machine and its sandboxes, safe against hostile names, symlinks and files swapped during
//! the copy.

mod from_host;
mod to_host;

pub use from_host::{CopiedIn, open_regular, put, read};
pub use to_host::{CopiedOut, check_folder, keep, take, write};

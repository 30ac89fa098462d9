//! Copies files between this machine and its sandboxes. The copy is safe against hostile file names, symlinks, and
//! files that another process replaces during the copy.

mod from_host;
mod to_host;

pub use from_host::{CopiedIn, copy_into_sandbox, open_regular, read};
pub use to_host::{CopiedOut, check_folder, copy_from_sandbox, write, write_collected};

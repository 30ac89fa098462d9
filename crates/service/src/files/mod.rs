//! Files between this machine and its sandboxes: hostile names, links and swaps on both sides.

mod from_host;
mod to_host;

pub use from_host::{Put, open_regular, put, read};
pub use to_host::{Taken, check_folder, keep, take, write};

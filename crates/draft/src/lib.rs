//! Drafts behind a gate: those who propose changes to files never touch them.
//!
//! A worker reads files of a [`Workspace`] and writes drafts into one folder of it, [`Drafts`]. Paths are
//! what it writes them as, and therefore hostile: they are taken apart here ([`Inside`]) and opened by the
//! kernel relative to the folder, which refuses whatever leads out of it, links of all kinds included. Nothing
//! depends on what a path meant a moment ago.

mod diff;
mod drafts;
mod inside;
pub mod secrets;
mod workspace;

pub use diff::Diff;
pub use drafts::{BadName, DRAFTS, Drafts, HANDOFF};
pub use inside::{Inside, Outside};
pub use workspace::{FileError, Original, Workspace};

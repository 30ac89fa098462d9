//! Files of a workspace: paths that cannot lead out of it, immutable copies, and changes that are applied whole or
//! not at all.
//!
//! Paths are input and therefore hostile: [`Inside`] parses them, and the kernel opens them relative to a
//! [`Workspace`] or a [`Folder`], which refuses every link and every way out. Nothing depends on what a path meant a
//! moment ago.

mod apply;
mod copies;
mod folder;
mod git_settings;
mod ignored;
mod inside;
mod line_ends;
mod workspace;

pub use apply::{Applier, ApplyError, Item, Replacing};
pub use copies::Copies;
pub use folder::{BadName, DRAFTS, Folder, Lock, UNFINISHED, Wait};
pub use git_settings::GitSettings;
pub use inside::{HANDOFF, Inside, Outside};
pub use line_ends::as_the_original;
pub use workspace::{FileError, Kind, Original, Walk, Workspace};

//! Files of a workspace: paths confined to it, immutable copies, and changes that are applied completely or not at
//! all.
//!
//! Paths are untrusted input: [`WorkspacePath`] parses them, and the kernel opens them relative to the file descriptor of a
//! [`Workspace`] or a [`FolderHandle`]. It refuses every symbolic link and every path that leaves the folder, so there is no
//! window between checking a path and using it.

mod apply;
mod copies;
mod folder;
mod git_settings;
mod ignored;
mod inside;
mod line_ends;
mod workspace;

pub use apply::{Applier, ApplyError, FileReplacement, StagedFile};
pub use copies::ContentStore;
pub use folder::{DRAFTS, FolderHandle, FolderLock, InvalidFileName, LockWait, UNFINISHED};
pub use git_settings::GitSettings;
pub use inside::{HANDOFF, InvalidPath, WorkspacePath};
pub use line_ends::as_the_original;
pub use workspace::{FileError, FileSnapshot, PathKind, Walk, Workspace};

//! Files of a workspace: paths confined to the workspace, immutable copies of files, and changes that are applied
//! completely or not at all.
//!
//! Paths are untrusted input: [`WorkspacePath`] parses them, and the kernel opens them relative to the file descriptor
//! of a [`Workspace`] or a [`FolderHandle`]. The kernel refuses every symbolic link and every path that leaves the
//! folder, so a path cannot be replaced between the check and the use of the path.

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

//! Files of a workspace: paths confined to the workspace, immutable copies of files, and changes that are applied
//! completely or not at all.
//!
//! Paths are untrusted input: [`WorkspacePath`] parses them, and the kernel opens them relative to the file descriptor
//! of a [`Workspace`] or a [`FolderHandle`]. The kernel refuses every symbolic link and every path that leaves the
//! folder, so a path cannot be replaced between the check and the use of the path.

mod apply;
mod content_store;
mod folder;
mod git_ignore;
mod git_settings;
mod line_ends;
mod workspace;
mod workspace_path;

pub use apply::{Applier, ApplyError, FileReplacement, StagedFile};
pub use content_store::ContentStore;
pub use folder::{DRAFTS, FolderHandle, FolderLock, InvalidFileName, LockWait, TEMP_FILE_PREFIX};
pub use git_ignore::UnreadableIgnoreList;
pub use git_settings::GitSettings;
pub use line_ends::restore_line_ends;
pub use workspace::{FileError, FileSnapshot, PathKind, Walk, Workspace};
pub use workspace_path::{HANDOFF, InvalidPath, WorkspacePath};

//! Creates the drafts folder of a workspace, and adds it to the `.gitignore` of the workspace.

use std::path::Path;

use assize_types::{Failure, FailureKind};
use assize_workspace::{DRAFTS, FileError, HANDOFF, Workspace};

/// Name of git's ignore file.
const IGNORE: &str = ".gitignore";

/// Maximum size of the `.gitignore` file in bytes.
const MAX_SIZE: u64 = 16 << 20;

/// Lines of a `.gitignore` that already make git ignore the drafts folder.
const KNOWN: [&str; 7] = [
    "/_handoff/*",
    "_handoff/*",
    "/_handoff/",
    "_handoff/",
    "/_handoff",
    "_handoff",
    "**/_handoff/",
];

/// Lines for a `.gitignore` that make git ignore the drafts folder but not the contract.
pub const IGNORED: &str = "/_handoff/*\n!/_handoff/TASK_CONTRACT.json";

/// The `.gitignore` of a workspace.
#[derive(Debug)]
pub struct IgnoreFile {
    workspace: Workspace,
    text: String,
}

fn failed(folder: &Path, what: &str, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot access `{}`: {error}", folder.join(what).display());
    Failure::new(FailureKind::Environment, message)
}

/// Creates the drafts folder of a workspace and reads its `.gitignore`.
pub fn prepare(folder: &Path) -> Result<IgnoreFile, Failure> {
    let workspace = Workspace::open(folder).map_err(|error| failed(folder, "", &error))?;
    let made =
        workspace.root().open_or_create(HANDOFF).and_then(|handoff| handoff.open_or_create(DRAFTS));
    made.map_err(|error| failed(folder, HANDOFF, &error))?;
    // This read does not follow a symbolic link, which could point outside the workspace.
    let text = match workspace.root().read(IGNORE, MAX_SIZE) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(FileError::Missing) => String::new(),
        Err(error) => return Err(failed(folder, IGNORE, &error)),
    };
    Ok(IgnoreFile { workspace, text })
}

impl IgnoreFile {
    /// Whether the `.gitignore` already makes git ignore the drafts folder.
    pub fn ignores_drafts(&self) -> bool {
        self.text.lines().any(|line| KNOWN.contains(&line.trim()))
    }

    /// Adds the lines to the `.gitignore` that make git ignore the drafts folder.
    pub fn add_ignore_lines(&self, folder: &Path) -> Result<(), Failure> {
        let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        let added = self.workspace.root().append(IGNORE, format!("{gap}{IGNORED}\n").as_bytes());
        added.map_err(|error| failed(folder, IGNORE, &error))
    }
}

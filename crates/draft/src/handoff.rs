//! The folder of drafts in a workspace, and what keeps it out of a repository.

use std::path::Path;

use assize_types::{Failure, FailureKind};
use assize_workspace::{DRAFTS, FileError, HANDOFF, Workspace};

/// The name of the file that lists what a repository leaves out.
const IGNORE: &str = ".gitignore";

/// The longest such file, in bytes.
const LONGEST: u64 = 16 << 20;

/// Lines that leave drafts out already.
const KNOWN: [&str; 7] = [
    "/_handoff/*",
    "_handoff/*",
    "/_handoff/",
    "_handoff/",
    "/_handoff",
    "_handoff",
    "**/_handoff/",
];

/// The lines that keep drafts out of a repository, and the contract in it.
pub const IGNORED: &str = "/_handoff/*\n!/_handoff/TASK_CONTRACT.json";

/// The `.gitignore` of a workspace.
#[derive(Debug)]
pub struct IgnoreFile {
    workspace: Workspace,
    text: String,
}

fn failed(folder: &Path, what: &str, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot use `{}`: {error}", folder.join(what).display());
    Failure::new(FailureKind::Environment, message)
}

/// Makes the folder of drafts in a workspace, and reads its `.gitignore`.
pub fn prepare(folder: &Path) -> Result<IgnoreFile, Failure> {
    let workspace = Workspace::open(folder).map_err(|error| failed(folder, "", &error))?;
    let made = workspace.root().folder(HANDOFF).and_then(|handoff| handoff.folder(DRAFTS));
    made.map_err(|error| failed(folder, HANDOFF, &error))?;
    // Through no link: it may lead anywhere.
    let text = match workspace.root().read(IGNORE, LONGEST) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(FileError::Missing) => String::new(),
        Err(error) => return Err(failed(folder, IGNORE, &error)),
    };
    Ok(IgnoreFile { workspace, text })
}

impl IgnoreFile {
    /// Whether it leaves drafts out.
    pub fn leaves_drafts_out(&self) -> bool {
        self.text.lines().any(|line| KNOWN.contains(&line.trim()))
    }

    /// Adds the lines that leave drafts out.
    pub fn leave_drafts_out(&self, folder: &Path) -> Result<(), Failure> {
        let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        let added = self.workspace.root().append(IGNORE, format!("{gap}{IGNORED}\n").as_bytes());
        added.map_err(|error| failed(folder, IGNORE, &error))
    }
}

//! The project's own tests, on a copy of the workspace with the drafts in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::book::Submission;
use crate::contract::Verify;
use crate::desk::Desk;
use crate::globs::Globs;
use crate::inside::Inside;
use crate::policy::{Places, Policy};
use crate::workspace::{FileError, Kind, Names, Workspace};

/// How a verification went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub command: String,
    pub passed: bool,
    /// Such as `exit code 1` or `took longer than 120 s`.
    pub outcome: String,
    /// The end of what it printed.
    pub output: String,
    /// Where it ran.
    pub isolation: String,
    pub seconds: u64,
}

/// A verification that could not be had: a person decides.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotVerified(pub String);

/// Whoever can run a command in a sandbox.
#[async_trait]
pub trait Verifier: Send + Sync {
    /// Runs the command on a copy of the workspace.
    ///
    /// # Errors
    /// When it could not be run.
    async fn verify(&self, how: &Verify, copy: &Path) -> Result<Verified, NotVerified>;
}

/// Files of a workspace that are copied at most.
const MOST_FILES: usize = 200_000;

impl Desk {
    /// Runs the verification that the contract or the settings ask for.
    pub(crate) async fn verify(
        &self,
        submission: &Submission,
        how: &Verify,
        policy: &Policy,
    ) -> Result<Verified, NotVerified> {
        let most = &policy.verify_most;
        let over = |what: &str, needs: u64, most: u64, setting: &str| {
            NotVerified(format!(
                "it needs {needs} {what}, and {most} are allowed (setting `{setting}`)"
            ))
        };
        if how.memory_mb > most.memory_mb {
            let setting = "draft.verify_memory";
            return Err(over("megabytes of memory", how.memory_mb, most.memory_mb, setting));
        }
        if how.seconds > most.seconds {
            return Err(over("seconds", how.seconds, most.seconds, "draft.verify_seconds"));
        }
        if let Some(layer) = how.layers.iter().find(|layer| !most.layers.contains(layer)) {
            return Err(NotVerified(format!(
                "it needs to see `{layer}`, which is not allowed (setting `draft.verify_layers`)"
            )));
        }
        if let Some(layer) = how.layers.iter().find(|layer| !Path::new(layer).is_dir()) {
            return Err(NotVerified(format!("it needs the folder `{layer}`, which is not there")));
        }
        let verifier = self.options.verifier.clone();
        let verifier =
            verifier.ok_or_else(|| NotVerified("there is no sandbox here".to_owned()))?;
        let failed = |error: &dyn std::fmt::Display| {
            NotVerified(format!("the workspace could not be copied: {error}"))
        };
        let mut drafts = BTreeMap::new();
        for file in &submission.files {
            let bytes = self.copy(file.after).map_err(|error| failed(&error))?;
            drafts.insert(file.path.clone(), bytes);
        }
        let places = policy.places().map_err(|error| failed(&error))?;
        let copying = Copying {
            workspace: &self.workspace,
            exclude: Globs::new(&how.exclude).map_err(|error| failed(&error))?,
            places,
            room: how.memory_mb << 20,
        };
        let copy = copying.copy(&drafts, self.own_folder())?;
        verifier.verify(how, copy.path()).await
    }
}

/// How a workspace is copied.
struct Copying<'a> {
    workspace: &'a Workspace,
    exclude: Globs,
    places: Places,
    /// Bytes that there is room for.
    room: u64,
}

impl Copying<'_> {
    /// A copy with the drafts in it, which is gone when nobody holds it.
    fn copy(
        &self,
        drafts: &BTreeMap<String, Vec<u8>>,
        beside: &Path,
    ) -> Result<TempDir, NotVerified> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            NotVerified(format!("the workspace could not be copied: {what}: {error}"))
        };
        let copy = tempfile::Builder::new().prefix("verify-").tempdir_in(beside);
        let copy = copy.map_err(|error| failed("a folder", &error))?;
        let wanted = |path: &Inside, kind: Kind| {
            let text = path.to_string();
            let inner = if kind == Kind::Folder { format!("{text}/x") } else { text };
            !self.places.is_hidden(path) && !self.exclude.matches(&inner)
        };
        let found = self.workspace.walk(MOST_FILES, &wanted);
        let found = found.map_err(|error| failed("its folder", &error))?;
        if found.cut {
            let why = format!("it has more than {MOST_FILES} files (see `verify.exclude`)");
            return Err(failed("its folder", &why));
        }
        let mut room = self.room;
        for (path, kind) in &found.files {
            let name = path.to_string();
            let to = copy.path().join(&name);
            let put = || -> Result<u64, FileError> {
                if let Some(folder) = to.parent() {
                    fs::create_dir_all(folder)?;
                }
                if *kind == Kind::Link {
                    symlink(self.workspace.link(path)?, &to)?;
                    return Ok(0);
                }
                let original = self.workspace.read_with(path, room, Names::Several)?;
                put(&to, &original.bytes, original.mode)?;
                Ok(original.bytes.len() as u64)
            };
            match put() {
                Ok(bytes) => room = room.saturating_sub(bytes),
                Err(FileError::Missing | FileError::Special) => {}
                Err(FileError::TooLarge(_)) => {
                    let why = "it does not fit into the memory of the verification; leave more out \
                               (`verify.exclude`) or ask for more (`verify.memory_mb`)";
                    return Err(failed("it", &why));
                }
                Err(error) => return Err(failed(&name, &error)),
            }
        }
        for (name, bytes) in drafts {
            let to = copy.path().join(name);
            let put = || -> std::io::Result<()> {
                if let Some(folder) = to.parent() {
                    fs::create_dir_all(folder)?;
                }
                let mode = match fs::symlink_metadata(&to) {
                    Ok(there) => std::os::unix::fs::MetadataExt::mode(&there),
                    Err(_) => 0o644,
                };
                let _ = fs::remove_file(&to);
                put(&to, bytes, mode)
            };
            put().map_err(|error| failed(name, &error))?;
        }
        Ok(copy)
    }
}

fn put(to: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    use std::io::Write;
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(mode & 0o777).open(to)?;
    file.write_all(bytes)
}

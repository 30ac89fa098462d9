//! The project's own tests, on a copy of the workspace with the drafts in it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::book::Submission;
use crate::contract::Verify;
use crate::desk::Desk;
use crate::folder::Folder;
use crate::globs::Globs;
use crate::inside::Inside;
use crate::policy::{Places, Policy};
use crate::workspace::{FileError, Kind, Workspace};

/// How a verification went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub command: String,
    pub passed: bool,
    /// Such as `exit code 1` or `took longer than 120 s`.
    pub outcome: String,
    /// The end of what it printed, some kilobytes.
    pub output: String,
    /// Where it ran.
    pub isolation: String,
    pub seconds: u64,
}

/// A verification that could not be had: a person decides.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotVerified(pub String);

/// A virtual environment that the contract or the settings name for a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEnvironment {
    /// As a full path.
    pub path: PathBuf,
    /// The settings name it, which a repository cannot.
    pub by_settings: bool,
}

/// Runs commands in a sandbox.
#[async_trait]
pub trait Verifier: Send + Sync {
    /// Runs the command on a copy of the workspace, with the virtual environment if one is named.
    ///
    /// # Errors
    /// When it could not be run.
    async fn verify(
        &self,
        how: &Verify,
        python: Option<&NamedEnvironment>,
        copy: &Path,
    ) -> Result<Verified, NotVerified>;
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
        let python = self.python(how, policy)?;
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
            exclude: Globs::new(&how.exclude).map_err(|error| failed(&error))?,
            workspace: self.workspace.path().to_owned(),
            beside: self.own_folder().to_owned(),
            name: format!("verify-{}-", submission.id),
            room: how.memory_mb << 20,
            places,
            drafts,
        };
        // Many files may have to be copied.
        let copied = tokio::task::spawn_blocking(move || copying.copy()).await;
        let copy = copied.map_err(|error| failed(&error))??;
        verifier.verify(how, python.as_ref(), copy.path()).await
    }
}

impl Desk {
    /// The virtual environment of a verification. A contract may name one in the workspace, or one that the settings
    /// name. The settings hold for all workspaces: a relative path in them means nothing in one without such a folder.
    fn python(
        &self,
        how: &Verify,
        policy: &Policy,
    ) -> Result<Option<NamedEnvironment>, NotVerified> {
        let most = &policy.verify_most;
        let full = |path: &str| self.workspace.path().join(path);
        let applies = |path: &&String| Path::new(path).is_absolute() || full(path).exists();
        let setting = most.python.as_ref().filter(applies);
        let Some(named) = how.python.as_ref().or(setting) else { return Ok(None) };
        let folder = full(named).canonicalize().map_err(|error| {
            NotVerified(format!("it needs the virtual environment `{named}`: {error}"))
        })?;
        let allowed =
            most.python.iter().chain(&most.layers).filter_map(|p| full(p).canonicalize().ok());
        let inside =
            self.workspace.path().canonicalize().is_ok_and(|root| folder.starts_with(root));
        if self.workspace.path().canonicalize().is_ok_and(|root| root.starts_with(&folder)) {
            return Err(NotVerified(format!(
                "the virtual environment `{named}` contains the workspace, and so files that no worker may see"
            )));
        }
        if !inside && !allowed.into_iter().any(|allowed| folder.starts_with(allowed)) {
            return Err(NotVerified(format!(
                "it needs the virtual environment `{named}`, which is outside the workspace and not allowed \
                 (setting `draft.verify_python`)"
            )));
        }
        let by_settings = setting
            .and_then(|path| full(path).canonicalize().ok())
            .is_some_and(|path| path == folder);
        Ok(Some(NamedEnvironment { path: folder, by_settings }))
    }
}

/// How a workspace is copied.
struct Copying {
    workspace: PathBuf,
    /// Where the copy is made, and what its name begins with.
    beside: PathBuf,
    name: String,
    drafts: BTreeMap<String, Vec<u8>>,
    exclude: Globs,
    places: Places,
    /// Bytes that there is room for.
    room: u64,
}

impl Copying {
    /// A copy with the drafts in it, which is gone when nobody holds it.
    fn copy(self) -> Result<TempDir, NotVerified> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            NotVerified(format!("the workspace could not be copied: {what}: {error}"))
        };
        let made = tempfile::Builder::new().prefix(&self.name).tempdir_in(&self.beside);
        let made = made.map_err(|error| failed("a folder", &error))?;
        let copy = Folder::at(made.path()).map_err(|error| failed("a folder", &error))?;
        let workspace =
            Workspace::open(&self.workspace).map_err(|error| failed("its folder", &error))?;
        let found = workspace.walk(MOST_FILES, &|path, kind| self.wants(path, kind));
        let found = found.map_err(|error| failed("its folder", &error))?;
        if found.cut {
            let why = format!("it has more than {MOST_FILES} files (see `verify.exclude`)");
            return Err(failed("its folder", &why));
        }
        let mut room = self.room;
        for (path, kind) in &found.files {
            match self.put(&workspace, path, *kind, &copy, room) {
                Ok(bytes) => room = room.saturating_sub(bytes),
                Err(FileError::Missing | FileError::Special) => {}
                Err(FileError::TooLarge(_)) => {
                    let why = "it does not fit into the memory of the verification; leave more out \
                               (`verify.exclude`) or ask for more (`verify.memory_mb`)";
                    return Err(failed("it", &why));
                }
                Err(error) => return Err(failed(&path.to_string(), &error)),
            }
        }
        for (name, bytes) in &self.drafts {
            let put = || -> Result<(), FileError> {
                let path = Inside::below(None, name).ok_or(FileError::Missing)?;
                let (last, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
                // Made by us, through no link: whatever else is there is none of ours.
                let folder = copy.within(folders)?;
                let mode = folder.read_with_mode(last, self.room).map_or(0o644, |(_, mode)| mode);
                folder.discard(last)?;
                folder.create(last, mode)?.write_all(bytes)?;
                Ok(())
            };
            put().map_err(|error| failed(name, &error))?;
        }
        Ok(made)
    }

    fn wants(&self, path: &Inside, kind: Kind) -> bool {
        let text = path.to_string();
        let excluded = match kind {
            // All that could be in it, at any depth.
            Kind::Folder => {
                let inner = format!("{text}/\u{1}");
                self.exclude.matches(&inner) && self.exclude.matches(&format!("{inner}/\u{1}"))
            }
            Kind::File | Kind::Link => self.exclude.matches(&text),
        };
        !excluded && !self.places.is_hidden(path)
    }

    /// Puts one file of the workspace into the copy, if workers may see it; gives how many bytes it has.
    fn put(
        &self,
        workspace: &Workspace,
        path: &Inside,
        kind: Kind,
        copy: &Folder,
        room: u64,
    ) -> Result<u64, FileError> {
        let (last, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        if kind == Kind::Link {
            let folder = copy.within(folders)?;
            rustix::fs::symlinkat(workspace.link(path)?, folder.handle(), last)?;
            return Ok(0);
        }
        let original = workspace.read(path, room)?;
        if self.places.is_key(path, &original.bytes) {
            return Ok(0);
        }
        let folder = copy.within(folders)?;
        folder.create(last, original.mode & 0o777)?.write_all(&original.bytes)?;
        Ok(original.bytes.len() as u64)
    }
}

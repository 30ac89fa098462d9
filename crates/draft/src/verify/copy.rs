//! Copies of a workspace for verification.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use tempfile::TempDir;

use super::NotVerified;
use crate::folder::Folder;
use crate::globs::Globs;
use crate::inside::Inside;
use crate::places::Places;
use crate::workspace::{FileError, Kind, Workspace};

/// Files of a workspace that are copied at most.
const MOST_FILES: usize = 200_000;

/// How a workspace is copied.
pub(super) struct Copying {
    pub workspace: PathBuf,
    /// Where the copy is made, and what its name begins with.
    pub beside: PathBuf,
    pub name: String,
    pub drafts: BTreeMap<String, Vec<u8>>,
    pub exclude: Globs,
    pub places: Places,
    /// Bytes that there is room for.
    pub room: u64,
}

impl Copying {
    /// Copies the workspace with the drafts in it. The copy is deleted when the returned folder is dropped.
    pub(super) fn copy(self) -> Result<TempDir, NotVerified> {
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

//! Copies of a workspace for verification.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use assize_types::Fingerprint;
use assize_workspace::{FileError, Folder, Inside, Kind, Workspace};
use tempfile::TempDir;

use super::verifier::NotVerified;
use crate::globs::Globs;
use crate::places::Places;

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

/// A copy of a workspace.
pub(super) struct Copied {
    /// It is deleted when this is dropped.
    pub folder: TempDir,
    /// What stands for all its files.
    pub fingerprint: Fingerprint,
}

impl Copying {
    /// Copies the workspace with the drafts in it.
    pub(super) fn copy(self) -> Result<Copied, NotVerified> {
        let made = tempfile::Builder::new().prefix(&self.name).tempdir_in(&self.beside);
        let folder = made.map_err(|error| failed("a folder", &error))?;
        let into = Folder::at(folder.path()).map_err(|error| failed("a folder", &error))?;
        let fingerprint = self.go_through(Some(&into))?;
        Ok(Copied { folder, fingerprint })
    }

    /// What stands for all files that a copy would have.
    pub(super) fn fingerprint(self) -> Result<Fingerprint, NotVerified> {
        self.go_through(None)
    }

    /// Goes through all files of a copy, and makes them.
    fn go_through(&self, into: Option<&Folder>) -> Result<Fingerprint, NotVerified> {
        let workspace =
            Workspace::open(&self.workspace).map_err(|error| failed("its folder", &error))?;
        let found = workspace.walk(MOST_FILES, &|path, kind| self.wants(path, kind));
        let found = found.map_err(|error| failed("its folder", &error))?;
        if found.cut {
            let why = format!("it has more than {MOST_FILES} files (see `verify.exclude`)");
            return Err(failed("its folder", &why));
        }
        let mut room = self.room;
        let mut fingerprints = BTreeMap::new();
        for (path, kind) in &found.files {
            match self.put(&workspace, path, *kind, into, room) {
                Ok(None) => {}
                Ok(Some((bytes, fingerprint))) => {
                    room = room.saturating_sub(bytes);
                    fingerprints.insert(path.to_string(), fingerprint);
                }
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
            let path =
                Inside::below(None, name).ok_or_else(|| failed(name, &FileError::Missing))?;
            if let Some(into) = into {
                self.put_draft(&path, bytes, into).map_err(|error| failed(name, &error))?;
            }
            fingerprints.insert(path.to_string(), Fingerprint::of(bytes));
        }
        let lines = fingerprints.iter().map(|(path, content)| format!("{path}\0{content}\n"));
        Ok(Fingerprint::of(lines.collect::<String>()))
    }

    /// Puts a draft into the copy, in the place of what is there.
    fn put_draft(&self, path: &Inside, bytes: &[u8], into: &Folder) -> Result<(), FileError> {
        let (last, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        // Made by us, through no link: whatever else is there is none of ours.
        let folder = into.within(folders)?;
        let mode = folder.read_with_mode(last, self.room).map_or(0o644, |(_, mode)| mode);
        folder.discard(last)?;
        folder.create(last, mode)?.write_all(bytes)?;
        Ok(())
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

    /// Puts one file of the workspace into the copy, if workers may see it; gives how many bytes it has, and what stands for
    /// its content.
    fn put(
        &self,
        workspace: &Workspace,
        path: &Inside,
        kind: Kind,
        into: Option<&Folder>,
        room: u64,
    ) -> Result<Option<(u64, Fingerprint)>, FileError> {
        let (last, folders) = path.parts().split_last().ok_or(FileError::Missing)?;
        if kind == Kind::Link {
            let target = workspace.link(path)?;
            if let Some(into) = into {
                rustix::fs::symlinkat(&target, into.within(folders)?, last)?;
            }
            return Ok(Some((0, Fingerprint::of(format!("link to {}", target.display())))));
        }
        let original = workspace.read(path, room)?;
        if self.places.is_key(path, &original.bytes) {
            return Ok(None);
        }
        if let Some(into) = into {
            let folder = into.within(folders)?;
            folder.create(last, original.mode & 0o777)?.write_all(&original.bytes)?;
        }
        Ok(Some((original.bytes.len() as u64, original.sha256)))
    }
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> NotVerified {
    NotVerified(format!("the workspace could not be copied: {what}: {error}"))
}

//! Store of the project folders whose settings files the user trusts.
//!
//! Trust applies to the current content of the folder's files. When they change, the user must trust them again:
//! otherwise an attacker who can change a trusted repository could redirect the user's API key.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind, Fingerprint};

use crate::file::read_text;

/// Trust state of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    Given,
    /// The user trusted the folder, but its files have changed since.
    Outdated,
    Never,
}

impl Trust {
    /// Why a setting that requires trust has no effect.
    pub fn why_not(self) -> &'static str {
        match self {
            Trust::Outdated => "the folder was trusted, and its files have changed since",
            Trust::Given | Trust::Never => "the folder is not trusted",
        }
    }
}

/// The trusted folders, each with the fingerprint of its files; stored in `trusted.json`.
#[derive(Debug)]
pub struct TrustStore {
    path: PathBuf,
    folders: BTreeMap<String, String>,
}

impl TrustStore {
    pub fn open(state_folder: &Path) -> Result<TrustStore, Failure> {
        let path = state_folder.join("trusted.json");
        let unreadable = |failure: Failure| {
            failure.hint(
                "make it a file that you can read, or remove it and trust your folders again with \
                 `assize config trust`",
            )
        };
        let folders = match read_text(&path).map_err(unreadable)? {
            None => BTreeMap::new(),
            Some(text) => serde_json::from_str(&text).map_err(|error| {
                let message = format!("`{}` is damaged: {error}", path.display());
                Failure::new(FailureKind::Settings, message)
                    .hint("delete it, and trust your folders again with `assize config trust`")
            })?,
        };
        Ok(TrustStore { path, folders })
    }

    /// Trust state of a folder whose files have this fingerprint.
    pub fn of(&self, folder: &Path, fingerprint: &str) -> Trust {
        match self.folders.get(&name(folder)) {
            None => Trust::Never,
            Some(trusted) if trusted == fingerprint => Trust::Given,
            Some(_) => Trust::Outdated,
        }
    }

    pub fn give(&mut self, folder: &Path, fingerprint: &str) -> Result<(), Failure> {
        self.folders.insert(name(folder), fingerprint.to_owned());
        self.save()
    }

    /// Revokes trust; returns whether the folder was in the store.
    pub fn take(&mut self, folder: &Path) -> Result<bool, Failure> {
        let removed = self.folders.remove(&name(folder)).is_some();
        self.save()?;
        Ok(removed)
    }

    fn save(&self) -> Result<(), Failure> {
        let write = || -> std::io::Result<()> {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec_pretty(&self.folders)?)?;
            file.as_file().sync_all()?;
            file.persist(&self.path)?;
            Ok(())
        };
        write().map_err(|error| {
            let message = format!("cannot write `{}`: {error}", self.path.display());
            Failure::new(FailureKind::Environment, message)
        })
    }
}

fn name(folder: &Path) -> String {
    folder.to_string_lossy().into_owned()
}

/// Fingerprint of the texts of a folder's `assize.toml` and `.env`. Callers pass the texts that they parse, because a
/// file read twice could change in between.
pub fn fingerprint(texts: [Option<&str>; 2]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        let text = text.unwrap_or_default();
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Fingerprint::of(bytes).to_string()
}

//! Store of the project folders whose settings files the user trusts.
//!
//! Trust applies to the current content of the folder's `assize.toml` and `.env`. When one of these files changes, the
//! user must trust the folder again. Without this rule, an attacker who can change a trusted repository could send the
//! user's API key to a server of the attacker.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind, Fingerprint};

use crate::file::read_text;

/// Trust state of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The user trusts the current content of the folder's `assize.toml` and `.env`.
    Trusted,
    /// The user trusted the folder, but its `assize.toml` or `.env` has changed since then.
    Outdated,
    /// The user has not trusted the folder.
    Untrusted,
}

impl Trust {
    /// Explains to the user why a setting that requires trust has no effect.
    pub fn explanation(self) -> &'static str {
        match self {
            Trust::Outdated => {
                "the folder's `assize.toml` or `.env` has changed since you trusted the folder"
            }
            Trust::Trusted | Trust::Untrusted => "the folder is not trusted",
        }
    }
}

/// Store of the trusted folders (`trusted.json`). For each folder, the store contains the fingerprint of the files that
/// the user trusted.
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
                "make it a regular file that you can read, or remove it and trust your folders again with \
                 `assize config trust`",
            )
        };
        let folders = match read_text(&path).map_err(unreadable)? {
            None => BTreeMap::new(),
            Some(text) => serde_json::from_str(&text).map_err(|error| {
                let message = format!(
                    "the list of trusted folders `{}` is not valid JSON: {error}",
                    path.display()
                );
                Failure::new(FailureKind::Settings, message).hint(
                    "delete the file, and trust your folders again with `assize config trust`",
                )
            })?,
        };
        Ok(TrustStore { path, folders })
    }

    /// Returns the trust state of a folder whose files currently have this fingerprint.
    pub fn state_of(&self, folder: &Path, fingerprint: &str) -> Trust {
        match self.folders.get(&name(folder)) {
            None => Trust::Untrusted,
            Some(trusted) if trusted == fingerprint => Trust::Trusted,
            Some(_) => Trust::Outdated,
        }
    }

    /// Records that the user trusts a folder whose files have this fingerprint.
    pub fn trust(&mut self, folder: &Path, fingerprint: &str) -> Result<(), Failure> {
        self.folders.insert(name(folder), fingerprint.to_owned());
        self.save()
    }

    /// Revokes the trust in a folder; returns whether the folder was in the store.
    pub fn revoke(&mut self, folder: &Path) -> Result<bool, Failure> {
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

/// Computes the fingerprint of the texts of a folder's `assize.toml` and `.env`. Callers pass the texts that they
/// parse, because a file could change before it is read a second time.
pub fn fingerprint(texts: [Option<&str>; 2]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        let text = text.unwrap_or_default();
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Fingerprint::of(bytes).to_string()
}

//! Which folders the user trusts to say where keys go.
//!
//! Trust is given to what the folder's files say now. When they change, it must be given again:
//! otherwise whoever can change a trusted repository could redirect the user's key.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind, Fingerprint};

use crate::file::read_text;

/// What became of a folder's trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    Given,
    /// Given once, to files that have changed since.
    Outdated,
    Never,
}

impl Trust {
    /// Why a setting that takes trust has no effect.
    pub fn why_not(self) -> &'static str {
        match self {
            Trust::Outdated => "the folder was trusted, and its files have changed since",
            Trust::Given | Trust::Never => "the folder is not trusted",
        }
    }
}

/// The folders that are trusted, each with the fingerprint of its files.
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

    /// Whether a folder whose files have this fingerprint is trusted.
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

    /// Takes trust back; whether there was any.
    pub fn take(&mut self, folder: &Path) -> Result<bool, Failure> {
        let was = self.folders.remove(&name(folder)).is_some();
        self.save()?;
        Ok(was)
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

/// The fingerprint of what a folder's `assize.toml` and `.env` say. It is taken of the very text that
/// is then used: a file could change between two readings.
pub fn fingerprint(texts: [Option<&str>; 2]) -> String {
    let mut bytes = Vec::new();
    for text in texts {
        let text = text.unwrap_or_default();
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    Fingerprint::of(bytes).to_string()
}

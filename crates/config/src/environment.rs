//! What the program reads from its process: variables, folders and files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where assize looks for what it is told: handed in, so that nothing below reads the process.
#[derive(Debug, Clone)]
pub struct Environment {
    pub environment: BTreeMap<String, String>,
    pub working_folder: PathBuf,
    pub home: PathBuf,
    /// The user's settings file.
    pub user_file: PathBuf,
    /// Where trust is kept.
    pub state_folder: PathBuf,
    /// Where what can be made again is kept.
    pub cache_folder: PathBuf,
    /// Who is told why something takes a while that seldom does.
    pub say: fn(&str),
}

impl Environment {
    /// A path that the user typed, relative to the working folder.
    pub fn typed(&self, path: &Path) -> PathBuf {
        self.working_folder.join(path)
    }

    /// Environment with these variables and all files in one folder.
    pub fn in_folder(folder: &Path, environment: BTreeMap<String, String>) -> Environment {
        Environment {
            environment,
            working_folder: folder.to_owned(),
            home: folder.to_owned(),
            user_file: folder.join("settings.toml"),
            state_folder: folder.join("state"),
            cache_folder: folder.join("cache"),
            say: |_| {},
        }
    }

    /// The folder of the nearest `assize.toml`, from the working folder up to the repository's root or
    /// the user's home; the working folder if there is none.
    pub(crate) fn project_folder(&self) -> &Path {
        for folder in self.working_folder.ancestors() {
            if folder.join("assize.toml").exists() {
                return folder;
            }
            if folder.join(".git").exists() || folder == self.home {
                break;
            }
        }
        &self.working_folder
    }
}

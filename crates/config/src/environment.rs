//! Environment of the process: variables, folders and files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Variables, folders and files that settings are read from. The CLI passes it in, so that no library reads the
/// process environment.
#[derive(Debug, Clone)]
pub struct Environment {
    pub environment: BTreeMap<String, String>,
    pub working_folder: PathBuf,
    pub home: PathBuf,
    /// The user's settings file.
    pub user_file: PathBuf,
    /// Folder of the user's state, such as the list of trusted folders.
    pub state_folder: PathBuf,
    /// Folder of files that can be downloaded or built again.
    pub cache_folder: PathBuf,
    /// Callback that shows the user why an operation takes unusually long.
    pub say: fn(&str),
}

impl Environment {
    /// Resolves a path typed by the user against the working folder.
    pub fn typed(&self, path: &Path) -> PathBuf {
        self.working_folder.join(path)
    }

    /// Environment with these variables and with all files in one folder, for tests and tools.
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

    /// The folder of the nearest `assize.toml`, searched from the working folder up to the repository's root or the
    /// user's home; the working folder if no such file exists.
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

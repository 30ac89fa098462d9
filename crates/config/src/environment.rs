//! Environment of the process: its variables, and the folders and files that assize uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Environment variables, folders and files that settings are read from. The command line creates this value, so that
/// no library reads the environment of the process.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Environment variables of the process, by name.
    pub variables: BTreeMap<String, String>,
    pub working_folder: PathBuf,
    /// Home folder of the user.
    pub home: PathBuf,
    /// The user's settings file.
    pub user_file: PathBuf,
    /// Folder for the user's state, such as the store of runs and the list of trusted folders.
    pub state_folder: PathBuf,
    /// Folder for files that can be downloaded or built again.
    pub cache_folder: PathBuf,
    /// Callback that shows a message to the user, such as why an operation takes unusually long.
    pub show_message: fn(&str),
}

impl Environment {
    /// Resolves a path that the user typed. A relative path is relative to the working folder.
    pub fn resolve_path(&self, path: &Path) -> PathBuf {
        self.working_folder.join(path)
    }

    /// Path of the user's file of API keys, beside the settings file. It has the format of a `.env` file.
    pub fn keys_file(&self) -> PathBuf {
        self.user_file.with_file_name("keys.env")
    }

    /// Creates an environment for tests and tools. It has the given variables, and all of its folders and files are
    /// inside `folder`.
    pub fn in_folder(folder: &Path, variables: BTreeMap<String, String>) -> Environment {
        Environment {
            variables,
            working_folder: folder.to_owned(),
            home: folder.to_owned(),
            user_file: folder.join("settings.toml"),
            state_folder: folder.join("state"),
            cache_folder: folder.join("cache"),
            show_message: |_| {},
        }
    }

    /// Returns the folder of the nearest `assize.toml`. The search starts in the working folder and ends at the root of
    /// the repository or at the user's home folder. Without such a file, returns the working folder.
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

//! Files that git ignores. A change to an ignored file does not show in `git diff`.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::git_settings::{GitRepository, GitSettings, LARGEST, read_start};
use crate::workspace::{FileError, Workspace};
use crate::workspace_path::WorkspacePath;

/// Text reported instead of the path of an ignore list that is set with the git setting `core.excludesFile`, because
/// agents must not see this path.
const USER_LIST: &str = "core.excludesFile";

/// Error for an ignore list that this crate cannot read. Git may be able to read the list, so it is unknown whether git
/// ignores the path that is checked.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the ignore list `{list}`: {reason}")]
pub struct UnreadableIgnoreList {
    list: String,
    reason: FileError,
}

impl Workspace {
    /// Returns the name of the ignore list whose patterns make git ignore `path`, or `None` if git does not ignore
    /// `path`. A committed file that matches a pattern also counts as ignored.
    pub fn ignored_by(
        &self,
        path: &WorkspacePath,
        settings: &GitSettings,
    ) -> Result<Option<String>, UnreadableIgnoreList> {
        let repository = GitRepository::of(self.path());
        let top = repository.as_ref().map_or(self.path(), |repository| &repository.root);
        // If several of these ignore lists match a path, the last matching list decides.
        let mut lists = Vec::new();
        let mut user_lists = Vec::new();
        if let Some(repository) = &repository {
            for list in settings.lists(repository) {
                user_lists.extend(patterns(top, &read_list(&list, USER_LIST)?));
            }
            let name = ".git/info/exclude";
            let exclude = patterns(top, &read_list(&repository.exclude, name)?);
            lists.extend(exclude.map(|list| (name.to_owned(), list)));
        }
        let file = path.parts().iter().fold(self.path().to_owned(), |file, part| file.join(part));
        let mut at = top.to_owned();
        // Git cannot re-include a file whose folder is ignored, so the loop stops at the first ignored folder.
        let Ok(parts) = file.strip_prefix(top) else { return Ok(None) };
        for part in parts.components() {
            lists.extend(self.list_in(&at)?);
            at.push(part);
            let is_folder = at != file;
            let decided = lists.iter().rev().find_map(|(name, list)| {
                let found = list.matched(&at, is_folder);
                (!found.is_none()).then(|| found.is_ignore().then(|| name.clone()))
            });
            // The lists that `core.excludesFile` names are matched independently, so that no list can re-include a file
            // that another list ignores.
            let by_user = || user_lists.iter().any(|list| list.matched(&at, is_folder).is_ignore());
            let by = decided.unwrap_or_else(|| by_user().then(|| USER_LIST.to_owned()));
            if by.is_some() {
                return Ok(by);
            }
        }
        Ok(None)
    }

    /// Reads the `.gitignore` file of a folder. Returns its path relative to the workspace, and its patterns. `None` if
    /// the file is missing or has no patterns.
    fn list_in(&self, folder: &Path) -> Result<Option<(String, Gitignore)>, UnreadableIgnoreList> {
        let file = folder.join(".gitignore");
        let (name, bytes) = match file.strip_prefix(self.path()) {
            Ok(inside) => {
                let name = inside.to_string_lossy().into_owned();
                let Ok(inside) = self.parse_path(&name) else { return Ok(None) };
                match self.read(&inside, LARGEST) {
                    Ok(file) => (name, file.bytes),
                    Err(reason @ (FileError::TooLarge(_) | FileError::HardLinked(_))) => {
                        return Err(UnreadableIgnoreList { list: name, reason });
                    }
                    // Git cannot read such a file either, or does not follow the link.
                    Err(_) => return Ok(None),
                }
            }
            Err(_) => {
                let name = ".gitignore";
                (name.to_owned(), read_list(&file, name)?)
            }
        };
        Ok(patterns(folder, &bytes).map(|list| (name, list)))
    }
}

/// Reads an ignore list outside the workspace. Returns no bytes if the file is missing or not a regular file.
fn read_list(file: &Path, name: &str) -> Result<Vec<u8>, UnreadableIgnoreList> {
    let bytes = read_start(file, LARGEST + 1);
    if bytes.len() as u64 > LARGEST {
        let reason = FileError::TooLarge(LARGEST);
        return Err(UnreadableIgnoreList { list: name.to_owned(), reason });
    }
    Ok(bytes)
}

/// Parses the patterns of one ignore list. The patterns apply to paths below `folder`.
fn patterns(folder: &Path, bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(bytes).lines() {
        // An invalid pattern is skipped, as git does.
        drop(builder.add_line(None, line));
    }
    builder.build().ok().filter(|list| !list.is_empty())
}

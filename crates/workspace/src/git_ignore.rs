//! Files that git ignores. A change to an ignored file does not show in `git diff`.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::git_settings::{GitRepository, GitSettings, LARGEST, read_start};
use crate::workspace::Workspace;
use crate::workspace_path::WorkspacePath;

/// Name reported for every ignore list that the git setting `core.excludesFile` names. Agents must not see the paths of
/// these lists.
const USER_LIST: &str = "core.excludesFile";

impl Workspace {
    /// Returns the name of the ignore list whose patterns make git ignore `path`, or `None` if git does not ignore
    /// `path`. A committed file that matches a pattern also counts as ignored.
    pub fn ignored_by(&self, path: &WorkspacePath, settings: &GitSettings) -> Option<String> {
        let repository = GitRepository::of(self.path());
        let top = repository.as_ref().map_or(self.path(), |repository| &repository.root);
        // If several of these ignore lists match a path, the last matching list decides.
        let mut lists = Vec::new();
        let mut user_lists = Vec::new();
        if let Some(repository) = &repository {
            let named = settings.lists(repository);
            user_lists.extend(named.iter().filter_map(|list| patterns(top, &read_start(list))));
            let exclude = patterns(top, &read_start(&repository.exclude));
            lists.extend(exclude.map(|list| (".git/info/exclude".to_owned(), list)));
        }
        let file = path.parts().iter().fold(self.path().to_owned(), |file, part| file.join(part));
        let mut at = top.to_owned();
        // Git cannot re-include a file whose folder is ignored, so the loop stops at the first ignored folder.
        for part in file.strip_prefix(top).ok()?.components() {
            lists.extend(self.list_in(&at));
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
                return by;
            }
        }
        None
    }

    /// Reads the `.gitignore` file of a folder. Returns its path relative to the workspace, and its patterns. `None` if
    /// the file is missing or has no patterns.
    fn list_in(&self, folder: &Path) -> Option<(String, Gitignore)> {
        let file = folder.join(".gitignore");
        let (name, bytes) = match file.strip_prefix(self.path()) {
            Ok(inside) => {
                let name = inside.to_string_lossy().into_owned();
                let inside = self.parse_path(&name).ok()?;
                let bytes = self.read(&inside, LARGEST).ok()?.bytes;
                (name, bytes)
            }
            Err(_) => (".gitignore".to_owned(), read_start(&file)),
        };
        patterns(folder, &bytes).map(|list| (name, list))
    }
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

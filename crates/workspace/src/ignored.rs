//! Files that git ignores. A change to an ignored file does not show in `git diff`.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::git_settings::{GitRepository, GitSettings, LARGEST, read_start};
use crate::inside::WorkspacePath;
use crate::workspace::Workspace;

/// Reported name of every list set by `core.excludesFile`, because agents must not see the paths of those lists.
const USER_LIST: &str = "core.excludesFile";

impl Workspace {
    /// Returns the file whose patterns make git ignore `path`, or `None` if git does not ignore it. A committed file
    /// that matches a pattern also counts as ignored.
    pub fn ignored_by(&self, path: &WorkspacePath, settings: &GitSettings) -> Option<String> {
        let repository = GitRepository::of(self.path());
        let top = repository.as_ref().map_or(self.path(), |repository| &repository.root);
        // If several lists match a path, the last one decides.
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
        // A file in an ignored folder cannot be re-included, so stop at the first ignored ancestor.
        for part in file.strip_prefix(top).ok()?.components() {
            lists.extend(self.list_in(&at));
            at.push(part);
            let is_folder = at != file;
            let decided = lists.iter().rev().find_map(|(name, list)| {
                let found = list.matched(&at, is_folder);
                (!found.is_none()).then(|| found.is_ignore().then(|| name.clone()))
            });
            // The user's lists are independent: a list cannot re-include a file that another list ignores.
            let by_user = || user_lists.iter().any(|list| list.matched(&at, is_folder).is_ignore());
            let by = decided.unwrap_or_else(|| by_user().then(|| USER_LIST.to_owned()));
            if by.is_some() {
                return by;
            }
        }
        None
    }

    /// Reads the `.gitignore` of a folder between the repository root and a file; returns its name and patterns.
    fn list_in(&self, folder: &Path) -> Option<(String, Gitignore)> {
        let file = folder.join(".gitignore");
        let (name, bytes) = match file.strip_prefix(self.path()) {
            Ok(inside) => {
                let name = inside.to_string_lossy().into_owned();
                let inside = self.inside(&name).ok()?;
                let bytes = self.read(&inside, LARGEST).ok()?.bytes;
                (name, bytes)
            }
            Err(_) => (".gitignore".to_owned(), read_start(&file)),
        };
        patterns(folder, &bytes).map(|list| (name, list))
    }
}

/// Parses the patterns of one ignore file; they apply below `folder`.
fn patterns(folder: &Path, bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(bytes).lines() {
        // Git also skips invalid patterns.
        drop(builder.add_line(None, line));
    }
    builder.build().ok().filter(|list| !list.is_empty())
}

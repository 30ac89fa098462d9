//! Files that git ignores: a change to one shows in no `git diff`.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::git_settings::{GitSettings, LARGEST, Repository, read_start};
use crate::inside::Inside;
use crate::workspace::Workspace;

/// Name of the lists that settings of git name. Their paths are no business of workers.
const USER_LIST: &str = "core.excludesFile";

impl Workspace {
    /// The file whose patterns make git ignore a path; `None` if git does not ignore it. A file that was committed
    /// although a pattern matches it counts as ignored, too.
    pub fn ignored_by(&self, path: &Inside, settings: &GitSettings) -> Option<String> {
        let repository = Repository::of(self.path());
        let top = repository.as_ref().map_or(self.path(), |repository| &repository.root);
        // Of the lists that say something about a path, the last one decides.
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
        // Nothing brings back a file whose folder is ignored.
        for part in file.strip_prefix(top).ok()?.components() {
            lists.extend(self.list_in(&at));
            at.push(part);
            let is_folder = at != file;
            let decided = lists.iter().rev().find_map(|(name, list)| {
                let found = list.matched(&at, is_folder);
                (!found.is_none()).then(|| found.is_ignore().then(|| name.clone()))
            });
            // Each of the user's lists stands alone: none can bring back what another ignores.
            let by_user = || user_lists.iter().any(|list| list.matched(&at, is_folder).is_ignore());
            let by = decided.unwrap_or_else(|| by_user().then(|| USER_LIST.to_owned()));
            if by.is_some() {
                return by;
            }
        }
        None
    }

    /// The list of a folder on the way from the root of the repository to a file, with its name.
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

/// The patterns of one file, which hold below a folder.
fn patterns(folder: &Path, bytes: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(bytes).lines() {
        // Git skips an invalid pattern, too.
        drop(builder.add_line(None, line));
    }
    builder.build().ok().filter(|list| !list.is_empty())
}

//! Files that git ignores: a change to one shows in no `git diff`.

use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::inside::Inside;
use crate::workspace::Workspace;

/// The largest file of patterns that is read.
const LARGEST: u64 = 1 << 20;

impl Workspace {
    /// The file whose patterns make git ignore a path; `None` if git does not ignore it. A file that was committed
    /// although a pattern matches it counts as ignored, too.
    pub(crate) fn ignored_by(&self, path: &Inside) -> Option<String> {
        let mut lists = Vec::new();
        for folder in self.repository_folders() {
            let exclude = std::fs::read(folder.join(".git/info/exclude")).unwrap_or_default();
            lists.extend(patterns(&folder, ".git/info/exclude", &exclude));
            if folder != self.path() {
                let bytes = std::fs::read(folder.join(".gitignore")).unwrap_or_default();
                lists.extend(patterns(&folder, ".gitignore", &bytes));
            }
        }
        let mut folder = self.path().to_owned();
        for depth in 0..path.parts().len() {
            let name = [&path.parts()[..depth], &[".gitignore".to_owned()]].concat().join("/");
            let original = self.inside(&name).ok().and_then(|file| self.read(&file, LARGEST).ok());
            let bytes = original.map(|original| original.bytes).unwrap_or_default();
            lists.extend(patterns(&folder, &name, &bytes));
            folder.push(&path.parts()[depth]);
        }
        // The folder is the file itself by now. The innermost list that says something about it decides.
        lists.iter().rev().find_map(|(name, list)| {
            let found = list.matched_path_or_any_parents(&folder, false);
            match found.is_none() {
                true => None,
                false => Some(found.is_ignore().then(|| name.clone())),
            }
        })?
    }

    /// The folders from that of the repository to that of the workspace, where there is a repository.
    fn repository_folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in self.path().ancestors() {
            folders.insert(0, folder.to_owned());
            if folder.join(".git").exists() {
                return folders;
            }
        }
        Vec::new()
    }
}

/// The patterns of one file, which hold below a folder.
fn patterns(folder: &Path, name: &str, bytes: &[u8]) -> Option<(String, Gitignore)> {
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(bytes).lines() {
        // Git skips an invalid pattern, too.
        drop(builder.add_line(None, line));
    }
    let list = builder.build().ok().filter(|list| !list.is_empty())?;
    Some((name.to_owned(), list))
}

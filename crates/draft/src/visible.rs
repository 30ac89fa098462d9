//! Which files and task ids a worker may name, and what it may see of a file.

use assize_gate::secrets::SecretScanner;
use assize_gate::{FileKind, Places, Policy, TaskId};
use assize_workspace::{FileError, Inside, Original};

use crate::service::{DraftError, file, wrong};
use crate::transaction::Transaction;

/// What a user does about a file that is refused for its content.
const ALLOW: &str = "leave it alone, or have a user add it to the setting `draft.readable`";

impl Transaction {
    /// Rejects a name that holds a secret. The message does not repeat the name.
    fn refuse_secret(&self, what: &str, name: &str) -> Result<(), DraftError> {
        match SecretScanner::get()?.in_name(name) {
            None => Ok(()),
            Some(found) => Err(wrong(format!(
                "the {what} has {} in it, found by `{}`; choose another {what} without it",
                found.what, found.rule
            ))),
        }
    }

    /// Rejects the path of a new file that holds a secret. The name of an existing file is not judged.
    pub(crate) fn refuse_secret_path(&self, path: &str, policy: &Policy) -> Result<(), DraftError> {
        self.refuse_secret("file name", path).or_else(|error| {
            let workspace = &self.service.workspace;
            match workspace.inside(path) {
                Ok(path) if !matches!(workspace.find(&path, policy.max_bytes), Ok(None)) => Ok(()),
                _ => Err(error),
            }
        })
    }

    /// Parses a task id. One that would lead elsewhere as a path is recorded.
    pub(crate) async fn task(
        &mut self,
        by: &str,
        tool: &str,
        text: &str,
    ) -> Result<TaskId, DraftError> {
        self.refuse_secret("task id", text)?;
        match text.parse() {
            Ok(task) => Ok(task),
            Err(error) if text.contains(['/', '\\', '\0']) => {
                let why = format!("{error}");
                Err(self.refuse(by, tool, Some(text), text, why).await)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The file that is meant, if the task may draft it, and what is in it.
    pub(crate) fn draftable(
        &self,
        source: &str,
        task: &TaskId,
        policy: &Policy,
        places: &Places,
    ) -> Result<(Inside, Option<Original>), DraftError> {
        if let Some(only) = policy.task.as_deref().filter(|only| *only != task.as_str()) {
            let why = format!("the contract is about the task `{only}`; use that as `task_id`");
            return Err(wrong(why));
        }
        self.refuse_secret_path(source, policy)?;
        let path = self.visible_path(source, places)?;
        if !places.is_allowed(&path) {
            let allowed = policy.allowed.as_deref().unwrap_or_default().join("`, `");
            return Err(DraftError::Refused(format!(
                "the contract does not let `{path}` be changed; it allows `{allowed}`"
            )));
        }
        let original = self.visible_file(&path, policy, places)?;
        if original.is_none() && source.ends_with('/') {
            return Err(wrong(format!("`{source}` names a folder; name a file")));
        }
        Ok((path, original))
    }

    /// What a path means, if workers may see what is there.
    pub(crate) fn visible_path(&self, text: &str, places: &Places) -> Result<Inside, DraftError> {
        let path = self.service.workspace.inside(text);
        let path = path.map_err(|error| DraftError::Refused(error.to_string()))?;
        match places.is_hidden(&path) {
            false => Ok(path),
            true => Err(DraftError::Refused(format!(
                "`{path}` may hold secrets, and no worker may see it; {ALLOW}"
            ))),
        }
    }

    /// A file that workers may see, which is text; `None` if there is none.
    pub(crate) fn visible_file(
        &self,
        path: &Inside,
        policy: &Policy,
        places: &Places,
    ) -> Result<Option<Original>, DraftError> {
        let original = match self.service.workspace.find(path, policy.max_bytes) {
            Ok(Some(original)) => original,
            Ok(None) => return Ok(None),
            Err(error @ (FileError::Link | FileError::ManyNames(_) | FileError::Special)) => {
                return Err(DraftError::Refused(format!("`{path}` cannot be used here: {error}")));
            }
            Err(FileError::TooLarge(most)) => {
                return Err(wrong(format!(
                    "`{path}` has more than {most} bytes, and is too large for this; ask a person"
                )));
            }
            Err(error) => return Err(file(path.to_string())(error)),
        };
        if places.is_key(path, &original.bytes) {
            let why = format!(
                "`{path}` contains a private key (rule `secret/private-key`), and no worker may see it; {ALLOW}"
            );
            return Err(DraftError::Refused(why));
        }
        if original.bytes.contains(&0) || std::str::from_utf8(&original.bytes).is_err() {
            return Err(wrong(format!(
                "`{path}` is no UTF-8 text, and cannot be used here; ask a person to change it"
            )));
        }
        let text = String::from_utf8_lossy(&original.bytes);
        let found = SecretScanner::get()?.in_text(&text, FileKind::of(&path.to_string()), |_| true);
        // A line whose comment lets a secret stay was confirmed by a reviewer.
        let mut found = found.into_iter().filter(|(_, secret)| !secret.allowed);
        if let Some((line, secret)) = found.next()
            && !places.is_readable(path)
        {
            return Err(DraftError::Refused(format!(
                "line {line} of `{path}` contains a secret (rule `secret/{}`), and no worker may see it; {ALLOW}",
                secret.rule
            )));
        }
        Ok(Some(original))
    }
}

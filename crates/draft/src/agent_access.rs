//! Checks the paths and task ids that agents send, and refuses files that agents may not see.

use assize_gate::secrets::SecretScanner;
use assize_gate::{FileKind, PathRules, Policy, TaskId};
use assize_workspace::{FileError, FileSnapshot, WorkspacePath};

use crate::service::{DraftError, file_error, invalid_request};
use crate::transaction::Transaction;

/// Advice to the agent about a file that is refused because of its name or content.
const ALLOW: &str =
    "do not use this file, or ask the user to add it to the setting `draft.readable`";

impl Transaction {
    /// Returns an error if a name contains a secret. The error message does not contain the name.
    fn refuse_secret(&self, what: &str, name: &str) -> Result<(), DraftError> {
        match SecretScanner::get()?.in_name(name) {
            None => Ok(()),
            Some(found) => Err(invalid_request(format!(
                "the {what} contains {} (rule `{}`); choose another {what}",
                found.what, found.rule
            ))),
        }
    }

    /// Returns an error if the path of a new file contains a secret. Existing files may have any name.
    pub(crate) fn refuse_secret_path(&self, path: &str, policy: &Policy) -> Result<(), DraftError> {
        self.refuse_secret("file name", path).or_else(|error| {
            let workspace = &self.service.workspace;
            match workspace.parse_path(path) {
                Ok(path) if !matches!(workspace.find(&path, policy.max_bytes), Ok(None)) => Ok(()),
                _ => Err(error),
            }
        })
    }

    /// Parses a task id. A task id that looks like a path is refused, and the refusal is recorded in the audit log.
    pub(crate) async fn parse_task_id(
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

    /// Resolves a path and reads its file; fails if the task may not change the file.
    pub(crate) fn read_draftable_file(
        &self,
        source: &str,
        task: &TaskId,
        policy: &Policy,
        places: &PathRules,
    ) -> Result<(WorkspacePath, Option<FileSnapshot>), DraftError> {
        if let Some(only) = policy.task.as_deref().filter(|only| *only != task.as_str()) {
            let why = format!("the contract is for the task `{only}`; set `task_id` to `{only}`");
            return Err(invalid_request(why));
        }
        self.refuse_secret_path(source, policy)?;
        let path = self.visible_path(source, places)?;
        if !places.is_allowed(&path) {
            let allowed = policy.allowed.as_deref().unwrap_or_default().join("`, `");
            return Err(DraftError::PathRefused(format!(
                "the contract does not allow changes to `{path}`, only to `{allowed}`"
            )));
        }
        let original = self.visible_file(&path, policy, places)?;
        if original.is_none() && source.ends_with('/') {
            return Err(invalid_request(format!(
                "`{source}` is the path of a folder; give the path of a file"
            )));
        }
        Ok((path, original))
    }

    /// Parses a path; refuses files that are hidden from agents.
    pub(crate) fn visible_path(
        &self,
        text: &str,
        places: &PathRules,
    ) -> Result<WorkspacePath, DraftError> {
        let path = self.service.workspace.parse_path(text);
        let path = path.map_err(|error| DraftError::PathRefused(error.to_string()))?;
        match places.is_hidden(&path) {
            false => Ok(path),
            true => Err(DraftError::PathRefused(format!(
                "`{path}` may contain secrets and is hidden from agents; {ALLOW}"
            ))),
        }
    }

    /// Reads a text file that agents may see; `None` if it does not exist.
    pub(crate) fn visible_file(
        &self,
        path: &WorkspacePath,
        policy: &Policy,
        places: &PathRules,
    ) -> Result<Option<FileSnapshot>, DraftError> {
        let original = match self.service.workspace.find(path, policy.max_bytes) {
            Ok(Some(original)) => original,
            Ok(None) => return Ok(None),
            Err(
                error @ (FileError::Link | FileError::HardLinked(_) | FileError::NotRegularFile),
            ) => {
                return Err(DraftError::PathRefused(format!(
                    "agents cannot use `{path}`: {error}"
                )));
            }
            Err(FileError::TooLarge(most)) => {
                return Err(invalid_request(format!(
                    "`{path}` is larger than {most} bytes; ask the user to change the file"
                )));
            }
            Err(error) => return Err(file_error(path.to_string())(error)),
        };
        if places.is_key(path, &original.bytes) {
            let why = format!(
                "`{path}` contains a private key (rule `secret/private-key`) and is hidden from agents; {ALLOW}"
            );
            return Err(DraftError::PathRefused(why));
        }
        if original.bytes.contains(&0) || std::str::from_utf8(&original.bytes).is_err() {
            let why = format!("`{path}` is not UTF-8 text; ask the user to change the file");
            return Err(invalid_request(why));
        }
        let text = String::from_utf8_lossy(&original.bytes);
        let found = SecretScanner::get()?.in_text(&text, FileKind::of(&path.to_string()), |_| true);
        // Skip lines with a comment that allows the secret: a reviewer has accepted the comment.
        let mut found = found.into_iter().filter(|(_, secret)| !secret.allowed);
        if let Some((line, secret)) = found.next()
            && !places.is_readable(path)
        {
            return Err(DraftError::PathRefused(format!(
                "`{path}` contains a secret in line {line} (rule `secret/{}`) and is hidden from agents; {ALLOW}",
                secret.rule
            )));
        }
        Ok(Some(original))
    }
}

//! Ids of tasks, and their validation.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of a task id, in characters.
const MAX_LENGTH: usize = 64;

/// Id of a task, chosen by the task's author. It is part of the file names of the task's drafts.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct TaskId(String);

/// Error for a text that is not a valid task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid task id `{0}`: use 1 to {MAX_LENGTH} letters, digits, `_`, `-` and `.`, starting with a letter or \
     digit, such as `phase10_version_flag`"
)]
pub struct InvalidTaskId(String);

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<TaskId, InvalidTaskId> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts && text.len() <= MAX_LENGTH && text.chars().all(plain) {
            return Ok(TaskId(text.to_owned()));
        }
        let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        Err(InvalidTaskId(shown))
    }
}

impl TryFrom<String> for TaskId {
    type Error = InvalidTaskId;

    fn try_from(text: String) -> Result<TaskId, InvalidTaskId> {
        text.parse()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TaskId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_id_allows_only_letters_digits_and_separators() {
        for good in ["t1", "phase10_version_flag", "ISSUE-7", "v1.2", &"x".repeat(64)] {
            assert_eq!(good.parse::<TaskId>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "../x", ".hidden", "-x", "a b", "ü", "a\0", "a\nb", &"x".repeat(65)]
        {
            assert!(bad.parse::<TaskId>().is_err(), "{bad:?}");
        }
        let message = "a/b".parse::<TaskId>().unwrap_err().to_string();
        assert!(message.starts_with("invalid task id `a/b`: use 1 to 64 letters"), "{message}");
    }
}

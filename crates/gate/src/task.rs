//! What a task is called.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const LONGEST: usize = 64;

/// The name of a task, as whoever gives it writes it: part of the names of its drafts.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct TaskId(String);

/// A text that can be no name of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no task id: use 1 to {LONGEST} letters, digits, `_`, `-` and `.`, and begin with a letter or \
     digit, such as `phase10_version_flag`"
)]
pub struct BadTaskId(String);

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<TaskId, BadTaskId> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts && text.len() <= LONGEST && text.chars().all(plain) {
            return Ok(TaskId(text.to_owned()));
        }
        let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        Err(BadTaskId(shown))
    }
}

impl TryFrom<String> for TaskId {
    type Error = BadTaskId;

    fn try_from(text: String) -> Result<TaskId, BadTaskId> {
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
    fn a_task_id_is_a_plain_word() {
        for good in ["t1", "phase10_version_flag", "ISSUE-7", "v1.2", &"x".repeat(64)] {
            assert_eq!(good.parse::<TaskId>().unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "../x", ".hidden", "-x", "a b", "ü", "a\0", "a\nb", &"x".repeat(65)]
        {
            assert!(bad.parse::<TaskId>().is_err(), "{bad:?}");
        }
        let told = "a/b".parse::<TaskId>().unwrap_err().to_string();
        assert!(told.starts_with("`a/b` is no task id: use 1 to 64 letters"), "{told}");
    }
}

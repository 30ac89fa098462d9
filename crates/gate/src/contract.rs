//! The task contract, `_handoff/TASK_CONTRACT.json`. It sets which files the agents of a task may change, how many
//! lines they may change, and which command must succeed before a draft is accepted. The author of the task writes the
//! contract; agents cannot change it. A contract can only tighten the limits of the settings, never loosen them,
//! because a repository may be untrusted.

use assize_workspace::{FileError, FolderHandle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::globs::Globs;
use crate::task::TaskId;

/// File name of the task contract in the `_handoff` folder.
pub const CONTRACT: &str = "TASK_CONTRACT.json";

/// Maximum size of a task contract, in bytes.
const LARGEST: u64 = 256 << 10;

/// Maximum number of patterns in each list of a task contract.
const MAX_PATTERNS: usize = 500;

/// Task contract: limits on what the agents of a task may change in a workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Address of this JSON schema, for editors that check the file.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Version of the contract format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Id of the only task that may change files; if omitted, any task may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Goal of the task, for people; if the command `assize work` gets no task, it uses this goal as the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Paths that the task may change: files, folders (`docs/`) and patterns (`src/**/*.py`); if omitted, all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_paths: Option<Vec<String>>,
    /// Limits for the task. A limit here can only be stricter than the same limit in the settings.
    #[serde(default)]
    pub limits: ContractLimits,
    /// Command that must succeed on a copy of the workspace that includes the drafts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyCommand>,
}

/// Limits in a task contract. A limit has no effect if the same limit in the settings is stricter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractLimits {
    /// Maximum number of lines that a draft may add and remove, counted together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_lines: Option<usize>,
    /// Maximum number of files that the task may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_files: Option<usize>,
    /// Maximum share of a file's lines that a draft may remove or replace, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_deletion: Option<f64>,
    /// Maximum size of a draft, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
}

/// Verification command: a command that must succeed before a draft is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyCommand {
    /// Shell command. It runs in the folder of the workspace, in a sandbox without network.
    #[schemars(length(min = 1))]
    pub command: String,
    /// Absolute paths of host folders that the command needs, such as a toolchain; the settings must allow each one.
    #[serde(default)]
    pub layers: Vec<String>,
    /// Folder of the Python virtual environment to use, such as `.venv`: in the workspace, or allowed by the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Patterns of files that are not copied to the sandbox; `.git` and files with secrets are never copied.
    #[serde(default = "VerifyCommand::usual_exclude")]
    pub exclude: Vec<String>,
    /// Memory limit of the command in megabytes; files that are written in the sandbox count as memory.
    #[serde(default = "VerifyCommand::default_memory")]
    #[schemars(range(min = 16))]
    pub memory_mb: u64,
    /// Time limit of the command in seconds.
    #[serde(default = "VerifyCommand::default_seconds")]
    #[schemars(range(min = 1))]
    pub seconds: u64,
}

impl VerifyCommand {
    /// Pattern of the folders that contain installed Node.js packages.
    pub(crate) const NODE_MODULES: &str = "**/node_modules/";

    /// Default of `verify.exclude`: patterns of files that are not copied to the sandbox.
    pub(crate) fn usual_exclude() -> Vec<String> {
        ["**/target/", VerifyCommand::NODE_MODULES, "**/.venv/", "**/venv/"]
            .map(str::to_owned)
            .into()
    }

    fn default_memory() -> u64 {
        512
    }

    fn default_seconds() -> u64 {
        120
    }

    /// Creates a verification command with the default limits.
    pub fn command(command: impl Into<String>) -> VerifyCommand {
        VerifyCommand {
            command: command.into(),
            layers: Vec::new(),
            python: None,
            exclude: VerifyCommand::usual_exclude(),
            memory_mb: VerifyCommand::default_memory(),
            seconds: VerifyCommand::default_seconds(),
        }
    }
}

/// Reason why a task contract cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    #[error("`_handoff/{CONTRACT}` cannot be read: {0}")]
    File(#[from] FileError),
    #[error(
        "`_handoff/{CONTRACT}` is invalid: {0}; ask the author of the task to fix this file \
         (format: docs/reference/task-contract.md)"
    )]
    Invalid(String),
}

fn invalid(what: impl std::fmt::Display) -> ContractError {
    ContractError::Invalid(what.to_string())
}

impl Contract {
    /// Reads the task contract of a workspace; `None` if the workspace has no contract.
    ///
    /// # Errors
    /// If the contract is unreadable or invalid. Agents then cannot change files, because the limits that the author of
    /// the task intended are unknown.
    pub fn read(handoff: &FolderHandle) -> Result<Option<Contract>, ContractError> {
        match handoff.read(CONTRACT, LARGEST) {
            Ok(bytes) => Contract::parse(&bytes).map(Some),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses and validates a task contract.
    pub fn parse(bytes: &[u8]) -> Result<Contract, ContractError> {
        let contract: Contract = serde_json::from_slice(bytes).map_err(invalid)?;
        // Check that the JSON value is an object, because serde also accepts an array of the fields, in order.
        if !serde_json::from_slice::<serde_json::Value>(bytes).map_err(invalid)?.is_object() {
            return Err(invalid("the content is not a JSON object"));
        }
        if contract.version != 1 {
            let version = contract.version;
            return Err(invalid(format!("unsupported `version` {version}; only 1 is supported")));
        }
        if let Some(task) = &contract.task_id {
            task.parse::<TaskId>().map_err(|error| invalid(format!("`task_id`: {error}")))?;
        }
        let patterns = contract.allowed_paths.as_deref().unwrap_or_default();
        if contract.allowed_paths.as_ref().is_some_and(Vec::is_empty) {
            return Err(invalid("`allowed_paths` is empty; omit the field to allow all paths"));
        }
        let exclude = contract.verify.as_ref().map_or(0, |verify| verify.exclude.len());
        if patterns.len().max(exclude) > MAX_PATTERNS {
            return Err(invalid(format!(
                "`allowed_paths` or `verify.exclude` has more than {MAX_PATTERNS} patterns"
            )));
        }
        Globs::new(patterns).map_err(|error| invalid(format!("`allowed_paths`: {error}")))?;
        let ContractLimits { max_lines, max_files, max_deletion, max_bytes } = contract.limits;
        let none = [
            (max_lines == Some(0), "max_lines"),
            (max_files == Some(0), "max_files"),
            (max_bytes == Some(0), "max_bytes"),
        ];
        if let Some((_, name)) = none.iter().find(|(none, _)| *none) {
            return Err(invalid(format!("`limits.{name}` must be at least 1")));
        }
        if max_deletion.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(invalid("`limits.max_deletion` must be from 0 to 1"));
        }
        if let Some(verify) = &contract.verify {
            if verify.command.trim().is_empty() {
                return Err(invalid("`verify.command` is empty"));
            }
            if verify.memory_mb < 16 || verify.seconds == 0 {
                let why = "`verify.memory_mb` must be at least 16, and `verify.seconds` at least 1";
                return Err(invalid(why));
            }
            Globs::new(&verify.exclude)
                .map_err(|error| invalid(format!("`verify.exclude`: {error}")))?;
            if verify.python.as_ref().is_some_and(|python| python.trim().is_empty()) {
                return Err(invalid("`verify.python` is empty"));
            }
            if verify.layers.iter().any(|layer| !layer.starts_with('/')) {
                return Err(invalid("`verify.layers` must be absolute paths"));
            }
        }
        Ok(contract)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_contract_is_parsed_and_invalid_contracts_are_rejected_with_the_reason() {
        let contract = Contract::parse(
            br#"{"$schema": "x", "version": 1, "task_id": "t1", "goal": "g", "allowed_paths": ["src/**"],
                 "limits": {"max_lines": 50}, "verify": {"command": "make test", "seconds": 5}}"#,
        )
        .unwrap();
        assert_eq!(contract.limits.max_lines, Some(50));
        let verify = contract.verify.unwrap();
        assert_eq!((verify.seconds, verify.memory_mb), (5, 512));
        for (text, why) in [
            ("", "EOF while parsing"),
            ("[null, 1]", "not a JSON object"),
            ("[null, 1, null, null, null, {}, null]", "not a JSON object"),
            ("{}", "missing field `version`"),
            (r#"{"version": 2}"#, "unsupported `version` 2"),
            (r#"{"version": 1, "allowed": []}"#, "unknown field `allowed`"),
            (r#"{"version": 1, "task_id": "a/b"}"#, "`task_id`: invalid task id `a/b`"),
            (r#"{"version": 1, "allowed_paths": ["a["]}"#, "invalid path pattern `a[`"),
            (r#"{"version": 1, "allowed_paths": ["../x"]}"#, "invalid path pattern `../x`"),
            (r#"{"version": 1, "allowed_paths": []}"#, "omit the field to allow all paths"),
            (r#"{"version": 1, "limits": {"max_lines": 0}}"#, "must be at least 1"),
            (r#"{"version": 1, "limits": {"max_deletion": 2}}"#, "from 0 to 1"),
            (r#"{"version": 1, "verify": {"command": " "}}"#, "`verify.command` is empty"),
            (r#"{"version": 1, "verify": {"command": "x", "memory_mb": 1}}"#, "at least 16"),
            (r#"{"version": 1, "verify": {"command": "x", "layers": ["a"]}}"#, "absolute paths"),
            (
                r#"{"version": 1, "verify": {"command": "x", "python": " "}}"#,
                "`verify.python` is empty",
            ),
        ] {
            let message = Contract::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}

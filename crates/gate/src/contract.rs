//! The contract of a task, `_handoff/TASK_CONTRACT.json`: what its workers may touch, how much of it, and
//! what must pass before a draft is accepted. Whoever gives the task writes it; workers cannot. It binds the
//! gate more tightly than the settings, and never more loosely: a repository may come from anywhere.

use assize_workspace::{FileError, Folder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::globs::Globs;
use crate::task::TaskId;

/// Where it is, below the folder of everything that is handed over.
pub const CONTRACT: &str = "TASK_CONTRACT.json";

/// The largest contract that is read.
const LARGEST: u64 = 256 << 10;

/// The most patterns of a kind.
const MOST_PATTERNS: usize = 500;

/// What a task may do to a workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// For editors: where this form is written down.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The version of this form: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The only task that may be worked on; any, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What is to be done, for people and for `assize work`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// What may be drafted: files, folders (`docs/`) and patterns (`src/**/*.py`). Everything, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_paths: Option<Vec<String>>,
    /// Limits below those of the settings.
    #[serde(default)]
    pub limits: ContractLimits,
    /// What must pass, on a copy of the workspace with the drafts in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// Limits of a contract. A limit above that of the settings has no effect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContractLimits {
    /// The most lines that a draft may add and remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_lines: Option<usize>,
    /// The most files of one task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_files: Option<usize>,
    /// The largest share of a file's lines that may be removed or replaced, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_deletion: Option<f64>,
    /// The largest draft, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_bytes: Option<u64>,
}

/// A command that must end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Run by a shell in the workspace's folder, in a sandbox without a network.
    #[schemars(length(min = 1))]
    pub command: String,
    /// Folders of this machine that it needs to see, such as a toolchain; the settings must allow each.
    #[serde(default)]
    pub layers: Vec<String>,
    /// A Python virtual environment, such as `.venv`: its interpreter and packages are used. In the workspace, or
    /// allowed by the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// What of the workspace is left out of the copy, as patterns; `.git` and files that hold secrets always
    /// are.
    #[serde(default = "Verify::usual_exclude")]
    pub exclude: Vec<String>,
    /// The memory it needs, in megabytes; files count.
    #[serde(default = "Verify::usual_memory")]
    #[schemars(range(min = 16))]
    pub memory_mb: u64,
    /// How long it may take.
    #[serde(default = "Verify::usual_seconds")]
    #[schemars(range(min = 1))]
    pub seconds: u64,
}

impl Verify {
    /// Folders of packages of Node.js.
    pub(crate) const NODE_MODULES: &str = "**/node_modules/";

    /// What is left out of the copy unless the contract says otherwise.
    pub(crate) fn usual_exclude() -> Vec<String> {
        ["**/target/", Verify::NODE_MODULES, "**/.venv/", "**/venv/"].map(str::to_owned).into()
    }

    fn usual_memory() -> u64 {
        512
    }

    fn usual_seconds() -> u64 {
        120
    }

    /// A command with the usual needs.
    pub fn command(command: impl Into<String>) -> Verify {
        Verify {
            command: command.into(),
            layers: Vec::new(),
            python: None,
            exclude: Verify::usual_exclude(),
            memory_mb: Verify::usual_memory(),
            seconds: Verify::usual_seconds(),
        }
    }
}

/// A contract that cannot be kept to.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    #[error("`_handoff/{CONTRACT}` cannot be read: {0}")]
    File(#[from] FileError),
    #[error(
        "`_handoff/{CONTRACT}` is not right: {0}; whoever gave the task must mend it (its form is in docs/drafts.md)"
    )]
    Form(String),
}

fn form(what: impl std::fmt::Display) -> ContractError {
    ContractError::Form(what.to_string())
}

impl Contract {
    /// The contract of a workspace; `None` where there is none.
    ///
    /// # Errors
    /// When there is one that is not right: nobody works without the limits that somebody meant.
    pub fn read(handoff: &Folder) -> Result<Option<Contract>, ContractError> {
        match handoff.read(CONTRACT, LARGEST) {
            Ok(bytes) => Contract::parse(&bytes).map(Some),
            Err(FileError::Missing) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses a contract and checks its form.
    pub fn parse(bytes: &[u8]) -> Result<Contract, ContractError> {
        let contract: Contract = serde_json::from_slice(bytes).map_err(form)?;
        // A list of its fields, in order, would be taken for one.
        if !serde_json::from_slice::<serde_json::Value>(bytes).map_err(form)?.is_object() {
            return Err(form("it is no JSON object"));
        }
        if contract.version != 1 {
            let version = contract.version;
            return Err(form(format!("`version` is {version}, and only 1 is known")));
        }
        if let Some(task) = &contract.task_id {
            task.parse::<TaskId>().map_err(|error| form(format!("`task_id`: {error}")))?;
        }
        let patterns = contract.allowed_paths.as_deref().unwrap_or_default();
        if contract.allowed_paths.as_ref().is_some_and(Vec::is_empty) {
            return Err(form("`allowed_paths` is empty; leave it out to allow everything"));
        }
        let exclude = contract.verify.as_ref().map_or(0, |verify| verify.exclude.len());
        if patterns.len().max(exclude) > MOST_PATTERNS {
            return Err(form(format!("it has more than {MOST_PATTERNS} patterns")));
        }
        Globs::new(patterns).map_err(|error| form(format!("`allowed_paths`: {error}")))?;
        let ContractLimits { max_lines, max_files, max_deletion, max_bytes } = contract.limits;
        let none = [
            (max_lines == Some(0), "max_lines"),
            (max_files == Some(0), "max_files"),
            (max_bytes == Some(0), "max_bytes"),
        ];
        if let Some((_, name)) = none.iter().find(|(none, _)| *none) {
            return Err(form(format!("`limits.{name}` must be at least 1")));
        }
        if max_deletion.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(form("`limits.max_deletion` must be from 0 to 1"));
        }
        if let Some(verify) = &contract.verify {
            if verify.command.trim().is_empty() {
                return Err(form("`verify.command` is empty"));
            }
            if verify.memory_mb < 16 || verify.seconds == 0 {
                return Err(form("`verify` needs at least 16 megabytes and a second"));
            }
            Globs::new(&verify.exclude)
                .map_err(|error| form(format!("`verify.exclude`: {error}")))?;
            if verify.python.as_ref().is_some_and(|python| python.trim().is_empty()) {
                return Err(form("`verify.python` is empty"));
            }
            if verify.layers.iter().any(|layer| !layer.starts_with('/')) {
                return Err(form("`verify.layers` are absolute paths"));
            }
        }
        Ok(contract)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_has_a_form() {
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
            ("[null, 1]", "no JSON object"),
            ("[null, 1, null, null, null, {}, null]", "no JSON object"),
            ("{}", "missing field `version`"),
            (r#"{"version": 2}"#, "`version` is 2, and only 1 is known"),
            (r#"{"version": 1, "allowed": []}"#, "unknown field `allowed`"),
            (r#"{"version": 1, "task_id": "a/b"}"#, "`task_id`: `a/b` is no task id"),
            (r#"{"version": 1, "allowed_paths": ["a["]}"#, "`allowed_paths`: `a[`"),
            (r#"{"version": 1, "allowed_paths": ["../x"]}"#, "`allowed_paths`: `../x`"),
            (r#"{"version": 1, "allowed_paths": []}"#, "leave it out to allow everything"),
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
            let told = Contract::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}

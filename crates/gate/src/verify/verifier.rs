//! Interface to the sandbox that runs one verification command on a copy of the workspace.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::VerifyCommand;

/// Result of running a verification command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyResult {
    pub command: String,
    pub passed: bool,
    /// Outcome of the command, such as `exit code 1` or `timed out after 120 s`.
    pub outcome: String,
    /// End of the command's output, at most 8 KiB.
    pub output: String,
    /// Name of the sandbox backend that the command ran in.
    pub isolation: String,
    pub seconds: u64,
    /// Description of the evidence for the result, such as the number of tests that were run.
    #[serde(default)]
    pub evidence: String,
}

/// Error for a verification that could not run. A reviewer must then decide on the draft.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VerifyError(pub String);

/// Python virtual environment of a verification command, set in the task contract or in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEnvironment {
    /// Absolute path of the virtual environment.
    pub path: PathBuf,
    /// Whether the settings name this virtual environment. A repository cannot influence the settings.
    pub by_settings: bool,
}

/// One command to run in a sandbox on a copy of the workspace.
#[derive(Debug, Clone)]
pub struct VerifyJob<'a> {
    /// The verification command that the contract or the settings require, with its limits.
    pub verify_command: &'a VerifyCommand,
    /// Python virtual environment to use; `None` if neither the task contract nor the settings specify one.
    pub python: Option<&'a NamedEnvironment>,
    /// Folder on the host that contains the copy of the workspace.
    pub copy: &'a Path,
    /// Shell command to run in the copy: the verification command, with arguments for a test report added.
    pub command: String,
    /// Files to write into the sandbox before the command runs: absolute paths and contents.
    pub files: Vec<(String, &'static str)>,
    /// Path of the report file in the sandbox, to read after the command has ended.
    pub report: Option<String>,
}

/// Result of one command in the sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Whether the command exited with 0.
    pub passed: bool,
    /// Outcome of the command, such as `exit code 1` or `timed out after 120 s`.
    pub outcome: String,
    /// Output of the command, truncated to the output limit.
    pub captured_output: Vec<u8>,
    /// Name of the sandbox backend that the command ran in.
    pub isolation: String,
    pub seconds: u64,
    /// Content of the report file; `None` if the file does not exist.
    pub report: Option<Vec<u8>>,
}

/// Sandbox that runs verification commands.
#[async_trait]
pub trait Verifier: std::fmt::Debug + Send + Sync {
    /// Runs a command on a copy of the workspace.
    async fn run(&self, job: VerifyJob<'_>) -> Result<CommandOutcome, VerifyError>;
}

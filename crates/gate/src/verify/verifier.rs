//! Interface to the sandbox that runs one verification command on a copy of the workspace.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::VerifyCommand;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyResult {
    pub command: String,
    pub passed: bool,
    /// Outcome of the command, such as `exit code 1` or `took longer than 120 s`.
    pub outcome: String,
    /// The last kilobytes of output.
    pub output: String,
    /// Name of the isolation that the command ran in.
    pub isolation: String,
    pub seconds: u64,
    /// Description of the evidence for the result.
    #[serde(default)]
    pub evidence: String,
}

/// A verification that could not run, so a reviewer decides.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VerifyError(pub String);

/// Virtual environment that the contract or the settings name for a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEnvironment {
    /// Absolute path of the environment.
    pub path: PathBuf,
    /// Whether the settings name it, which a repository cannot influence.
    pub by_settings: bool,
}

/// One command to run on a copy of the workspace.
#[derive(Debug, Clone)]
pub struct VerifyJob<'a> {
    /// The verification that the contract or the settings require.
    pub how: &'a VerifyCommand,
    /// Virtual environment to use.
    pub python: Option<&'a NamedEnvironment>,
    /// Folder of the copy on the host.
    pub copy: &'a Path,
    /// Shell command, run in the copy.
    pub command: String,
    /// Files to write into the sandbox first, by absolute path.
    pub files: Vec<(String, &'static str)>,
    /// File in the sandbox to read afterwards.
    pub report: Option<String>,
}

/// Result of one command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Whether the command exited with 0.
    pub passed: bool,
    /// Outcome of the command, such as `exit code 1` or `took longer than 120 s`.
    pub outcome: String,
    /// Output, up to the limit.
    pub printed: Vec<u8>,
    /// Name of the isolation that the command ran in.
    pub isolation: String,
    pub seconds: u64,
    /// Content of the report file; `None` if it does not exist.
    pub report: Option<Vec<u8>>,
}

/// Runs commands in a sandbox.
#[async_trait]
pub trait Verifier: std::fmt::Debug + Send + Sync {
    /// Runs a command on a copy of the workspace.
    async fn run(&self, job: VerifyJob<'_>) -> Result<CommandOutcome, VerifyError>;
}

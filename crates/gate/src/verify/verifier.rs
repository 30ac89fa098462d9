//! The sandbox of a verification, as the gate asks for it: one command on one copy of the workspace.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::Verify;

/// How a verification went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    pub command: String,
    pub passed: bool,
    /// Such as `exit code 1` or `took longer than 120 s`.
    pub outcome: String,
    /// The end of what it printed, some kilobytes.
    pub output: String,
    /// Where it ran.
    pub isolation: String,
    pub seconds: u64,
    /// What the result rests on.
    #[serde(default)]
    pub evidence: String,
}

/// A verification that could not be had: a person decides.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotVerified(pub String);

/// A virtual environment that the contract or the settings name for a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEnvironment {
    /// As a full path.
    pub path: PathBuf,
    /// The settings name it, which a repository cannot.
    pub by_settings: bool,
}

/// One execution of a command on a copy of the workspace.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// What the contract or the settings ask for.
    pub how: &'a Verify,
    /// The virtual environment that is named for it.
    pub python: Option<&'a NamedEnvironment>,
    /// The copy, on this machine.
    pub copy: &'a Path,
    /// The command, run by a shell in the copy.
    pub command: String,
    /// Files to put into the sandbox first, by their full path there.
    pub files: Vec<(String, &'static str)>,
    /// A file in the sandbox that is read afterwards.
    pub report: Option<String>,
}

/// How an execution went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// It exited with 0.
    pub passed: bool,
    /// Such as `exit code 1` or `took longer than 120 s`.
    pub outcome: String,
    /// What it printed, as much as is allowed.
    pub printed: Vec<u8>,
    /// Where it ran.
    pub isolation: String,
    pub seconds: u64,
    /// What is in the report; `None` if there is none.
    pub report: Option<Vec<u8>>,
}

/// Runs commands in a sandbox.
#[async_trait]
pub trait Verifier: std::fmt::Debug + Send + Sync {
    /// Runs a command on a copy of the workspace.
    async fn run(&self, job: Job<'_>) -> Result<Ran, NotVerified>;
}

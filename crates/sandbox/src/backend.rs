//! The [`Backend`] trait, which every isolation technology (jail, Docker, microVM) implements.

use std::fmt;

use assize_config::Isolation;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::error::SandboxError;
use crate::interpreter::Language;
use crate::spec::SandboxSpec;

/// Isolation technology that starts sandboxes: jail, Docker or microVM.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    fn isolation(&self) -> Isolation;

    /// Checks a sandbox spec. Returns an error if this backend can never satisfy the spec.
    fn check(&self, _spec: &SandboxSpec) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Starts a sandbox without adding it to the sandbox registry, so that only the calling process can use it.
    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError>;

    /// Tests properties of this machine that can be found out only by starting a sandbox, such as whether KVM works.
    /// Returns a description of the result for users, or `None` if this backend has nothing to test.
    async fn test_host(&self) -> Result<Option<String>, SandboxError> {
        Ok(None)
    }

    /// Returns the interpreter of a language: its path in the sandbox, or a program name that the guest agent looks up
    /// in `PATH` inside the sandbox.
    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        let names = language.programs().first();
        names
            .map(|name| (*name).to_owned())
            .ok_or(SandboxError::NoInterpreter(language, self.isolation()))
    }

    /// Maximum number of idle sandboxes with a pre-started interpreter in one warm pool. The number is limited because
    /// a waiting interpreter needs much memory on some backends.
    fn max_prepared_interpreters(&self) -> usize {
        usize::MAX
    }

    /// Number of idle sandboxes that a warm pool of this backend keeps. The number can be less than `wanted`, which is
    /// the number in the settings.
    fn pool_size(&self, wanted: usize) -> usize {
        wanted
    }

    /// Approximate memory use of one idle sandbox, in bytes.
    fn idle_memory(&self) -> u64 {
        32 << 20
    }

    /// Whether the time limit of a sandbox is fixed when the sandbox is created. If so, an idle sandbox cannot serve a
    /// request with a different time limit.
    fn has_fixed_time_limit(&self) -> bool {
        false
    }

    /// Describes for users how this backend enforces each limit on this machine.
    fn enforcement(&self) -> Enforcement;

    /// Removes the containers, cgroups and all other remains of the sandboxes that a dead process created. `maker` is
    /// the name of that process.
    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError>;
}

/// Identity of a sandbox. The names of its container and cgroups contain this identity, so that a cleanup after a crash
/// finds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxIdentity {
    /// Random name of the process that created the sandbox. No other process has the same name.
    pub creator: String,
    /// Id of the sandbox, unique among the sandboxes that the same process created.
    pub id: String,
}

impl fmt::Display for SandboxIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.creator, self.id)
    }
}

/// Text for users that describes, for each sandbox limit, how the limit is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enforcement {
    pub memory: String,
    pub cpu: String,
    pub processes: String,
    pub disk: String,
    pub output: String,
    pub time: String,
    pub network: String,
    pub system_calls: String,
    pub files: String,
}

/// A started sandbox: the channel to its guest agent, and a handle with which the host measures and ends the sandbox.
#[derive(Debug)]
pub struct StartedSandbox {
    pub(crate) channel: Channel,
    pub(crate) handle: Box<dyn SandboxHandle>,
}

/// Handle on the jail, container or microVM of one sandbox, with which the host measures and ends the sandbox.
#[async_trait]
pub(crate) trait SandboxHandle: fmt::Debug + Send + Sync {
    /// Id that an external program has given to the sandbox, such as the container id in Docker; `None` if no external
    /// program runs the sandbox.
    fn external_id(&self) -> Option<&str> {
        None
    }

    /// Returns the memory usage of the sandbox so far, measured from outside the sandbox.
    async fn usage(&self) -> ResourceUsage;

    /// Kills all processes in the sandbox and waits until the sandbox is removed.
    async fn end(&self);

    /// Returns the diagnostic output of the guest agent (stderr or VM console), if there is any.
    async fn diagnostic_output(&self) -> Option<String>;
}

/// Memory usage of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResourceUsage {
    /// Peak memory use of the sandbox in bytes; `None` if the backend does not measure it.
    pub(crate) peak_memory: Option<u64>,
    /// Number of out-of-memory kills in the sandbox so far.
    pub(crate) out_of_memory: u64,
}

//! The [`Backend`] trait: what every isolation technology implements.

use std::fmt;

use assize_config::Isolation;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::error::SandboxError;
use crate::interpreter::Language;
use crate::spec::SandboxSpec;

/// An isolation technology that creates sandboxes.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    fn isolation(&self) -> Isolation;

    /// Rejects a spec that this backend can never satisfy.
    fn check(&self, _spec: &SandboxSpec) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Starts a sandbox. It is not registered: only the calling process knows about it.
    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError>;

    /// Determines properties that only a trial shows, such as whether KVM works. Returns a description of how
    /// sandboxes run on this machine, or `None` if there is only one way.
    async fn settle(&self) -> Result<Option<String>, SandboxError> {
        Ok(None)
    }

    /// The interpreter of a language: its path in the sandbox, or a name that the guest agent looks up in the image.
    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        let names = language.programs().first();
        names
            .map(|name| (*name).to_owned())
            .ok_or(SandboxError::NoInterpreter(language, self.isolation()))
    }

    /// Maximum number of idle sandboxes with a pre-started interpreter, which takes much memory on some backends.
    fn waiting_interpreters(&self) -> usize {
        usize::MAX
    }

    /// Number of idle sandboxes that a warm pool keeps when `wanted` are configured.
    fn pool_size(&self, wanted: usize) -> usize {
        wanted
    }

    /// Approximate memory use of one idle sandbox, in bytes.
    fn idle_memory(&self) -> u64 {
        32 << 20
    }

    /// Whether the time limit is fixed when the sandbox is created and cannot be changed for an idle one.
    fn fixes_wall(&self) -> bool {
        false
    }

    /// How each limit is enforced on this machine.
    fn enforcement(&self) -> Enforcement;

    /// Removes the remains of a process (`maker`) that created sandboxes and died.
    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError>;
}

/// Identity of a sandbox, by which its remains (containers, cgroups) are found after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxIdentity {
    /// Name of the process that created the sandbox; never reused.
    pub maker: String,
    /// Unique among the sandboxes of that process.
    pub id: String,
}

impl fmt::Display for SandboxIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.maker, self.id)
    }
}

/// How each limit is enforced, as text for users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enforcement {
    pub memory: String,
    pub cpu: String,
    pub processes: String,
    pub disk: String,
    pub output: String,
    pub wall: String,
    pub network: String,
    pub system_calls: String,
    pub files: String,
}

/// A sandbox that a backend has started.
#[derive(Debug)]
pub struct StartedSandbox {
    pub(crate) channel: Channel,
    pub(crate) cell: Box<dyn SandboxHandle>,
}

/// Handle of a backend on the isolation of one sandbox, such as its container or VM.
#[async_trait]
pub(crate) trait SandboxHandle: fmt::Debug + Send + Sync {
    /// Id of the sandbox in another program, such as a container id.
    fn external_id(&self) -> Option<&str> {
        None
    }

    /// Resource usage so far, as measured outside the sandbox.
    async fn account(&self) -> ResourceUsage;

    /// Kills everything inside and waits until it is removed.
    async fn end(&self);

    /// Diagnostic output of the guest agent (stderr or VM console), if any.
    async fn last_words(&self) -> Option<String>;
}

/// Resource usage of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResourceUsage {
    /// Peak memory use in bytes, if it is measured.
    pub(crate) peak_memory: Option<u64>,
    /// Number of out-of-memory kills.
    pub(crate) out_of_memory: u64,
}

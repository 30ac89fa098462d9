//! What every backend can do, and how one is chosen.

use std::fmt;

use assize_config::Isolation;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::error::SandboxError;
use crate::interpreter::Language;
use crate::spec::Spec;

/// One way to make sandboxes.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    fn isolation(&self) -> Isolation;

    /// Refuses what it can never make.
    fn check(&self, _spec: &Spec) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Makes a sandbox, of which only its maker can tell that it is there.
    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError>;

    /// Finds out what only trying tells, and says how sandboxes are run here, where that makes a
    /// difference.
    async fn settle(&self) -> Result<Option<String>, SandboxError> {
        Ok(None)
    }

    /// The program that runs code of a language: by the path it has inside, or by its usual name, which the
    /// guest looks for where there is an image.
    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        let names = language.programs().first();
        names
            .map(|name| (*name).to_owned())
            .ok_or(SandboxError::NoInterpreter(language, self.isolation()))
    }

    /// In how many of the sandboxes that wait an interpreter waits, too: there are backends where it takes
    /// far more memory than all the rest.
    fn waiting_interpreters(&self) -> usize {
        usize::MAX
    }

    /// How many idle sandboxes a warm pool keeps where so many were asked for.
    fn pool_size(&self, wanted: usize) -> usize {
        wanted
    }

    /// Bytes of memory that one idle sandbox takes, roughly.
    fn idle_memory(&self) -> u64 {
        32 << 20
    }

    /// Whether the time limit is laid on the sandbox when it is made, and cannot be changed for one
    /// that is idle.
    fn fixes_wall(&self) -> bool {
        false
    }

    /// What each limit rests on here.
    fn enforcement(&self) -> Enforcement;

    /// Removes what a maker that is gone has left behind.
    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError>;
}

/// Who a sandbox is, for those parts that outlive a mishap and must be found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The process that made it, by a name that is never used again.
    pub maker: String,
    /// Unique among all its maker made.
    pub id: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.maker, self.id)
    }
}

/// What holds each limit, in words for people.
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

/// A sandbox that was made.
#[derive(Debug)]
pub struct Started {
    pub(crate) channel: Channel,
    pub(crate) cell: Box<dyn Cell>,
}

/// The walls around one sandbox.
#[async_trait]
pub(crate) trait Cell: fmt::Debug + Send + Sync {
    /// The id that another program knows it by, such as a container id.
    fn external_id(&self) -> Option<&str> {
        None
    }

    /// What was used so far, by the account kept outside.
    async fn account(&self) -> Account;

    /// Ends everything inside at once, and waits until nothing of it is left.
    async fn end(&self);

    /// What the guest said when it failed, if it did.
    async fn last_words(&self) -> Option<String>;
}

/// What a sandbox has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// The most memory at any time, where it is counted.
    pub(crate) peak_memory: Option<u64>,
    /// How often something was ended because memory ran out.
    pub(crate) out_of_memory: u64,
}

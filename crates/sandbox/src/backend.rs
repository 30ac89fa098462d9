//! What every backend can do, and how one is chosen.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::error::SandboxError;
use crate::interpreter::Language;
use crate::spec::Spec;

/// The walls there are, the thinnest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    Jail,
    Docker,
    Microvm,
}

impl Isolation {
    pub const ALL: [Isolation; 3] = [Isolation::Jail, Isolation::Docker, Isolation::Microvm];

    pub fn name(self) -> &'static str {
        match self {
            Isolation::Jail => "jail",
            Isolation::Docker => "docker",
            Isolation::Microvm => "microvm",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Whatever is best here, said aloud.
    #[default]
    Auto,
    Exactly(Isolation),
    /// That or thicker.
    AtLeast(Isolation),
}

impl Wanted {
    /// The weakest walls that will do.
    pub fn floor(self) -> Isolation {
        match self {
            Wanted::Auto => Isolation::Jail,
            Wanted::Exactly(isolation) | Wanted::AtLeast(isolation) => isolation,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Auto => f.write_str("auto"),
            Wanted::Exactly(isolation) => write!(f, "{isolation}"),
            Wanted::AtLeast(isolation) => write!(f, "at-least={isolation}"),
        }
    }
}

/// A word that names no isolation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no isolation: use jail, docker, microvm, at-least=NAME or auto")]
pub struct UnknownIsolation(String);

impl FromStr for Wanted {
    type Err = UnknownIsolation;

    fn from_str(text: &str) -> Result<Wanted, UnknownIsolation> {
        let named =
            |name: &str| Isolation::ALL.into_iter().find(|isolation| isolation.name() == name);
        let wanted = match text.strip_prefix("at-least=") {
            _ if text == "auto" => Some(Wanted::Auto),
            Some(name) => named(name).map(Wanted::AtLeast),
            None => named(text).map(Wanted::Exactly),
        };
        wanted.ok_or_else(|| UnknownIsolation(text.to_owned()))
    }
}

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// The most memory at any time, where it is counted.
    pub(crate) peak_memory: Option<u64>,
    /// How often something was ended because memory ran out.
    pub(crate) out_of_memory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_is_read_as_it_is_written() {
        for text in ["auto", "jail", "docker", "microvm", "at-least=docker"] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        for wrong in ["", "Jail", "at-least", "at-least=", "at-least=auto", "vm"] {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
    }
}

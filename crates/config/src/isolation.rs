//! Isolation backends of sandboxes, and the isolation that a user asks for.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

//! Isolation backends of sandboxes, and the value of the setting that selects a backend.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Isolation backend of a sandbox, ordered from the weakest to the strongest.
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

/// Isolation that the user requests: `auto`, a backend, or `at-least=BACKEND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestedIsolation {
    /// The user leaves the choice to assize, which chooses one of the available backends and reports the choice.
    #[default]
    Auto,
    /// The user requests exactly this backend.
    Exactly(Isolation),
    /// The user requests this backend or a stronger one.
    AtLeast(Isolation),
}

impl RequestedIsolation {
    /// Returns the weakest backend that satisfies the request.
    pub fn weakest(self) -> Isolation {
        match self {
            RequestedIsolation::Auto => Isolation::Jail,
            RequestedIsolation::Exactly(isolation) | RequestedIsolation::AtLeast(isolation) => {
                isolation
            }
        }
    }
}

impl fmt::Display for RequestedIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestedIsolation::Auto => f.write_str("auto"),
            RequestedIsolation::Exactly(isolation) => write!(f, "{isolation}"),
            RequestedIsolation::AtLeast(isolation) => write!(f, "at-least={isolation}"),
        }
    }
}

/// Error for a text that is not a valid [`RequestedIsolation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown isolation `{0}`: expected jail, docker, microvm, at-least=NAME or auto")]
pub struct UnknownIsolation(String);

impl FromStr for RequestedIsolation {
    type Err = UnknownIsolation;

    fn from_str(text: &str) -> Result<RequestedIsolation, UnknownIsolation> {
        let named =
            |name: &str| Isolation::ALL.into_iter().find(|isolation| isolation.name() == name);
        let wanted = match text.strip_prefix("at-least=") {
            _ if text == "auto" => Some(RequestedIsolation::Auto),
            Some(name) => named(name).map(RequestedIsolation::AtLeast),
            None => named(text).map(RequestedIsolation::Exactly),
        };
        wanted.ok_or_else(|| UnknownIsolation(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_isolation_parses_its_display_form_and_rejects_unknown_names() {
        for text in ["auto", "jail", "docker", "microvm", "at-least=docker"] {
            assert_eq!(text.parse::<RequestedIsolation>().unwrap().to_string(), text);
        }
        for wrong in ["", "Jail", "at-least", "at-least=", "at-least=auto", "vm"] {
            assert!(wrong.parse::<RequestedIsolation>().is_err(), "{wrong}");
        }
    }
}

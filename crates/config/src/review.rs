//! When a reviewer decides on a draft.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a person looks at a draft before it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Always: nothing is accepted by the gate alone.
    Always,
    /// When the gate is in doubt.
    #[default]
    Escalated,
    /// Never: what the gate is in doubt about is rejected.
    Never,
}

impl Review {
    pub const NAMES: [&'static str; 3] = ["always", "escalated", "never"];
}

impl FromStr for Review {
    type Err = String;

    fn from_str(text: &str) -> Result<Review, String> {
        match text {
            "always" => Ok(Review::Always),
            "escalated" => Ok(Review::Escalated),
            "never" => Ok(Review::Never),
            other => Err(format!("`{other}` is none of `{}`", Review::NAMES.join("`, `"))),
        }
    }
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Review::Always => "always",
            Review::Escalated => "escalated",
            Review::Never => "never",
        })
    }
}

//! Enums of the settings that accept a fixed list of names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::named_values;

named_values! {
    /// When a draft needs a reviewer's approval before it is applied.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    Review {
        /// Always: the gate alone accepts no draft.
        Always = "always",
        /// When the gate escalates the draft.
        #[default]
        Escalated = "escalated",
        /// Never: drafts that the gate would escalate are rejected.
        Never = "never",
    }

    /// Which failures the stored result of a finished call survives.
    StoreDurability {
        ProcessCrash = "process-crash",
        PowerLoss = "power-loss",
    }

    /// Minimum level of logged events.
    LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }

    /// Output format of the log.
    LogFormat {
        Text = "text",
        Json = "json",
    }
}

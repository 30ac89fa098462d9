//! Settings whose values are one of several names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::named_values;

named_values! {
    /// When a person looks at a draft before it is applied.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    Review {
        /// Always: nothing is accepted by the gate alone.
        Always = "always",
        /// When the gate is in doubt.
        #[default]
        Escalated = "escalated",
        /// Never: what the gate is in doubt about is rejected.
        Never = "never",
    }

    /// What a finished call survives.
    Durability {
        ProcessCrash = "process-crash",
        PowerLoss = "power-loss",
    }

    /// How much is logged.
    LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }

    /// How the log is written.
    LogFormat {
        Text = "text",
        Json = "json",
    }
}

//! Enums for the settings that accept one of a fixed list of names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::define::named_values;

named_values! {
    /// When a draft needs a reviewer's approval before it is applied.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    Review {
        /// Every draft needs approval, even if the gate would accept it.
        Always = "always",
        /// Only drafts that the gate escalates need approval.
        #[default]
        Escalated = "escalated",
        /// No draft needs approval: the gate rejects the drafts that it would otherwise escalate.
        Never = "never",
    }

    /// Kinds of failures that do not destroy the stored result of a finished model call.
    StoreDurability {
        /// The result survives a crash or a kill of the process, but it may be lost if the machine loses power.
        ProcessCrash = "process-crash",
        /// The result also survives a power loss, because every write waits for the disk.
        PowerLoss = "power-loss",
    }

    /// Minimum level of the events that are logged.
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

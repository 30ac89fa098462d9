//! Arguments of `assize worker` and `assize cluster`.

use assize_config::SettingKey;
use clap::{Args, Subcommand};

use super::{FlagSetting, settings_from_flags, whole};

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Set the maximum number of sandboxes that run at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = whole(1..=1000))]
    pub(crate) slots: u32,

    /// Give the worker a label, for jobs that require it; can be repeated
    ///
    /// The setting `cluster.require_labels` of the submitting machine defines the labels that a job requires.
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<String>,

    /// Set the worker's region; the worker skips jobs that require a different region
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,

    /// Offer this isolation: jail, docker, microvm or at-least=NAME [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Print the worker's capabilities as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl WorkerArgs {
    /// Returns the settings that were given as flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        settings_from_flags([(SettingKey::SandboxIsolation, "--isolation", &self.isolation)])
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the nodes and their capabilities, the queue, and stuck runs
    Status {
        /// Print the status as JSON
        #[arg(long)]
        json: bool,
    },
}

//! Arguments of `assize worker` and `assize cluster`.

use assize_config::SettingKey;
use clap::{Args, Subcommand};

use super::{FlagSetting, given, whole};

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Maximum number of sandboxes at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = whole(1..=1000))]
    pub(crate) slots: u32,

    /// Label that the setting `cluster.require_labels` can require; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<String>,

    /// Region of the worker; runs that require another region are left to other workers
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,

    /// Isolation to offer: jail, docker, microvm or at-least=NAME [default: all available]
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Print the worker's capabilities as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl WorkerArgs {
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        given([(SettingKey::SandboxIsolation, "--isolation", &self.isolation)])
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the nodes and their capabilities, the queue, and stuck runs
    Status {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

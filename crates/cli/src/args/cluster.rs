//! `assize worker` and `assize cluster`: what can be typed.

use assize_config::SettingKey;
use clap::{Args, Subcommand};

use super::{FlagSetting, given, whole};

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// How many sandboxes it has at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = whole(1..=1000))]
    pub(crate) slots: u32,

    /// What can be asked for with the setting `cluster.needs`; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub(crate) labels: Vec<String>,

    /// Where it is: runs that are to be held elsewhere are left to others
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,

    /// The walls that it builds: jail, docker, microvm or at-least=NAME; all that can be had here if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Print what it offers as one JSON object
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
    /// Who takes part and what they can do, what waits and for what, and runs that nobody gets on with
    Status {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

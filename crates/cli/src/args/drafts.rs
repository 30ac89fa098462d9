//! Arguments of `assize mcp`, `drafts`, `gate`, `audit` and `work`.

use std::path::PathBuf;

use assize_config::{Review, SettingKey};
use assize_draft::work::{MAX_REJECTIONS, MAX_STEPS, WorkMode};
use clap::{Args, Subcommand};

use super::{FlagSetting, ModelArgs, ResumeFlags, duration, given, whole};

/// Flag that selects the workspace.
#[derive(Debug, Default, Args)]
pub(crate) struct WorkspaceArgs {
    /// Workspace folder [default: the nearest folder with `_handoff`, or the current one]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Tools to serve: drafts, or code (runs programs in sandboxes)
    ///
    /// Never both: agents that edit files must not run code.
    #[arg(long, value_name = "TOOLS", value_parser = ["drafts", "code"], default_value = "drafts", hide_possible_values = true)]
    pub(crate) tools: String,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    #[command(flatten)]
    pub(crate) gate: GateArgs,
}

/// Flags that configure the gate.
#[derive(Debug, Default, Args)]
pub(crate) struct GateArgs {
    /// When a reviewer must decide: always, escalated or never [default: escalated]
    ///
    /// `escalated`: only if the gate is in doubt. `never`: the gate rejects those drafts instead.
    #[arg(long, value_name = "WHEN", value_parser = Review::NAMES.to_vec(), hide_possible_values = true)]
    pub(crate) review: Option<String>,

    /// Command that must pass, in a sandbox on a copy of the workspace, before a draft is accepted
    #[arg(long, value_name = "COMMAND")]
    pub(crate) verify: Option<String>,

    /// Isolation of that command: jail, docker, microvm, at-least=NAME or auto
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,
}

impl GateArgs {
    /// Settings given by these flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        given([
            (SettingKey::DraftReview, "--review", &self.review),
            (SettingKey::DraftVerify, "--verify", &self.verify),
            (SettingKey::SandboxIsolation, "--isolation", &self.isolation),
        ])
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum DraftsCommand {
    /// Create the drafts folder, and on request an entry in `.gitignore`
    Init {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Add the entry without asking
        #[arg(long)]
        yes: bool,
    },
    /// List open drafts
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a draft
    Show {
        /// Name of the draft, or the path of its file relative to the workspace
        draft: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the changes in a draft
    Diff {
        /// Name of the draft, or the path of its file relative to the workspace
        draft: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Delete old drafts that were not submitted, and copies kept to undo old submissions
    Clean {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Minimum age, such as 7d [default: the setting `draft.keep_days`]
        #[arg(long, value_name = "TIME", value_parser = duration)]
        older_than: Option<std::time::Duration>,
        /// Empty the drafts folder: delete all drafts and reject all waiting submissions
        #[arg(long, conflicts_with = "older_than")]
        all: bool,
        /// With --all: do not ask for confirmation
        #[arg(long, requires = "all")]
        yes: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch the draft tools off in a workspace
    ///
    /// `assize work --mode text` still proposes patches.
    Off {
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Switch the draft tools on again
    On {
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// List submissions that wait for your decision
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Also list settled submissions
        #[arg(long)]
        all: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a submission: its changes and the gate's reasons
    Show {
        /// Number of the submission
        submission: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept submissions and apply their changes
    Accept {
        /// Numbers of the submissions
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Overwrite files that have changed since (`undo` restores them)
        #[arg(long)]
        force: bool,
    },
    /// Reject submissions
    Reject {
        /// Numbers of the submissions
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Reason, which the agent that submitted the draft can read
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Undo applied submissions: restore the files byte for byte
    Undo {
        /// Numbers of the submissions
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check the log for changed, removed, reordered or cut-off entries
    Verify {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Earlier head that must still be in the log: a line of `assize audit head`, @FILE, - or ID:HASH
        ///
        /// @FILE and - (standard input) contain one head per line.
        #[arg(long, value_name = "HEAD")]
        since: Option<String>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the signed head of the log, to keep elsewhere for `audit verify --since`
    Head,
    /// Show the log of a workspace
    Show {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Only entries about this task
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Only refused paths
        #[arg(long)]
        refused: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct WorkArgs {
    /// Task; `-` reads it from standard input [default: the goal in the contract]
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    /// How the model edits: tools, text (file blocks in its answers) or auto
    ///
    /// `auto` offers tools, and falls back to text if the model calls none.
    #[arg(long, value_name = "MODE", value_parser = WorkMode::NAMES.to_vec(), default_value = "tools", hide_possible_values = true, conflicts_with = "resume")]
    pub(crate) mode: String,

    /// Without tools: show the model this file; can be repeated
    ///
    /// Files that the task names are always shown.
    #[arg(long = "file", value_name = "PATH", conflicts_with = "resume")]
    pub(crate) files: Vec<String>,

    /// Task id [default: the one in the contract, or a generated one]
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(crate) task_id: Option<String>,

    /// Maximum number of model calls
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_STEPS, value_parser = whole(1..=500), conflicts_with = "resume")]
    pub(crate) max_steps: u32,

    /// Maximum number of rejections
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_REJECTIONS, value_parser = whole(1..=100), conflicts_with = "resume")]
    pub(crate) max_rejections: u32,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) gate: GateArgs,

    #[command(flatten)]
    pub(crate) again: ResumeFlags,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

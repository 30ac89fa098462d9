//! `assize mcp`, `drafts`, `gate` and `audit`: what can be typed.

use std::path::PathBuf;

use assize_config::{Review, SettingKey};
use assize_draft::work::{MAX_REJECTIONS, MAX_STEPS, Mode};
use clap::{Args, Subcommand};

use super::{Again, FlagSetting, ModelArgs, duration, given, whole};

/// Which workspace is meant.
#[derive(Debug, Default, Args)]
pub(crate) struct WorkspaceArgs {
    /// The folder whose files are drafted [default: the nearest folder with `_handoff`, or this one]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Which tools: drafts, or code, which runs programs in sandboxes. Never both: whoever drafts must not be able to
    /// execute
    #[arg(long, value_name = "TOOLS", value_parser = ["drafts", "code"], default_value = "drafts", hide_possible_values = true)]
    pub(crate) tools: String,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    #[command(flatten)]
    pub(crate) gate: GateArgs,
}

/// How the gate decides.
#[derive(Debug, Default, Args)]
pub(crate) struct GateArgs {
    /// When a person looks before a draft is applied: always, escalated (when the gate is in doubt) or never
    /// (what it doubts is rejected) [default: escalated]
    #[arg(long, value_name = "WHEN", value_parser = Review::NAMES.to_vec(), hide_possible_values = true)]
    pub(crate) review: Option<String>,

    /// A command that must pass before a draft is accepted, run in a sandbox on a copy of the workspace
    #[arg(long, value_name = "COMMAND")]
    pub(crate) verify: Option<String>,

    /// The sandbox of that command: jail, docker, microvm, at-least=NAME or auto
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,
}

impl GateArgs {
    /// The flags as settings: key, flag, value.
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
    /// Make a workspace ready: the drafts folder, and an entry in `.gitignore` if you want it
    Init {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Add the entry without being asked
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
        /// Its name, or the path of its file from the workspace's folder
        draft: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a draft changes
    Diff {
        /// Its name, or the path of its file from the workspace's folder
        draft: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Put away what was settled, and drafts that nobody handed in, once they are old
    Clean {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Older than this, such as 7d; by the setting `draft.keep_days` if not given
        #[arg(long, value_name = "TIME", value_parser = duration)]
        older_than: Option<std::time::Duration>,
        /// Empty the drafts folder: delete all drafts, and reject what waits for a decision
        #[arg(long, conflicts_with = "older_than")]
        all: bool,
        /// With --all: do not ask for confirmation
        #[arg(long, requires = "all")]
        yes: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch the tools off in a workspace; `assize work --mode text` still proposes patches
    Off {
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Switch the tools on again
    On {
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// List what waits for you
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// And what was settled
        #[arg(long)]
        all: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one submission: what it changes, what speaks against it
    Show {
        /// Its number
        submission: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Apply what waits for you
    Accept {
        /// Its number, or several
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Even if a file has changed since: the draft replaces what is there (`undo` brings it back)
        #[arg(long)]
        force: bool,
    },
    /// Send back what waits for you
    Reject {
        /// Its number, or several
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// What the worker is told
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Take back what was applied: the files are again what they were, byte for byte
    Undo {
        /// Its number, or several
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Look whether anything in the log was changed, removed, reordered or cut off
    Verify {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// A head that the log had, which must still be in it: a line of `assize audit head`, @FILE or - for lines of
        /// them, or ID:HASH
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
        /// Only what concerns this task
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Only paths that were refused
        #[arg(long)]
        refused: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct WorkArgs {
    /// What is to be done to the files; `-` reads it from standard input. The contract's goal if not given
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    /// How the model works: tools, text (its answers are read for file blocks) or auto (tools, and text if it
    /// calls none)
    #[arg(long, value_name = "MODE", value_parser = Mode::NAMES.to_vec(), default_value = "tools", hide_possible_values = true, conflicts_with = "resume")]
    pub(crate) mode: String,

    /// Without tools: show the model this file; can be repeated. Files that the task names are shown anyway
    #[arg(long = "file", value_name = "PATH", conflicts_with = "resume")]
    pub(crate) files: Vec<String>,

    /// What the task is called; as the contract says, or by a name of its own, if not given
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(crate) task_id: Option<String>,

    /// Calls to the model at most
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_STEPS, value_parser = whole(1..=500), conflicts_with = "resume")]
    pub(crate) max_steps: u32,

    /// Rejections at most
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_REJECTIONS, value_parser = whole(1..=100), conflicts_with = "resume")]
    pub(crate) max_rejections: u32,

    /// Print what it came to as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but what it came to
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) gate: GateArgs,

    #[command(flatten)]
    pub(crate) again: Again,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

//! Arguments of `assize mcp`, `drafts`, `gate`, `audit` and `work`.

use std::path::PathBuf;

use assize_config::{Review, SettingKey};
use assize_draft::work::{MAX_REJECTIONS, MAX_STEPS, WorkMode};
use assize_types::{Failure, FailureKind};
use clap::{Args, Subcommand, ValueEnum};

use super::{FlagSetting, ModelArgs, ResumeFlags, duration, settings_from_flags, whole};

/// Flag that selects the workspace.
#[derive(Debug, Default, Args)]
pub(crate) struct WorkspaceArgs {
    /// Use this workspace [default: nearest folder with `_handoff`, or current folder]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) workspace: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,

    #[command(flatten)]
    pub(crate) tools: McpToolsArgs,
}

/// Flags that select and configure the tools of the MCP server.
#[derive(Debug, Args)]
pub(crate) struct McpToolsArgs {
    /// Serve these tools: drafts, or code (which runs programs in sandboxes)
    ///
    /// One server never offers the draft tools together with the code tool, because agents that edit files must not run
    /// code.
    #[arg(long, value_name = "TOOLS", value_parser = ["drafts", "code"], default_value = "drafts", hide_possible_values = true)]
    pub(crate) tools: String,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    #[command(flatten)]
    pub(crate) gate: GateArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add this server to the configuration of an MCP client
    ///
    /// Other entries and comments in the configuration file are preserved. The command first copies the file to a
    /// backup, whose name ends in `.assize-backup`.
    Install(McpInstallArgs),
}

/// An MCP client whose configuration can be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Zed,
    Codex,
}

#[derive(Debug, Args)]
pub(crate) struct McpInstallArgs {
    /// Client: claude-code, claude-desktop, cursor, vscode, zed or codex
    #[arg(value_enum, hide_possible_values = true)]
    pub(crate) client: McpClient,

    #[command(flatten)]
    pub(crate) tools: McpToolsArgs,

    /// Set the name of the entry, which clients show with each tool
    #[arg(long, default_value = "assize", value_parser = server_name)]
    pub(crate) name: String,

    /// Replace an existing entry that has the same name, but different content
    #[arg(long)]
    pub(crate) force: bool,

    /// Print the entry, and change no file
    #[arg(long)]
    pub(crate) print: bool,
}

impl McpToolsArgs {
    /// Whether the server offers the code tool instead of the draft tools.
    pub(crate) fn is_code(&self) -> bool {
        self.tools == "code"
    }

    /// Rejects options of the draft tools that are given together with `--tools code`.
    pub(crate) fn reject_draft_options(&self) -> Result<(), Failure> {
        let given = [
            ("--workspace", self.workspace.workspace.is_some()),
            ("--review", self.gate.review.is_some()),
            ("--verify", self.gate.verify.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::new(
                FailureKind::Usage,
                format!(
                    "`{option}` cannot be used with `--tools code`: the programs cannot see your files"
                ),
            )),
        }
    }
}

impl McpInstallArgs {
    /// Arguments that add the draft tools for the current folder to a client.
    pub(crate) fn for_client(client: McpClient) -> McpInstallArgs {
        McpInstallArgs {
            client,
            tools: McpToolsArgs {
                tools: "drafts".to_owned(),
                workspace: WorkspaceArgs::default(),
                gate: GateArgs::default(),
            },
            name: "assize".to_owned(),
            force: false,
            print: false,
        }
    }
}

/// Parses the name of an entry in the configuration of an MCP client.
fn server_name(text: &str) -> Result<String, String> {
    let is_valid = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    match (1..=32).contains(&text.len()) && text.chars().all(is_valid) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 32 letters, digits, `-` and `_`".to_owned()),
    }
}

/// Flags that configure the gate.
#[derive(Debug, Default, Args)]
pub(crate) struct GateArgs {
    /// Require a review of drafts: always, escalated or never [default: escalated]
    ///
    /// With `escalated`, a reviewer decides only on drafts that the gate escalates. With `never`, the gate rejects the
    /// drafts that it would escalate.
    #[arg(long, value_name = "WHEN", value_parser = Review::NAMES.to_vec(), hide_possible_values = true)]
    pub(crate) review: Option<String>,

    /// Accept drafts only if this command succeeds in a sandbox
    ///
    /// The command runs on a copy of the workspace with the changes of the draft.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) verify: Option<String>,

    /// Isolate the `--verify` command with jail, docker, microvm, at-least=NAME or auto
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,
}

impl GateArgs {
    /// Returns the settings that were given as flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        settings_from_flags([
            (SettingKey::DraftReview, "--review", &self.review),
            (SettingKey::DraftVerify, "--verify", &self.verify),
            (SettingKey::SandboxIsolation, "--isolation", &self.isolation),
        ])
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum DraftsCommand {
    /// Create the drafts folder, and offer to exclude the folder in `.gitignore`
    Init {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Exclude the folder in `.gitignore` without asking for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// List open drafts
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the content of a draft
    Show {
        /// Name of the draft, or the path of its file relative to the workspace
        draft: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print the draft as JSON
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
    /// Delete old drafts that were not submitted, and the undo data of old submissions
    Clean {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Delete only drafts and undo data older than TIME, such as 7d [default: `draft.keep_days`]
        #[arg(long, value_name = "TIME", value_parser = duration)]
        older_than: Option<std::time::Duration>,
        /// Delete all drafts and reject all submissions that wait for a decision
        #[arg(long, conflicts_with = "older_than")]
        all: bool,
        /// With `--all`: do not ask for confirmation
        #[arg(long, requires = "all")]
        yes: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Switch the draft tools off in a workspace
    ///
    /// Agents can then no longer create or submit drafts. `assize work --mode text` still proposes patches.
    Off {
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Switch the draft tools on again in a workspace
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
        /// Also list submissions that are already accepted, rejected or undone
        #[arg(long)]
        all: bool,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a submission: its changes and the gate's reasons
    Show {
        /// Number (see `assize gate ls`) or message id of the submission
        submission: String,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Print the submission as JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept submissions and apply their changes
    Accept {
        /// Numbers (see `assize gate ls`) or message ids of the submissions
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Overwrite files that have changed since the draft was created
        ///
        /// `assize gate undo` restores the overwritten files.
        #[arg(long)]
        force: bool,
    },
    /// Reject submissions
    Reject {
        /// Numbers (see `assize gate ls`) or message ids of the submissions
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Give a reason, which the agent that submitted the draft can read
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Undo applied submissions: restore the previous content of their files
    Undo {
        /// Numbers (see `assize gate ls`) or message ids of the submissions
        #[arg(required = true)]
        submissions: Vec<String>,
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check the audit log for changed, removed or reordered entries
    Verify {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Check that the audit log still contains this earlier head
        ///
        /// A head is the id and the hash of the entry that was the latest at some time. HEAD is a line printed by
        /// `assize audit head`, ID:HASH, @FILE, or - (standard input). A file or standard input contains one head per
        /// line.
        #[arg(long, value_name = "HEAD")]
        since: Option<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the head of the audit log (id and hash of the latest entry), signed
    ///
    /// Store the head on another machine. Later, `assize audit verify --since` checks that the audit log still contains
    /// that entry.
    Head,
    /// Show the audit log of a workspace
    Show {
        #[command(flatten)]
        workspace: WorkspaceArgs,
        /// Show only entries about this task
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Show only tool calls that were refused because of the requested path
        #[arg(long)]
        refused: bool,
        /// Print the entries as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct WorkArgs {
    /// Task for the model, `-` for standard input [default: goal of the task contract]
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceArgs,

    /// Set how the model edits files: tools, text (file blocks in its answers) or auto
    ///
    /// `auto` offers tools to the model, and switches to text if the model calls no tool.
    #[arg(long, value_name = "MODE", value_parser = WorkMode::NAMES.to_vec(), default_value = "tools", hide_possible_values = true, conflicts_with = "resume")]
    pub(crate) mode: String,

    /// In text mode, show this file to the model; can be repeated
    ///
    /// The model always sees the files whose paths occur in the task.
    #[arg(long = "file", value_name = "PATH", conflicts_with = "resume")]
    pub(crate) files: Vec<String>,

    /// Set the id of the task [default: id in the task contract, or a generated id]
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub(crate) task_id: Option<String>,

    /// Set the maximum number of model calls
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_STEPS, value_parser = whole(1..=500), conflicts_with = "resume")]
    pub(crate) max_steps: u32,

    /// Stop after this number of rejected submissions
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
    pub(crate) resume_flags: ResumeFlags,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

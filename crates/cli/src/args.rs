//! Command-line arguments, and the value parsers that several commands share.

mod cluster;
mod consult;
mod debate;
mod drafts;
mod eval;
mod init;
mod model;
mod run;
mod runs;
mod sandbox;
mod serve;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use assize_config::SettingKey;
use assize_consult::{ForkPoint, ForkRequest};
use assize_run::ResumeRequest;
use assize_types::{Failure, FailureKind};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{exit, input};

pub(crate) use self::cluster::{ClusterCommand, WorkerArgs};
pub(crate) use self::consult::{ConsultArgs, SourceArg};
pub(crate) use self::debate::DebateArgs;
pub(crate) use self::drafts::{
    AuditCommand, DraftsCommand, GateCommand, McpArgs, McpClient, McpCommand, McpInstallArgs,
    WorkArgs, WorkspaceArgs,
};
pub(crate) use self::eval::EvalArgs;
pub(crate) use self::init::{CompletionShell, InitArgs};
pub(crate) use self::model::ModelArgs;
pub(crate) use self::run::RunArgs;
pub(crate) use self::runs::{ForkRunArgs, ResumeArgs, RunsCommand, SessionsCommand, StatusFilter};
pub(crate) use self::sandbox::{
    AttackArgs, CreateArgs, ImageCommand, ImageKind, SandboxArgs, SandboxCommand,
};
pub(crate) use self::serve::{ServeArgs, TokensCommand};

/// Version of assize, with a note if the binary was built without the web page.
pub(crate) fn version() -> &'static str {
    match assize_server::page_missing() {
        None => env!("CARGO_PKG_VERSION"),
        Some(_) => {
            concat!(env!("CARGO_PKG_VERSION"), " (built without the web page of `assize serve`)")
        }
    }
}

/// Put proposals of language models on trial in a sandbox before they take effect
#[derive(Debug, Parser)]
#[command(name = "assize", version = version(), after_help = exit::help(), max_term_width = 100)]
pub(crate) struct CommandLine<C: Subcommand> {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Store and execute runs in the cluster of these NATS servers (`nats://a,b,c`)
    #[arg(long, global = true, help_heading = "Cluster", value_name = "SERVERS")]
    pub(crate) cluster: Option<String>,

    #[command(subcommand)]
    pub(crate) command: C,
}

/// A command line with one of all commands.
pub(crate) type Cli = CommandLine<CliCommand>;

/// The subcommand `exec` alone.
#[derive(Debug, Subcommand)]
pub(crate) enum ExecCommand {
    Exec(Box<ExecArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Set the log level: error, warn, info, debug or trace (which also logs prompts)
    #[arg(long, global = true, help_heading = "Log", value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug", "trace"], hide_possible_values = true)]
    pub(crate) log_level: Option<String>,

    /// Set the log format: text or json
    #[arg(long, global = true, help_heading = "Log", value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    pub(crate) log_format: Option<String>,
}

impl Cli {
    /// Returns the settings that were given as global flags, which all commands have, such as `--log-level`.
    pub(crate) fn global_settings(&self) -> Vec<FlagSetting> {
        settings_from_flags([
            (SettingKey::LogLevel, "--log-level", &self.log.log_level),
            (SettingKey::LogFormat, "--log-format", &self.log.log_format),
            (SettingKey::ClusterServers, "--cluster", &self.cluster),
        ])
    }
}

impl CliCommand {
    /// Whether the command prints the result of model calls, which may cost money.
    pub(crate) fn prints_answer(&self) -> bool {
        matches!(
            self,
            CliCommand::Ask(_)
                | CliCommand::Run(_)
                | CliCommand::Eval(_)
                | CliCommand::Consult(_)
                | CliCommand::Debate(_)
                | CliCommand::Work(_)
                | CliCommand::Runs(RunsCommand::Resume(_) | RunsCommand::Fork(_))
        )
    }

    /// Whether the command prints only its result (`--quiet`).
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            CliCommand::Ask(args) => args.quiet,
            CliCommand::Run(args) => args.quiet,
            CliCommand::Debate(args) => args.quiet,
            CliCommand::Eval(args) => args.quiet,
            CliCommand::Exec(args) => args.quiet,
            CliCommand::Consult(args) => args.quiet,
            CliCommand::Work(args) => args.quiet,
            CliCommand::Runs(RunsCommand::Resume(args)) => args.quiet,
            CliCommand::Runs(RunsCommand::Fork(args)) => args.quiet,
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Set up a provider, shell completions, sandbox images and MCP clients
    ///
    /// With `--provider`, the command asks only for a missing API key. Without a terminal, it asks nothing.
    Init(Box<InitArgs>),
    /// Ask a model one question
    Ask(Box<AskArgs>),
    /// Have a model write a program, run it in a sandbox, fix and retry
    ///
    /// Every step is stored, so a stopped run can be resumed.
    Run(Box<RunArgs>),
    /// Measure a model on problems with known solutions, with and without retries
    Eval(Box<EvalArgs>),
    /// Run your code in a new sandbox, without a network and with limits
    ///
    /// Of your files, the program sees only those that you pass with `--file`.
    Exec(Box<ExecArgs>),
    /// Create, use and remove named sandboxes
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Attack the sandboxes or the gate, and print a scorecard
    Attack(AttackArgs),
    /// Build, list and remove images for container and microVM sandboxes
    #[command(subcommand)]
    Image(ImageCommand),
    /// Put strategic moves of a company on trial and recommend the best three
    ///
    /// Models read data about the company and propose moves. Each move is debated in its own sandbox and scored.
    Consult(Box<ConsultArgs>),
    /// Put one business move on trial: a critic debates three decision makers
    ///
    /// The decision makers then score the move. Every finished call is stored, so a stopped run can be resumed.
    Debate(Box<DebateArgs>),
    /// Have a model edit files through drafts that a gate checks
    ///
    /// If the gate rejects a draft, the model gets the reasons and tries again. Every step is stored, so a stopped run
    /// can be resumed.
    Work(Box<WorkArgs>),
    /// Run the MCP server (draft tools or code execution)
    ///
    /// The server uses standard input and output. The draft tools give agents copies of files, and the gate checks
    /// every submission. The code tool runs programs in a sandbox.
    Mcp(McpArgs),
    /// Serve the HTTP API, live events and the web page
    ///
    /// Runs that are in progress when the server stops are resumed when the server starts again.
    Serve(Box<ServeArgs>),
    /// Manage access tokens with a limited scope for `assize serve`
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Run a worker that executes jobs from the queue of a cluster
    Worker(WorkerArgs),
    /// Show the nodes, queue and stuck runs of a cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Manage open drafts, and switch the draft tools off and on
    #[command(subcommand)]
    Drafts(DraftsCommand),
    /// Review submissions: list, show, accept, reject, undo
    #[command(subcommand)]
    Gate(GateCommand),
    /// Show and verify the audit log of drafts
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Manage past runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Manage the working files of sessions (`assize run --session`)
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Show which providers and sandboxes are available, and why others are not
    ///
    /// The report also shows how each limit of a sandbox is enforced.
    Doctor(DoctorArgs),
    /// Show and edit settings, and trust the settings of a folder
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write the man pages of all commands
    #[command(hide = true)]
    Manual {
        /// Folder for the pages
        folder: PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// Shell that the script is for
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// Question to ask; `-` reads the question from standard input
    pub(crate) question: String,

    /// Require a JSON answer that matches the JSON schema in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Set the system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print the answer while it is generated
    #[arg(long, conflicts_with_all = ["schema", "json"])]
    pub(crate) stream: bool,

    /// Print the answer, usage and cost as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Print the estimated cost and exit
    #[arg(long, conflicts_with_all = ["stream", "record", "replay"])]
    pub(crate) estimate: bool,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
#[command(after_help = exit::help_of_exec())]
pub(crate) struct ExecArgs {
    /// Code file (.py, .sh, .js, or `-` for standard input), then program arguments
    ///
    /// Put options of `assize exec` before the file. A `--` directly after the file is not passed to the program.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["FILE", "ARGUMENTS"])]
    pub(crate) code: Vec<String>,

    /// Set the language: python, bash or javascript [default: by the file name]
    #[arg(long, short, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,

    /// Pass a file to the program, read-only, as /workspace/NAME; can be repeated
    #[arg(long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<String>,

    /// Copy the files that the program creates in /workspace to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Add Python packages that `packages.allow` lists, such as numpy,pandas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) packages: Vec<String>,

    /// Set an environment variable of the program; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,

    /// Print the program's output and exit status as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Suppress assize's own messages
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Do not replace terminal control codes in the program's output
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// Flags shared by all commands that can resume a run.
#[derive(Debug, Default, Args)]
pub(crate) struct ResumeFlags {
    /// Resume a stopped run
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,

    /// With `--resume`: resume the run even if another process holds its lease
    #[arg(long, requires = "resume")]
    pub(crate) take_over: bool,
}

impl ResumeFlags {
    /// Returns a request to resume the run given with `--resume`.
    pub(crate) fn request(&self) -> ResumeRequest {
        let run = self.resume.clone().unwrap_or_default();
        ResumeRequest { run, take_over: self.take_over }
    }
}

/// Flags shared by all commands that can fork an earlier run.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Earlier runs")]
pub(crate) struct ForkArgs {
    /// Start a new run from an earlier run, reusing the answers to unchanged prompts
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub(crate) fork: Option<String>,

    /// With `--fork`: repeat the model calls from this round on, such as `round-4`
    ///
    /// In a consultation, `m3/round-4` repeats only the debate of the move m3, from round 4 on; `m3` repeats the whole
    /// debate of m3.
    #[arg(long, value_name = "ROUND", requires = "fork")]
    pub(crate) at: Option<ForkPoint>,

    /// With `--at`: replace the persona of a role from that round on; can be repeated
    ///
    /// Write `critic=TEXT` or `D1=TEXT`, or `critic=@FILE` to read the persona from a file.
    #[arg(long = "set", value_name = "ROLE=PROMPT", requires = "at")]
    pub(crate) set: Vec<String>,
}

/// Maximum size of a persona, in MiB.
const MAX_PERSONA_MIB: u64 = 1;

impl ForkArgs {
    /// Returns the run to fork and the requested changes; `None` without `--fork`.
    pub(crate) fn fork_request(&self) -> Result<Option<(String, ForkRequest)>, Failure> {
        let usage = |message: String| Failure::new(FailureKind::Usage, message);
        // Flags that have no effect without `--fork` are rejected, not ignored.
        let Some(run) = self.fork.clone() else {
            let given = [("--at", self.at.is_some()), ("--set", !self.set.is_empty())];
            return match given.into_iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(usage(format!("`{flag}` requires `--fork RUN`"))),
                None => Ok(None),
            };
        };
        let mut personas = BTreeMap::new();
        for set in &self.set {
            let Some((role, persona)) = set.split_once('=') else {
                return Err(usage(format!("invalid `--set {set}`: expected `ROLE=PROMPT`"))
                    .hint("for example `--set critic=\"You are …\"` or `--set critic=@FILE`"));
            };
            let persona = match persona.strip_prefix('@') {
                Some(path) => input::from_file("the persona", MAX_PERSONA_MIB, path.as_ref())?,
                None => persona.to_owned(),
            };
            if personas.insert(role.to_owned(), persona).is_some() {
                return Err(usage(format!("`--set` is given twice for the role `{role}`")));
            }
        }
        Ok(Some((run, ForkRequest { at: self.at.clone(), new_personas: personas })))
    }
}

/// A setting that was given as a command-line flag: key of the setting, name of the flag, value.
pub(crate) type FlagSetting = (SettingKey, &'static str, String);

/// Converts flags to settings. Flags that were not given on the command line are left out.
fn settings_from_flags<const N: usize>(
    flags: [(SettingKey, &'static str, &Option<String>); N],
) -> Vec<FlagSetting> {
    flags.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value.clone()?))).collect()
}

/// Creates a value parser for a whole number within bounds.
fn whole(bounds: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| match *bounds.end() {
            u32::MAX => format!("expected a whole number of at least {}", bounds.start()),
            max => format!("expected a whole number from {} to {max}", bounds.start()),
        })
    }
}

/// Parses a duration with a unit, such as `30m`.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| match text.parse::<u64>() {
        Ok(_) => format!("missing unit: expected `{text}s`, `{text}m`, `{text}h` or `{text}d`"),
        Err(_) => "expected a duration with a unit, such as `90s`, `30m`, `2h` or `7d`".to_owned(),
    })
}

/// Parses the time to live of a sandbox: at least a second, at most a week.
fn time_to_live(text: &str) -> Result<Duration, String> {
    const RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(604_800);
    let time = duration(text)?;
    RANGE
        .contains(&time)
        .then_some(time)
        .ok_or_else(|| "expected a duration from `1s` to `7d`".to_owned())
}

/// Parses `NAME=VALUE` into the name and the value.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Skip checks that need the network
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting with its value and source; API keys are masked
    Show {
        /// Print the settings as JSON
        #[arg(long)]
        json: bool,
        /// Select which settings to show
        #[arg(long, value_enum, default_value_t = SettingsFilter::All)]
        only: SettingsFilter,
    },
    /// Set a setting in your settings file; comments in the file are preserved
    Set {
        /// Key of the setting, such as `anthropic.model` (listed by `assize config show`)
        key: String,
        /// New value of the setting
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a setting from your settings file
    Unset {
        /// Key of the setting to remove
        key: String,
    },
    /// Trust a folder's current assize.toml and .env, so that all their settings apply
    Trust {
        /// Folder to trust [default: the folder of the current project]
        folder: Option<PathBuf>,
    },
    /// Revoke the trust in a folder's settings
    Distrust {
        /// Folder to distrust [default: the folder of the current project]
        folder: Option<PathBuf>,
    },
}

/// Settings that `assize config show` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SettingsFilter {
    /// All settings
    All,
    /// Settings whose value is not the default
    Set,
}

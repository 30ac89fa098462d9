//! Command-line arguments, and the value parsers that several commands share.

mod cluster;
mod consult;
mod debate;
mod drafts;
mod eval;
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
    AuditCommand, DraftsCommand, GateCommand, McpArgs, WorkArgs, WorkspaceArgs,
};
pub(crate) use self::eval::EvalArgs;
pub(crate) use self::model::ModelArgs;
pub(crate) use self::run::RunArgs;
pub(crate) use self::runs::{ForkRunArgs, ResumeArgs, RunsCommand, SessionsCommand, StatusFilter};
pub(crate) use self::sandbox::{
    AttackArgs, CreateArgs, ImageCommand, ImageKind, SandboxArgs, SandboxCommand,
};
pub(crate) use self::serve::{ServeArgs, TokensCommand};

/// Version, with a note if the binary was built without the web page.
fn version() -> &'static str {
    match assize_server::page_missing() {
        None => env!("CARGO_PKG_VERSION"),
        Some(_) => {
            concat!(env!("CARGO_PKG_VERSION"), " (built without the page of `assize serve`)")
        }
    }
}

/// Put what language models propose on trial in a sandbox, before it touches your files
#[derive(Debug, Parser)]
#[command(name = "assize", version = version(), after_help = exit::help(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// Store runs on these NATS servers (`nats://a,b,c`) and execute them on cluster workers
    #[arg(long, global = true, help_heading = "Cluster", value_name = "SERVERS")]
    pub(crate) cluster: Option<String>,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log level on standard error: error, warn, info, debug or trace (which shows prompts)
    #[arg(long, global = true, help_heading = "Log", value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug", "trace"], hide_possible_values = true)]
    pub(crate) log_level: Option<String>,

    /// Log format: text or json
    #[arg(long, global = true, help_heading = "Log", value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    pub(crate) log_format: Option<String>,
}

impl Cli {
    /// Settings given by the flags that every command takes.
    pub(crate) fn global_settings(&self) -> Vec<FlagSetting> {
        given([
            (SettingKey::LogLevel, "--log-level", &self.log.log_level),
            (SettingKey::LogFormat, "--log-format", &self.log.log_format),
            (SettingKey::ClusterServers, "--cluster", &self.cluster),
        ])
    }
}

impl CliCommand {
    /// Whether the command prints an answer that costs money.
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

    /// Whether only the result is printed (`--quiet`).
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
    /// Ask a model one question
    Ask(Box<AskArgs>),
    /// Have a model write a program, run it in a sandbox, fix and retry
    ///
    /// Every step is stored, so a stopped run can be resumed.
    Run(Box<RunArgs>),
    /// Measure a model on problems with known solutions, with and without retries
    Eval(Box<EvalArgs>),
    /// Run your code in a fresh sandbox: no network, no files but those you pass, limits
    Exec(Box<ExecArgs>),
    /// Create, use and remove named sandboxes
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Attack the sandboxes or the gate, and print a scorecard
    Attack(AttackArgs),
    /// Manage the images of containers and microVMs
    #[command(subcommand)]
    Image(ImageCommand),
    /// Put a company's options on trial and recommend the best three
    ///
    /// Data about the company is gathered and read; analysts propose moves; each move is debated in its own sandbox and
    /// scored.
    Consult(Box<ConsultArgs>),
    /// Put one business move on trial: a critic debates three decision makers
    ///
    /// The decision makers then score the move. Every finished call is stored, so a stopped run can be resumed.
    Debate(Box<DebateArgs>),
    /// Have a model edit files through drafts that a gate checks
    ///
    /// The model retries rejected drafts with the gate's reasons. Every step is stored, so a stopped run can be resumed.
    Work(Box<WorkArgs>),
    /// Run the MCP server (draft tools or code execution)
    ///
    /// Speaks MCP over standard input and output. The draft tools give agents copies of files and check every submission
    /// at the gate. The code tool runs programs in a sandbox.
    Mcp(McpArgs),
    /// Serve the HTTP API, live events and the web page
    ///
    /// Runs in progress when the server stops are resumed when it starts again.
    Serve(Box<ServeArgs>),
    /// Manage the scoped tokens of `assize serve`
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Run a cluster worker
    Worker(WorkerArgs),
    /// Show the nodes, queue and stuck runs of a cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Manage open drafts; switch the draft tools off and on
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
    /// Manage working files kept by `assize run --session`
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Show providers and sandboxes, how limits are enforced, and what is unavailable and why
    Doctor(DoctorArgs),
    /// Show and edit settings; trust a folder's settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// Question; `-` reads it from standard input
    pub(crate) question: String,

    /// Require a JSON answer that matches this JSON schema
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
    /// Code (a .py, .sh or .js file, or `-` for standard input), then the program's arguments
    ///
    /// Options of `assize exec` go before the file. A `--` after the file is not passed to the program.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["FILE", "ARGUMENTS"])]
    pub(crate) code: Vec<String>,

    /// Language: python, bash or javascript [default: by the file name]
    #[arg(long, short, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,

    /// Pass a file, read-only, as /workspace/NAME; can be repeated
    #[arg(long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<String>,

    /// Copy the files that the program leaves in /workspace to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Add Python packages from the allowed list, such as numpy,pandas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) packages: Vec<String>,

    /// Set an environment variable of the program; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,

    /// Print output and exit status as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Suppress assize's own messages
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Pass terminal control codes of the output through
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// Flags of every command that can resume a run.
#[derive(Debug, Default, Args)]
pub(crate) struct ResumeFlags {
    /// Resume a stopped run
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,

    /// With `--resume`: even if another process holds the lease
    #[arg(long, requires = "resume")]
    pub(crate) take_over: bool,
}

impl ResumeFlags {
    /// Request to resume the given run.
    pub(crate) fn request(&self) -> ResumeRequest {
        let run = self.resume.clone().unwrap_or_default();
        ResumeRequest { run, take_over: self.take_over }
    }
}

/// Flags of every command that can fork an earlier run.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Earlier runs")]
pub(crate) struct ForkArgs {
    /// Start a new run from an earlier one; unchanged prompts reuse their recorded answers
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub(crate) fork: Option<String>,

    /// Ask again from this round on, such as `round-4`; for one move of a consultation, `m3/round-4`
    #[arg(long, value_name = "PLACE", requires = "fork")]
    pub(crate) at: Option<ForkPoint>,

    /// Replace a role's persona from that round on: critic=…, D1=… or critic=@FILE; can be repeated
    #[arg(long = "set", value_name = "ROLE=PROMPT", requires = "at")]
    pub(crate) set: Vec<String>,
}

/// Maximum size of a persona, in MiB.
const MAX_PERSONA_MIB: u64 = 1;

impl ForkArgs {
    /// Run to fork and the requested changes; `None` without `--fork`.
    pub(crate) fn fork_of(&self) -> Result<Option<(String, ForkRequest)>, Failure> {
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
                return Err(usage(format!("`--set {role}=…` given twice")));
            }
        }
        Ok(Some((run, ForkRequest { at: self.at.clone(), told: personas })))
    }
}

/// Setting given by a flag: key, flag, value.
pub(crate) type FlagSetting = (SettingKey, &'static str, String);

/// Settings of those flags that were given.
fn given<const N: usize>(
    flags: [(SettingKey, &'static str, &Option<String>); N],
) -> Vec<FlagSetting> {
    flags.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value.clone()?))).collect()
}

/// Value parser for a whole number within bounds.
fn whole(bounds: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| match *bounds.end() {
            u32::MAX => format!("expected a whole number of at least {}", bounds.start()),
            max => format!("expected a whole number from {} to {max}", bounds.start()),
        })
    }
}

/// Parses a time span such as `30m`.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| match text.parse::<u64>() {
        Ok(_) => format!("missing unit: expected `{text}s`, `{text}m`, `{text}h` or `{text}d`"),
        Err(_) => "expected a time with a unit, such as `90s`, `30m`, `2h` or `7d`".to_owned(),
    })
}

/// Parses the time to live of a sandbox: at least a second, at most a week.
fn time_to_live(text: &str) -> Result<Duration, String> {
    const RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(604_800);
    let time = duration(text)?;
    RANGE
        .contains(&time)
        .then_some(time)
        .ok_or_else(|| "expected a time from `1s` to `7d`".to_owned())
}

/// Parses `NAME=VALUE`.
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

    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every effective setting and its source; keys are masked
    Show {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        /// Which settings to show
        #[arg(long, value_enum, default_value_t = SettingsFilter::All)]
        only: SettingsFilter,
    },
    /// Set a setting in your settings file; its comments are kept
    Set {
        /// Setting, such as `anthropic.model`; `assize config show` lists all
        key: String,
        /// New value
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a setting from your settings file
    Unset {
        /// Setting to remove
        key: String,
    },
    /// Trust a folder's current assize.toml and .env to set where keys are sent
    Trust {
        /// Folder [default: that of the current project]
        folder: Option<PathBuf>,
    },
    /// Revoke the trust in a folder's settings
    Distrust {
        /// Folder [default: that of the current project]
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SettingsFilter {
    /// All settings
    All,
    /// Settings that are not at their default
    Set,
}

//! What can be typed.

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
use assize_consult::{At, ForkRequest};
use assize_run::ResumeRequest;
use assize_types::{Failure, FailureKind};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{exit, input};

pub(crate) use self::cluster::{ClusterCommand, WorkerArgs};
pub(crate) use self::consult::{ConsultArgs, SourceName};
pub(crate) use self::debate::DebateArgs;
pub(crate) use self::drafts::{
    AuditCommand, DraftsCommand, GateCommand, McpArgs, WorkArgs, WorkspaceArgs,
};
pub(crate) use self::eval::EvalArgs;
pub(crate) use self::model::ModelArgs;
pub(crate) use self::run::RunArgs;
pub(crate) use self::runs::{ForkRunArgs, ResumeArgs, RunsCommand, SessionsCommand, StatusFilter};
pub(crate) use self::sandbox::{
    AttackArgs, CreateArgs, ImageCommand, ImageFor, SandboxArgs, SandboxCommand,
};
pub(crate) use self::serve::{ServeArgs, TokensCommand};

/// The version, and whether something is missing in this program.
fn version() -> &'static str {
    match assize_server::page_missing() {
        None => env!("CARGO_PKG_VERSION"),
        Some(_) => {
            concat!(env!("CARGO_PKG_VERSION"), " (built without the page of `assize serve`)")
        }
    }
}

/// Puts what models propose on trial, in a sandbox, before it touches anything you care about.
#[derive(Debug, Parser)]
#[command(name = "assize", version = version(), after_help = exit::help(), max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    /// The NATS servers of a cluster, such as `nats://a,b,c`: runs are kept there, and held by its workers
    #[arg(long, global = true, help_heading = "Cluster", value_name = "SERVERS")]
    pub(crate) cluster: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// What is logged to standard error: error, warn, info, debug or trace (which shows prompts)
    #[arg(long, global = true, help_heading = "Log", value_name = "LEVEL", value_parser = ["error", "warn", "info", "debug", "trace"], hide_possible_values = true)]
    pub(crate) log_level: Option<String>,

    /// How it is logged: text or json
    #[arg(long, global = true, help_heading = "Log", value_name = "FORMAT", value_parser = ["text", "json"], hide_possible_values = true)]
    pub(crate) log_format: Option<String>,
}

impl Cli {
    /// The flags that every command takes, as settings: key, flag, value.
    pub(crate) fn global_settings(&self) -> Vec<FlagSetting> {
        given([
            (SettingKey::LogLevel, "--log-level", &self.log.log_level),
            (SettingKey::LogFormat, "--log-format", &self.log.log_format),
            (SettingKey::ClusterServers, "--cluster", &self.cluster),
        ])
    }
}

impl Command {
    /// Whether it prints an answer that costs something to get.
    pub(crate) fn prints_answer(&self) -> bool {
        matches!(
            self,
            Command::Ask(_)
                | Command::Run(_)
                | Command::Eval(_)
                | Command::Consult(_)
                | Command::Debate(_)
                | Command::Work(_)
                | Command::Runs(RunsCommand::Resume(_) | RunsCommand::Fork(_))
        )
    }

    /// Whether nothing is to be said but what it comes to.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Command::Ask(args) => args.quiet,
            Command::Run(args) => args.quiet,
            Command::Debate(args) => args.quiet,
            Command::Eval(args) => args.quiet,
            Command::Exec(args) => args.quiet,
            Command::Consult(args) => args.quiet,
            Command::Work(args) => args.quiet,
            Command::Runs(RunsCommand::Resume(args)) => args.quiet,
            Command::Runs(RunsCommand::Fork(args)) => args.quiet,
            _ => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask a model one question
    Ask(Box<AskArgs>),
    /// Have a program written for a task and put on trial: run in a sandbox, criticised where it fails,
    /// and written again. Every step is kept, so that a run can be stopped and go on
    Run(Box<RunArgs>),
    /// See how good a model is at problems whose answers are known, with and without the loop
    Eval(Box<EvalArgs>),
    /// Run code that you have in a fresh sandbox: no network, no files but those you give, limits on
    /// everything
    Exec(Box<ExecArgs>),
    /// Sandboxes that stay for a while: make them, use them, remove them
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// Put the sandboxes themselves on trial: try to get out of them, and print a scorecard
    Attack(AttackArgs),
    /// Images that containers and machines are made from
    #[command(subcommand)]
    Image(ImageCommand),
    /// Put a company's options on trial: what is known is gathered and read, analysts propose moves, each
    /// is debated in a sandbox of its own and scored, and the best three are recommended
    Consult(Box<ConsultArgs>),
    /// Put one business move on trial: a critic against three decision makers, then their scores.
    /// Every finished call is kept, so that a run can be stopped and go on
    Debate(Box<DebateArgs>),
    /// Have a model change files of a folder: it writes drafts, a gate checks each, and it tries again with the
    /// reasons. Every step is kept, so that a run can be stopped and go on
    Work(Box<WorkArgs>),
    /// Serve the draft tools to a program that speaks MCP, over standard input and output: workers get copies
    /// of files, and a gate stands before the files themselves. Or the tool that runs code, in a sandbox
    Mcp(McpArgs),
    /// Serve everything over HTTP, for programs and for browsers: an API, and events as they happen. What is under
    /// way when it stops goes on when it is started again
    Serve(Box<ServeArgs>),
    /// Manage the scoped tokens of `assize serve`
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Work for a cluster: hold its runs and debates, in as many sandboxes at once as are allowed here
    Worker(WorkerArgs),
    /// See who works in a cluster, what waits, and what is stuck
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Drafts that workers write: see them, put old ones away, switch the tools off
    #[command(subcommand)]
    Drafts(DraftsCommand),
    /// What the gate decided, and what waits for you: accept it, reject it, take it back
    #[command(subcommand)]
    Gate(GateCommand),
    /// The log of all that happened to drafts, and whether it is whole
    #[command(subcommand)]
    Audit(AuditCommand),
    /// What was kept of earlier runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Working files that are kept between runs, by `assize run --session`
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Show what this machine offers: providers, sandboxes, what each limit rests on, and why not the
    /// rest
    Doctor(DoctorArgs),
    /// Show settings and where each comes from; trust a folder's settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print completions for a shell, to be loaded by it
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The question; `-` reads it from standard input
    pub(crate) question: String,

    /// Ask for JSON of the shape that this JSON schema describes
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// Instructions that go before the question
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print the answer as it is written
    #[arg(long, conflicts_with_all = ["schema", "json"])]
    pub(crate) stream: bool,

    /// Print answer, usage and cost as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Say what the question would cost, and ask nothing
    #[arg(long, conflicts_with_all = ["stream", "record", "replay"])]
    pub(crate) estimate: bool,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
#[command(after_help = exit::help_of_exec())]
pub(crate) struct ExecArgs {
    /// The code, a .py, .sh or .js file, or `-` to read it from standard input; what comes after it is
    /// passed to the program (after `--`, if there is one)
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_names = ["FILE", "ARGUMENTS"])]
    pub(crate) code: Vec<String>,

    /// python, bash or javascript; by the file's name if not said
    #[arg(long, short, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,

    /// Give it a file, read-only, as /workspace/NAME; can be repeated
    #[arg(long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<String>,

    /// Take the files that it leaves in /workspace into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Add Python packages from the allowed list, such as numpy,pandas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) packages: Vec<String>,

    /// Set a variable of its environment; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,

    /// Print what it wrote and how it ended as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing of our own
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Let its output drive the terminal: colours, and whatever else it sends
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

/// The flags of every command that can go on with a run.
#[derive(Debug, Default, Args)]
pub(crate) struct Again {
    /// Go on with a run that was stopped
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,

    /// With `--resume`: even if a process works on it, or may
    #[arg(long, requires = "resume")]
    pub(crate) take_over: bool,
}

impl Again {
    /// The run to resume.
    pub(crate) fn request(&self) -> ResumeRequest {
        let run = self.resume.clone().unwrap_or_default();
        ResumeRequest { run, take_over: self.take_over }
    }
}

/// The flags of every command that can start from an earlier run.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Earlier runs")]
pub(crate) struct ForkArgs {
    /// Start a new run from an earlier one; only what is asked in other words, or failed, is asked again
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub(crate) fork: Option<String>,

    /// Ask everything from here on again: a round, such as `round-4`; in a consultation also of one move,
    /// such as `m3/round-4`
    #[arg(long, value_name = "PLACE", requires = "fork")]
    pub(crate) at: Option<At>,

    /// From there on, tell someone to be somebody else: critic=…, D1=… and so on, or critic=@FILE; can be
    /// repeated
    #[arg(long = "set", value_name = "WHO=WORDS", requires = "at")]
    pub(crate) set: Vec<String>,
}

/// The longest words about somebody, in MiB.
const LONGEST: u64 = 1;

impl ForkArgs {
    /// The run to start from, and what is changed.
    pub(crate) fn fork_of(&self) -> Result<Option<(String, ForkRequest)>, Failure> {
        let usage = |message: String| Failure::new(FailureKind::Usage, message);
        // Flags that mean nothing without such a run are refused, not forgotten.
        let Some(run) = self.fork.clone() else {
            let given = [("--at", self.at.is_some()), ("--set", !self.set.is_empty())];
            return match given.into_iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(usage(format!("`{flag}` goes with `--fork RUN`"))),
                None => Ok(None),
            };
        };
        let mut told = BTreeMap::new();
        for set in &self.set {
            let Some((who, words)) = set.split_once('=') else {
                return Err(usage(format!("`--set {set}` says nothing about anybody"))
                    .hint("it is like `--set critic=\"You are …\"`, or `--set critic=@FILE`"));
            };
            let words = match words.strip_prefix('@') {
                Some(path) => input::from_file("what somebody is told", LONGEST, path.as_ref())?,
                None => words.to_owned(),
            };
            if told.insert(who.to_owned(), words).is_some() {
                return Err(usage(format!("`{who}` is told two things")));
            }
        }
        Ok(Some((run, ForkRequest { at: self.at.clone(), told })))
    }
}

/// A flag that sets a setting: the setting, the flag, and its value.
pub(crate) type FlagSetting = (SettingKey, &'static str, String);

/// The flags that were given, as settings.
fn given<const N: usize>(
    flags: [(SettingKey, &'static str, &Option<String>); N],
) -> Vec<FlagSetting> {
    flags.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value.clone()?))).collect()
}

/// Parser of a whole number within bounds.
fn whole(bounds: RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        number.ok_or_else(|| match *bounds.end() {
            u32::MAX => format!("wants a whole number of at least {}", bounds.start()),
            most => format!("wants a whole number from {} to {most}", bounds.start()),
        })
    }
}

/// Parses a time span such as `30m`.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| match text.parse::<u64>() {
        Ok(_) => format!("wants a unit: `{text}s`, `{text}m`, `{text}h` or `{text}d`"),
        Err(_) => "wants a time with a unit, such as `90s`, `30m`, `2h` or `7d`".to_owned(),
    })
}

/// Parses the time that a sandbox lives: at least a second, at most a week.
fn time_to_live(text: &str) -> Result<Duration, String> {
    const RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(604_800);
    let time = duration(text)?;
    RANGE.contains(&time).then_some(time).ok_or_else(|| "wants a time from `1s` to `7d`".to_owned())
}

/// `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("is not like NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Do not try to reach anyone
    #[arg(long)]
    pub(crate) offline: bool,

    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting in force and where it was set; keys are masked
    Show {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        /// Which settings to show
        #[arg(long, value_enum, default_value_t = Which::All)]
        only: Which,
    },
    /// Set a setting in your own settings file, which keeps its comments
    Set {
        /// The setting, such as `anthropic.model`; `assize config show` lists all
        key: String,
        /// Its value
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove a setting from your own settings file
    Unset {
        /// The setting
        key: String,
    },
    /// Trust a folder's assize.toml and .env, as they are now, to say where keys go
    Trust {
        /// The folder; that of the project you are in by default
        folder: Option<PathBuf>,
    },
    /// Take that trust back
    Distrust {
        /// The folder; that of the project you are in by default
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// All of them
    All,
    /// Those that are not at their default
    Set,
}

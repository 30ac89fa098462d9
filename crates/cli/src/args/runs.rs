//! Arguments of `assize runs` and `assize sessions`.

use std::path::PathBuf;

use assize_consult::ForkPoint;
use assize_run::RunKind;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::ModelArgs;

/// Creates a value parser for the kind of a run.
fn run_kinds() -> impl TypedValueParser<Value = RunKind> {
    let names = PossibleValuesParser::new(RunKind::ALL.map(RunKind::name));
    names.try_map(|name| name.parse::<RunKind>())
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, latest first
    #[command(visible_alias = "ls")]
    List {
        /// List only runs of this kind: run, eval, debate, consult or work
        #[arg(long, value_parser = run_kinds(), hide_possible_values = true)]
        kind: Option<RunKind>,
        /// List only runs with this status
        #[arg(long, value_enum)]
        status: Option<StatusFilter>,
        /// List only runs whose title contains this text
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// List at most this number of runs; 0 lists all runs
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: usize,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the status and result of a run
    Show {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
        /// Also show the transcripts of the run
        #[arg(long)]
        transcripts: bool,
        /// Also show the events of the run
        #[arg(long)]
        events: bool,
        /// Print the run as JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume a stopped run
    Resume(ResumeArgs),
    /// Fork a debate or consultation: repeat it from a given round on, as a new run
    Fork(Box<ForkRunArgs>),
    /// List or copy the files that a run has produced
    ///
    /// For example, the files that a program created, a consultation's documents, or a patch from `assize work`.
    Files {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
        /// Copy the files to this folder; existing files are not overwritten
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Print the list of files as JSON
        #[arg(long)]
        json: bool,
    },
    /// Export all stored data of a run as one JSON document
    Export {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
        /// Write to this file, which must not exist; `-` is standard output [default: -]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Cancel a run, even if another process executes it
    ///
    /// The process that executes the run stops it at the next step. The run can be resumed later.
    Cancel {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
    },
    /// Remove runs and all their data
    Rm {
        /// Ids of the runs, or prefixes of the ids
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Remove a run even if another process is executing it
        ///
        /// Results that the other process produces after the removal are lost.
        #[arg(long)]
        force: bool,
    },
}

/// Arguments of `assize runs resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Id of the run, a prefix of it, or `latest`
    pub(crate) run: String,
    /// Resume the run even if another process holds its lease
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Write the program's files, or the consultation's documents, to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Set the maximum total cost of the run, in dollars [default: unchanged]
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// Set the maximum total number of tokens of the run [default: unchanged]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,
}

/// Arguments of `assize runs fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkRunArgs {
    /// Id of the run, a prefix of it, or `latest`
    pub(crate) run: String,
    /// Repeat the model calls from this round on: `m3/round-4` (one move) or `round-4`
    ///
    /// `m3/round-4` repeats only the debate of the move m3, from round 4 on. `round-4` repeats all debates from round 4
    /// on.
    #[arg(long, value_name = "ROUND")]
    pub(crate) at: Option<ForkPoint>,
    /// With `--at`: replace the persona of a role from that round on; can be repeated
    ///
    /// Write `critic=TEXT` or `D1=TEXT`, or `critic=@FILE` to read the persona from a file.
    #[arg(long = "set", value_name = "ROLE=PROMPT", requires = "at")]
    pub(crate) set: Vec<String>,
    /// Set the provider of the new run [default: the provider of the original run]
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// Set the model of the new run; in a consultation, ROLE=MODEL sets it for one role
    ///
    /// The option can be repeated for several roles.
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Set the maximum cost of the new run, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// Set the maximum number of tokens of the new run
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,
    /// Write all documents of the consultation to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Start without asking for confirmation of a consultation's estimated cost
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl ForkRunArgs {
    /// Returns the model flags for the command that executes the new run, such as `assize debate`.
    pub(crate) fn model(&self) -> ModelArgs {
        ModelArgs {
            provider: self.provider.clone(),
            models: self.models.clone(),
            max_cost: self.max_cost.clone(),
            max_tokens: self.max_tokens.clone(),
            ..ModelArgs::default()
        }
    }
}

impl ResumeArgs {
    /// Returns the model flags for the command that executes the resumed run, such as `assize run`.
    pub(crate) fn model(&self) -> ModelArgs {
        let (max_cost, max_tokens) = (self.max_cost.clone(), self.max_tokens.clone());
        ModelArgs { max_cost, max_tokens, ..ModelArgs::default() }
    }
}

/// Status that `assize runs list` filters by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFilter {
    /// A process is executing the run
    Running,
    /// The process that executed the run ended before the run was finished
    Stopped,
    /// The run was finished
    Done,
    /// The run ended with an error
    Failed,
    /// A user cancelled the run
    Cancelled,
}

impl StatusFilter {
    pub(crate) fn name(self) -> &'static str {
        match self {
            StatusFilter::Running => "running",
            StatusFilter::Stopped => "stopped",
            StatusFilter::Done => "done",
            StatusFilter::Failed => "failed",
            StatusFilter::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions
    #[command(visible_alias = "ls")]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the files of a session and their folder
    Show {
        /// Name of the session
        name: String,
        /// Print the list of files as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove sessions with all their files
    Rm {
        /// Names of the sessions
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

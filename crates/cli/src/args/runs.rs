//! Arguments of `assize runs` and `assize sessions`.

use std::path::PathBuf;

use assize_consult::ForkPoint;
use assize_run::RunKind;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::ModelArgs;

/// Value parser for the kind of a run.
fn run_kinds() -> impl TypedValueParser<Value = RunKind> {
    let names = PossibleValuesParser::new(RunKind::ALL.map(RunKind::name));
    names.try_map(|name| name.parse::<RunKind>())
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, latest first
    #[command(visible_alias = "ls")]
    List {
        /// Only runs of this kind: run, eval, debate, consult or work
        #[arg(long, value_parser = run_kinds(), hide_possible_values = true)]
        kind: Option<RunKind>,
        /// Only runs with this status
        #[arg(long, value_enum)]
        status: Option<StatusFilter>,
        /// Only runs whose title contains this text
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// Maximum number of runs to list; 0 for all
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: usize,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the status and result of a run
    Show {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
        /// Also show the transcripts
        #[arg(long)]
        transcripts: bool,
        /// Also show the events
        #[arg(long)]
        events: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume a stopped run
    Resume(ResumeArgs),
    /// Fork a debate or consultation: start a new run that differs from a given round on
    Fork(Box<ForkRunArgs>),
    /// List or copy the files of a run, such as a program's output or a consultation's documents
    Files {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
        /// Copy the files to this folder; existing files are not overwritten
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Export all stored data of a run as one JSON document
    Export {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
        /// Output file, which must not exist; `-` is standard output [default: -]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Cancel a run, whichever process executes it
    ///
    /// That process stops at its next step. The run can be resumed.
    Cancel {
        /// Id of the run, a prefix of it, or `latest`
        run: String,
    },
    /// Remove runs and all their data
    Rm {
        /// Ids of the runs, or prefixes of the ids
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Even if another process holds the lease, whose further results are lost
        #[arg(long)]
        force: bool,
    },
}

/// Arguments of `assize runs resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Id of the run, a prefix of it, or `latest`
    pub(crate) run: String,
    /// Even if another process holds the lease
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Write the files of a program or consultation to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Maximum total cost, in dollars [default: as before]
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// Maximum total number of tokens [default: as before]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,
}

/// Arguments of `assize runs fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkRunArgs {
    /// Id of the run, a prefix of it, or `latest`
    pub(crate) run: String,
    /// Ask again from here on: `m3/round-4` (one move), `round-4` (every debate)
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<ForkPoint>,
    /// Replace a role's persona from that round on: critic=…, D1=… or critic=@FILE; can be repeated
    #[arg(long = "set", value_name = "ROLE=PROMPT", requires = "at")]
    pub(crate) set: Vec<String>,
    /// Use another provider
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// Use another model, or ROLE=MODEL for one role of a consultation; can be repeated
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Maximum cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// Maximum number of tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,
    /// Write all documents of a consultation to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Do not ask for confirmation of a consultation's estimated cost
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
    /// These flags as the model flags of the command that executes the run.
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
    /// These flags as the model flags of the command that executes the run.
    pub(crate) fn model(&self) -> ModelArgs {
        let (max_cost, max_tokens) = (self.max_cost.clone(), self.max_tokens.clone());
        ModelArgs { max_cost, max_tokens, ..ModelArgs::default() }
    }
}

/// Status that `assize runs list` filters by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFilter {
    /// A process is executing it
    Running,
    /// Its process ended before the run was finished
    Stopped,
    Done,
    Failed,
    /// A user cancelled it
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
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the files of a session and their folder
    Show {
        name: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove sessions with all their files
    Rm {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

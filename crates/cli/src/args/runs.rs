//! `assize runs` and `assize sessions`: what can be typed.

use std::path::PathBuf;

use assize_consult::At;
use assize_run::RunKind;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::ModelArgs;

/// Reads a kind of run.
fn run_kinds() -> impl TypedValueParser<Value = RunKind> {
    let names = PossibleValuesParser::new(RunKind::ALL.map(RunKind::name));
    names.try_map(|name| name.parse::<RunKind>())
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, the latest first
    #[command(visible_alias = "ls")]
    List {
        /// Only runs of this kind: run, eval, debate, consult or work
        #[arg(long, value_parser = run_kinds(), hide_possible_values = true)]
        kind: Option<RunKind>,
        /// Only runs that stand so
        #[arg(long, value_enum)]
        status: Option<StatusFilter>,
        /// Only runs whose title holds this
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// At most so many; 0 for all
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: usize,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one run: how it stands, what it came to
    Show {
        /// Its name, the beginning of it, or `latest`
        run: String,
        /// Show what was said
        #[arg(long)]
        transcripts: bool,
        /// Show its events
        #[arg(long)]
        events: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Go on with a run that was stopped
    Resume(ResumeArgs),
    /// Start a new debate or consultation from an earlier one, and go another way from a place on
    Fork(Box<ForkRunArgs>),
    /// List the files that a run left, or take them: of a program, or the documents of a consultation
    Files {
        /// Its name, the beginning of it, or `latest`
        run: String,
        /// Take them into this folder; what is there already is not written over
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write all that is kept of a run as one JSON document
    Export {
        /// Its name, the beginning of it, or `latest`
        run: String,
        /// To this file, which must not exist; to standard output by default, or with `-`
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Stop a run, whichever process works on it: there it ends with its next step, and can be taken up again
    Cancel {
        /// Its name, the beginning of it, or `latest`
        run: String,
    },
    /// Remove runs with all that belongs to them
    Rm {
        /// Their names, or the beginnings of them
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Even if a process works on them, or may: what it does from then on is lost
        #[arg(long)]
        force: bool,
    },
}

/// `assize runs resume`: what can be typed.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Its name, the beginning of it, or `latest`
    pub(crate) run: String,
    /// Even if a process works on it, or may
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Of a consultation or a program: write what it leaves into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Print what it comes to as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but what it comes to
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Spend at most so many dollars, all in all; as before if not given
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// Use at most so many tokens, all in all; as before if not given
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,
}

/// `assize runs fork`: what can be typed.
#[derive(Debug, Args)]
pub(crate) struct ForkRunArgs {
    /// Its name, the beginning of it, or `latest`
    pub(crate) run: String,
    /// Ask everything from here on again: `m3/round-4` of a consultation, `round-4` of all debates
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<At>,
    /// From there on, tell someone to be somebody else: critic=…, D1=… and so on, or critic=@FILE; can
    /// be repeated
    #[arg(long = "set", value_name = "WHO=WORDS", requires = "at")]
    pub(crate) set: Vec<String>,
    /// Another provider
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// Another model, or ROLE=MODEL for one role of a consultation; can be repeated
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Spend at most so many dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// Use at most so many tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<String>,
    /// Of a consultation: write everything into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Of a consultation: spend what it takes without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print what it comes to as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but what it comes to
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl ForkRunArgs {
    /// The flags about models, as every command that calls a model has them.
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
    /// The flags about models, as every command that calls a model has them.
    pub(crate) fn model(&self) -> ModelArgs {
        let (max_cost, max_tokens) = (self.max_cost.clone(), self.max_tokens.clone());
        ModelArgs { max_cost, max_tokens, ..ModelArgs::default() }
    }
}

/// How a run can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFilter {
    /// A process works on it
    Running,
    /// Its process is gone, before the end
    Stopped,
    Done,
    Failed,
    /// Somebody stopped it
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
    /// Show the files of a session, and where they are
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

//! Arguments of `assize consult`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ForkArgs, ModelArgs, ResumeFlags, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
#[command(
    mut_arg("memory", |arg| arg.help("Limit the memory of each debate's sandbox [default: 2048M, `consult.memory`]")),
    mut_arg("timeout", |arg| arg.help("Limit the time of each debate, in seconds [default: one day]")),
)]
pub(crate) struct ConsultArgs {
    /// Ticker symbol of the company, such as NVDA
    #[arg(required_unless_present_any = ["name", "resume", "fork", "graph", "export_personas"], conflicts_with_all = ["resume", "fork"])]
    pub(crate) ticker: Option<String>,

    /// Set the name of a private company, which has no ticker symbol
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ticker", "resume", "fork"])]
    pub(crate) name: Option<String>,

    /// Use this source of data about the company; can be repeated
    ///
    /// The default is `synthetic`, or `files` if `--data` is given.
    #[arg(
        conflicts_with_all = ["resume", "fork"],
        long = "source",
        value_name = "SOURCE",
        value_enum,
        value_delimiter = ','
    )]
    pub(crate) sources: Vec<SourceArg>,

    /// Read Markdown, text, CSV and JSON files about the company from this folder
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,

    /// Read the personas from this file (`--export-personas` prints the defaults)
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "FILE")]
    pub(crate) personas: Option<PathBuf>,

    /// Print the default personas as an editable file and exit
    #[arg(long)]
    pub(crate) export_personas: bool,

    /// Set the number of rounds of each debate
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "NUMBER", default_value_t = assize_consult::ROUNDS, value_parser = whole(1..=50))]
    pub(crate) rounds: u32,

    /// Set the number of business moves that each analyst proposes
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "NUMBER", default_value_t = assize_consult::MOVES as u32, value_parser = whole(1..=10))]
    pub(crate) moves: u32,

    /// Also have each decision maker score the business moves before the debates
    ///
    /// The difference between these scores and the final scores shows what the debates changed.
    #[arg(conflicts_with_all = ["resume", "fork"], long)]
    pub(crate) blind_scores: bool,

    /// Set the number of parallel debates [default: by the provider's limits]
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=100))]
    pub(crate) parallel_moves: Option<u32>,

    /// Debate without a sandbox if the requested isolation is not available
    #[arg(long)]
    pub(crate) allow_in_process: bool,

    /// Write the report and all documents, transcripts and scores to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Print the estimated cost and exit
    #[arg(long, conflicts_with = "resume")]
    pub(crate) estimate: bool,

    /// Start without asking for confirmation of the estimated cost
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Print the state graph of a consultation as a Mermaid diagram and exit
    #[arg(long)]
    pub(crate) graph: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) resume_flags: ResumeFlags,

    #[command(flatten)]
    pub(crate) fork: ForkArgs,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Source of data about a company.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceArg {
    /// Filings of the company with the SEC
    Edgar,
    /// Your own files (`--data`)
    Files,
    /// Data that the model generates, labelled as synthetic
    Synthetic,
}

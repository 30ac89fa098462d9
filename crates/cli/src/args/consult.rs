//! `assize consult`: what can be typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Again, ForkArgs, ModelArgs, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
#[command(
    mut_arg("memory", |arg| arg.help("Memory of each debate's sandbox [default: 2048M, `consult.memory`]")),
    mut_arg("timeout", |arg| arg.help("Seconds that one debate may take [default: a day]")),
)]
pub(crate) struct ConsultArgs {
    /// The company, by the ticker under which its shares are traded, such as NVDA
    #[arg(required_unless_present_any = ["name", "resume", "fork", "graph", "export_personas"], conflicts_with_all = ["resume", "fork"])]
    pub(crate) ticker: Option<String>,

    /// Name of a private company, instead of a ticker
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ticker", "resume", "fork"])]
    pub(crate) name: Option<String>,

    /// What is known of it: filings with the SEC, your own files, or something made up; can be repeated.
    /// Made up by default, unless there is `--data`
    #[arg(
        conflicts_with_all = ["resume", "fork"],
        long = "source",
        value_name = "SOURCE",
        value_enum,
        value_delimiter = ','
    )]
    pub(crate) sources: Vec<SourceName>,

    /// A folder with Markdown, text, CSV and JSON about it
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,

    /// Who takes part, from this file; `--export-personas` prints one to begin with
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "FILE")]
    pub(crate) personas: Option<PathBuf>,

    /// Print who takes part, as a file that can be edited, and do nothing
    #[arg(long)]
    pub(crate) export_personas: bool,

    /// Rounds of each debate
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "NUMBER", default_value_t = assize_consult::ROUNDS, value_parser = whole(1..=50))]
    pub(crate) rounds: u32,

    /// Moves that each analyst proposes
    #[arg(conflicts_with_all = ["resume", "fork"], long, value_name = "NUMBER", default_value_t = assize_consult::MOVES as u32, value_parser = whole(1..=10))]
    pub(crate) moves: u32,

    /// Have each decision maker score before the debate as well, to show what it changed
    #[arg(conflicts_with_all = ["resume", "fork"], long)]
    pub(crate) blind_scores: bool,

    /// Debates that are held at once; as many as the provider's limits bear by default
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=100))]
    pub(crate) parallel_moves: Option<u32>,

    /// Debate in this process where no sandbox such as you asked for can be made
    #[arg(long)]
    pub(crate) allow_in_process: bool,

    /// Write all documents, transcripts, scores and the report into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Say what it would cost, and ask nobody
    #[arg(long, conflicts_with = "resume")]
    pub(crate) estimate: bool,

    /// Spend what it takes without asking
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Print the graph as Mermaid, and do nothing
    #[arg(long)]
    pub(crate) graph: bool,

    /// Print what it comes to as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but what it comes to
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) again: Again,

    #[command(flatten)]
    pub(crate) fork: ForkArgs,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Where what is known comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceName {
    /// Filed with the SEC
    Edgar,
    /// Your own files (`--data`)
    Files,
    /// Made up, and labelled so
    Synthetic,
}

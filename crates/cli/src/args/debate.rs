//! Arguments of `assize debate`.

use std::path::PathBuf;

use assize_run::ResumeRequest;
use clap::Args;

use super::{ForkArgs, ModelArgs, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
#[command(
    mut_arg("memory", |arg| arg.help("Limit the memory of the sandbox [default: 2048M, `consult.memory`]")),
    mut_arg("timeout", |arg| arg.help("Limit the time of the debate, in seconds [default: one day]")),
)]
pub(crate) struct DebateArgs {
    /// Business move to debate: a text or Markdown file, or `-` for standard input
    #[arg(value_name = "MOVE.md", required_unless_present_any = ["resume", "fork", "graph"], conflicts_with = "resume")]
    pub(crate) document: Option<PathBuf>,

    /// Set the ticker symbol of the company that the business move is for
    #[arg(long, value_name = "TICKER", value_parser = ticker, conflicts_with = "resume")]
    pub(crate) ticker: Option<String>,

    /// Set the number of rounds of the debate [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=50), conflicts_with = "resume")]
    pub(crate) rounds: Option<u32>,

    /// Also print the transcripts of the debate
    #[arg(long)]
    pub(crate) transcripts: bool,

    /// Print scores, reasons and transcripts as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the verdict
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Print the estimated cost and exit
    #[arg(long, conflicts_with_all = ["resume", "fork"])]
    pub(crate) estimate: bool,

    /// Print the state graph of a debate as a Mermaid diagram and exit
    #[arg(long)]
    pub(crate) graph: bool,

    /// Resume a stopped run, reusing its recorded answers
    #[arg(long, value_name = "RUN", help_heading = "Earlier runs")]
    pub(crate) resume: Option<String>,

    /// With `--resume`: resume the run even if another process holds its lease
    ///
    /// The other process then stops.
    #[arg(long, requires = "resume", help_heading = "Earlier runs")]
    pub(crate) take_over: bool,

    /// Debate without a sandbox if the requested isolation is not available
    #[arg(long)]
    pub(crate) allow_in_process: bool,

    #[command(flatten)]
    pub(crate) fork: ForkArgs,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

impl DebateArgs {
    /// Returns a request to resume the run given with `--resume`.
    pub(crate) fn request(&self) -> ResumeRequest {
        let run = self.resume.clone().unwrap_or_default();
        ResumeRequest { run, take_over: self.take_over }
    }
}

/// Parses a ticker symbol; returns it in upper case.
fn ticker(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let valid_start = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if valid_start && text.len() <= 10 && text.chars().all(plain) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err("expected a ticker of 1 to 10 letters and digits, such as `NVDA` or `BRK.B`".to_owned())
    }
}

//! `assize debate`: what can be typed.

use std::path::PathBuf;

use assize_run::ResumeRequest;
use clap::Args;

use super::{ForkArgs, ModelArgs, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
#[command(
    mut_arg("memory", |arg| arg.help("Memory of the sandbox [default: 2048M, `consult.memory`]")),
    mut_arg("timeout", |arg| arg.help("Seconds that the debate may take [default: a day]")),
)]
pub(crate) struct DebateArgs {
    /// The move, a text or Markdown file; `-` reads it from standard input
    #[arg(value_name = "MOVE.md", required_unless_present_any = ["resume", "fork", "graph"], conflicts_with = "resume")]
    pub(crate) document: Option<PathBuf>,

    /// The company that the move is for
    #[arg(long, value_name = "TICKER", value_parser = ticker, conflicts_with = "resume")]
    pub(crate) ticker: Option<String>,

    /// How many rounds are debated [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=50), conflicts_with = "resume")]
    pub(crate) rounds: Option<u32>,

    /// Print what was said, too
    #[arg(long)]
    pub(crate) transcripts: bool,

    /// Print scores, reasons and all that was said as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Print nothing but the verdict
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Say what the debate would cost, and ask nothing
    #[arg(long, conflicts_with_all = ["resume", "fork"])]
    pub(crate) estimate: bool,

    /// Print the graph of a debate as a Mermaid flowchart, and debate nothing
    #[arg(long)]
    pub(crate) graph: bool,

    /// Go on with a run that was stopped; what was answered is not asked again
    #[arg(long, value_name = "RUN", help_heading = "Earlier runs")]
    pub(crate) resume: Option<String>,

    /// Go on with it even if another process works on it, which then stops
    #[arg(long, requires = "resume", help_heading = "Earlier runs")]
    pub(crate) take_over: bool,

    /// Debate in this process if no sandbox of the requested kind is available
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
    /// The run to resume.
    pub(crate) fn request(&self) -> ResumeRequest {
        let run = self.resume.clone().unwrap_or_default();
        ResumeRequest { run, take_over: self.take_over }
    }
}

fn ticker(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let sound = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if sound && text.len() <= 10 && text.chars().all(plain) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err("a ticker is 1 to 10 letters and digits, such as `NVDA` or `BRK.B`".to_owned())
    }
}

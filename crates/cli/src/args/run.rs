//! `assize run`: what can be typed.

use std::path::PathBuf;

use clap::Args;

use super::{Again, ModelArgs, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// The task, in your own words; `-` reads it from standard input
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Option<String>,

    /// What the program is to be written in: python, bash or javascript
    #[arg(
        conflicts_with = "resume",
        long,
        short,
        value_name = "LANGUAGE",
        default_value = "python"
    )]
    pub(crate) language: String,

    /// How often it may be tried
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = assize_code::MAX_ATTEMPTS, value_parser = whole(1..=20))]
    pub(crate) max_attempts: u32,

    /// How many programs are written and run side by side in each attempt; the first that succeeds counts
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(1..=16))]
    pub(crate) candidates: u32,

    /// Tests that the program must pass. Python tests import it as `solution` (pytest is fetched if
    /// they import that), JavaScript tests require it as `solution`, Bash tests find it in $SOLUTION
    #[arg(conflicts_with = "resume", long, value_name = "FILE")]
    pub(crate) tests: Option<PathBuf>,

    /// What its output must contain; between slashes, a pattern that it must fit, such as /^55$/
    #[arg(conflicts_with = "resume", long, value_name = "TEXT")]
    pub(crate) expect: Option<String>,

    /// Give it a file, read-only, as /workspace/NAME; can be repeated
    #[arg(conflicts_with = "resume", long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<String>,

    /// Take the files that the program leaves in /workspace into this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Keep the working files under this name: every program finds what those before it left
    #[arg(conflicts_with = "resume", long, value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// Write the program to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Print the program after its answer, also where the output is no terminal
    #[arg(long)]
    pub(crate) show_code: bool,

    /// Print answer, program and all attempts as one JSON object
    #[arg(long, conflicts_with = "show_code")]
    pub(crate) json: bool,

    /// Say nothing but the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) again: Again,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

//! Arguments of `assize run`.

use std::path::PathBuf;

use clap::Args;

use super::{ModelArgs, ResumeFlags, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Task, in your own words; `-` reads it from standard input
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Option<String>,

    /// Language of the program: python, bash or javascript
    #[arg(
        conflicts_with = "resume",
        long,
        short,
        value_name = "LANGUAGE",
        default_value = "python"
    )]
    pub(crate) language: String,

    /// Maximum number of attempts
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = assize_code::MAX_ATTEMPTS, value_parser = whole(1..=20))]
    pub(crate) max_attempts: u32,

    /// Number of programs to write and run in parallel in each attempt; the first to succeed wins
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(1..=16))]
    pub(crate) candidates: u32,

    /// Tests that the program must pass
    ///
    /// Python tests import the program as `solution` (pytest is fetched if the tests import it), JavaScript tests require
    /// it as `solution`, and Bash tests find its path in $SOLUTION.
    #[arg(conflicts_with = "resume", long, value_name = "FILE")]
    pub(crate) tests: Option<PathBuf>,

    /// Text that the output must contain, or a regular expression between slashes, such as /^55$/
    #[arg(conflicts_with = "resume", long, value_name = "TEXT")]
    pub(crate) expect: Option<String>,

    /// Pass a file, read-only, as /workspace/NAME; can be repeated
    #[arg(conflicts_with = "resume", long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<String>,

    /// Copy the files that the program leaves in /workspace to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Keep working files in this session; later programs of the session find them
    #[arg(conflicts_with = "resume", long, value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// Write the program to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Print the program after its answer, even if the output is not a terminal
    #[arg(long)]
    pub(crate) show_code: bool,

    /// Print the answer, the program and all attempts as JSON
    #[arg(long, conflicts_with = "show_code")]
    pub(crate) json: bool,

    /// Print only the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) again: ResumeFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

//! Arguments of `assize run`.

use std::path::PathBuf;

use clap::Args;

use super::{ModelArgs, ResumeFlags, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
pub(crate) struct RunArgs {
    /// Task for the model, in your own words; `-` reads the task from standard input
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) task: Option<String>,

    /// Set the language of the program: python, bash or javascript
    #[arg(
        conflicts_with = "resume",
        long,
        short,
        value_name = "LANGUAGE",
        default_value = "python"
    )]
    pub(crate) language: String,

    /// Set the maximum number of attempts
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = assize_code::MAX_ATTEMPTS, value_parser = whole(1..=20))]
    pub(crate) max_attempts: u32,

    /// Write and run this number of programs in parallel in each attempt
    ///
    /// The attempt ends when one of the programs succeeds.
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(1..=16))]
    pub(crate) candidates: u32,

    /// Require the program to pass the tests in this file
    ///
    /// Python tests import the program as `solution`; pytest is installed if the tests import pytest. JavaScript tests
    /// load the program with `require('solution')`. Bash tests find the path of the program in $SOLUTION.
    #[arg(conflicts_with = "resume", long, value_name = "FILE")]
    pub(crate) tests: Option<PathBuf>,

    /// Require the output to contain this text, or to match a /regular expression/
    #[arg(conflicts_with = "resume", long, value_name = "TEXT")]
    pub(crate) expect: Option<String>,

    /// Pass a file to the program, read-only, as /workspace/NAME; can be repeated
    #[arg(conflicts_with = "resume", long = "file", value_name = "PATH[=NAME]")]
    pub(crate) files: Vec<String>,

    /// Copy the files that the program creates in /workspace to this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,

    /// Store the working files in this session, for later runs with the same session
    #[arg(conflicts_with = "resume", long, value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// Write the successful program to this file, which must not exist yet
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,

    /// Print the program after the answer, even if standard output is not a terminal
    #[arg(long)]
    pub(crate) show_code: bool,

    /// Print the answer, the program and all attempts as JSON
    #[arg(long, conflicts_with = "show_code")]
    pub(crate) json: bool,

    /// Print only the answer
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) resume_flags: ResumeFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

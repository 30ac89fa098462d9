//! Arguments of `assize eval`.

use std::path::PathBuf;

use clap::Args;

use super::{ModelArgs, ResumeFlags, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
pub(crate) struct EvalArgs {
    /// JSONL file of problems
    ///
    /// Each line has the fields task_id, prompt, entry_point, test and canonical_solution.
    #[arg(required_unless_present = "resume", conflicts_with = "resume", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Test the canonical solutions in the file instead of a model; all must pass
    #[arg(long, conflicts_with_all = ["resume", "samples", "max_attempts"])]
    pub(crate) reference: bool,

    /// Set the number of independent solutions (samples) of each problem, for pass@k
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(1..=100))]
    pub(crate) samples: u32,

    /// Set the maximum number of attempts for each sample
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = assize_code::MAX_ATTEMPTS, value_parser = whole(1..=20))]
    pub(crate) max_attempts: u32,

    /// Set the number of samples that are solved in parallel
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = whole(1..=64))]
    pub(crate) parallel: u32,

    /// Use only the first NUMBER problems
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", value_parser = whole(1..=u32::MAX))]
    pub(crate) limit: Option<u32>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) resume_flags: ResumeFlags,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

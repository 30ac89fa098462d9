//! `assize eval`: what can be typed.

use std::path::PathBuf;

use clap::Args;

use super::{Again, ModelArgs, SandboxArgs, whole};

#[derive(Debug, Default, Args)]
pub(crate) struct EvalArgs {
    /// Problems, one JSON object in each line: task_id, prompt, entry_point, test, canonical_solution
    #[arg(required_unless_present = "resume", conflicts_with = "resume", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Run the file's own solutions, without a model: all of them must pass
    #[arg(long, conflicts_with_all = ["resume", "samples", "max_attempts"])]
    pub(crate) reference: bool,

    /// How often each problem is solved from the start, for pass@k
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = 1, value_parser = whole(1..=100))]
    pub(crate) samples: u32,

    /// How often it may be tried each time
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", default_value_t = assize_code::MAX_ATTEMPTS, value_parser = whole(1..=20))]
    pub(crate) max_attempts: u32,

    /// How many are solved at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = whole(1..=64))]
    pub(crate) parallel: u32,

    /// Only the first so many problems
    #[arg(conflicts_with = "resume", long, value_name = "NUMBER", value_parser = whole(1..=u32::MAX))]
    pub(crate) limit: Option<u32>,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but the result
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) again: Again,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

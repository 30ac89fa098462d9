//! `assize manual`: writes the man pages of all commands, for packages.

use std::path::Path;

use assize_types::{Failure, FailureKind};
use clap::CommandFactory;

use crate::args::Cli;

/// Writes one man page for assize and one for each of its commands into a folder.
pub(crate) fn write(folder: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(Cli::command(), folder).map_err(|error| {
        let message = format!("cannot write man pages into `{}`: {error}", folder.display());
        Failure::new(FailureKind::Environment, message)
    })
}

//! `assize mcp`: the draft tools for whoever speaks the protocol.

use std::io::IsTerminal;

use assize_mcp::{Ended, serve_stdio};
use assize_types::Cancel;

use super::{desk, keep, show, verifier};
use crate::args::McpArgs;
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::kept;
use crate::terminal::{DIM, note, paint};

pub(crate) async fn run(
    args: McpArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<(), Failure> {
    let store = kept::open_safe(config, around)?;
    let verifier = verifier(config, around);
    let desk = desk(&args.workspace, config, around, store, Some(verifier))?;
    // What an earlier process left, and what is old.
    desk.decide_what_is_left().await?;
    desk.sweep(assize_draft::GATE, show::now(), keep(config)).await?;
    let folder = desk.workspace().display();
    note(&paint(DIM, format!("drafts of `{folder}`, over standard input and output")));
    if std::io::stdin().is_terminal() {
        note("this speaks MCP, and is started by a program that does; Ctrl-C ends it");
    }
    match serve_stdio(desk, &cancel).await {
        Ended::Closed => Ok(()),
        Ended::Cancelled(reason) => Err(Failure::new(FailureKind::Interrupted, reason)),
        Ended::Broken(why) => {
            let message = format!("the client does not speak MCP: {why}");
            Err(Failure::new(FailureKind::Usage, message))
        }
    }
}

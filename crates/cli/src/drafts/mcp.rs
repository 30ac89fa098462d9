//! `assize mcp`: our tools for whoever speaks the protocol.

use std::io::IsTerminal;

use assize_config::{Environment, Settings};
use assize_draft::{GATE, Options};
use assize_sandbox::Sandboxes;
use assize_server::{CodeServer, DraftServer, Ended, serve_stdio};
use assize_service::stores;
use assize_types::{Cancel, Failure, FailureKind};

use super::{desk, keep, options, show, verifier, warn_of_contract};
use crate::args::McpArgs;
use crate::terminal::{self, DIM, note, paint};
use crate::until_cancelled;
use crate::voice::services;

/// Idle sandboxes that wait for the next call, from the first call on.
const POOL: usize = 2;

pub(crate) async fn run(
    args: McpArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<(), Failure> {
    if args.tools == "code" {
        return code(&args, config, around, &cancel).await;
    }
    let store = stores::open_safe(config, around).await?;
    let how =
        Options { verifier: Some(verifier(&Sandboxes::new(config, around))), ..options(config)? };
    let desk = desk(&args.workspace, around, store, how)?;
    warn_of_contract(&desk);
    if desk.workspace() == around.home || desk.workspace().parent().is_none() {
        terminal::warn(
            "all of your home folder, or of this machine, can be drafted; `--workspace` names less",
        );
    }
    // What is old, and what an earlier process left: that may take long, and the client waits.
    let ready = async {
        desk.sweep(GATE, show::now(), keep(config)).await?;
        Ok(desk.begin_to_decide_what_is_left().await?)
    };
    until_cancelled(&cancel, ready).await?;
    let folder = desk.workspace().display();
    let heading = format!("drafts of `{folder}`, over standard input and output");
    note(&paint(DIM, terminal::harmless(&heading)));
    if std::io::stdin().is_terminal() {
        note("this speaks MCP, and is started by a program that does; Ctrl-C ends it");
    }
    let ended = serve_stdio(DraftServer::new(desk.clone()), &cancel).await;
    // What was handed in is decided, though nobody waits for it any more.
    tokio::select! {
        () = desk.finish_deciding() => {}
        _ = cancel.cancelled() => {}
    }
    told(ended)
}

/// Serves the tool that runs code, and no other.
async fn code(
    args: &McpArgs,
    config: &Settings,
    around: &Environment,
    cancel: &Cancel,
) -> Result<(), Failure> {
    if args.workspace.workspace.is_some() {
        let message = "`--tools code` has no workspace: what it runs sees no files of yours";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    config.refuse_withheld()?;
    note(&paint(DIM, "code in sandboxes, over standard input and output"));
    if std::io::stdin().is_terminal() {
        note("this speaks MCP, and is started by a program that does; Ctrl-C ends it");
    }
    let mut services = services(config, around, true);
    let backends = services.share_backends(POOL)?;
    let ended = serve_stdio(CodeServer::new(services), cancel).await;
    backends.close().await;
    told(ended)
}

fn told(ended: Ended) -> Result<(), Failure> {
    match ended {
        Ended::Closed => Ok(()),
        Ended::Cancelled(reason) => Err(Failure::new(FailureKind::Interrupted, reason)),
        Ended::Broken(why) => {
            let message = format!("the client does not speak MCP: {why}");
            Err(Failure::new(FailureKind::Usage, message))
        }
    }
}

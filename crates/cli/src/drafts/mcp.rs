//! `assize mcp`: our tools for whoever speaks the protocol.

use std::io::IsTerminal;

use assize_draft::{GATE, Options};
use assize_server::{CodeServer, DraftServer, Ended, serve_stdio};
use assize_service::Services;
use assize_types::{Cancel, Failure, FailureKind};

use super::{desk, keep, options, show, verifier, warn_of_contract};
use crate::args::McpArgs;
use crate::terminal::{self, DIM, note, paint};
use crate::until_cancelled;
use crate::voice::quiet;

/// Idle sandboxes that wait for the next call, from the first call on.
const POOL: usize = 2;

pub(crate) async fn run(
    args: McpArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    if args.tools == "code" {
        return code(&args, services, &cancel).await;
    }
    let store = services.open_store(true).await?;
    let around = services.environment.clone();
    let verifier = Some(verifier(&services.sandboxes()));
    let how = Options { verifier, ..options(&services.settings)? };
    let desk = desk(&args.workspace, &around, store, how)?;
    warn_of_contract(&desk);
    if desk.workspace() == around.home || desk.workspace().parent().is_none() {
        terminal::warn(
            "all of your home folder, or of this machine, can be drafted; `--workspace` names less",
        );
    }
    // What is old, and what an earlier process left: that may take long, and the client waits.
    let ready = async {
        desk.sweep(GATE, show::now(), keep(&services.settings)).await?;
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
async fn code(args: &McpArgs, mut services: Services, cancel: &Cancel) -> Result<(), Failure> {
    if args.workspace.workspace.is_some() {
        let message = "`--tools code` has no workspace: what it runs sees no files of yours";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    services.settings.refuse_withheld()?;
    note(&paint(DIM, "code in sandboxes, over standard input and output"));
    if std::io::stdin().is_terminal() {
        note("this speaks MCP, and is started by a program that does; Ctrl-C ends it");
    }
    services.reporter = quiet();
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

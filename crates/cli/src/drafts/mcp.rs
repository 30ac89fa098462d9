//! `assize mcp`: serves the draft tools or the code tool to an MCP client over standard input and output.

use std::io::IsTerminal;

use assize_draft::{DraftOptions, GATE};
use assize_server::{CodeServer, DraftServer, McpSessionEnd, serve_stdio};
use assize_service::Services;
use assize_types::{Cancel, Failure, FailureKind};

use super::{draft_service, options, retention, verifier, warn_of_contract};
use crate::args::McpArgs;
use crate::run_messages::quiet;
use crate::terminal::{self, DIM, note, paint};
use crate::until_cancelled;

/// Number of idle sandboxes in the warm pool of the code tool. The first call of the tool fills the pool.
const POOL: usize = 2;

pub(crate) async fn run(
    args: McpArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    if args.tools.is_code() {
        return code(&args, services, &cancel).await;
    }
    let store = services.open_store(true).await?;
    let environment = services.environment.clone();
    let verifier = Some(verifier(&services.sandboxes()));
    let options = DraftOptions { verifier, ..options(&services.settings)? };
    let service = draft_service(&args.tools.workspace, &environment, store, options)?;
    warn_of_contract(&service);
    if service.workspace() == environment.home || service.workspace().parent().is_none() {
        terminal::warn(
            "the workspace is your whole home folder or file system; choose a smaller folder with `--workspace`",
        );
    }
    // Old drafts are deleted, and the gate starts to decide on submissions that an earlier process left undecided. The
    // client does not wait for these decisions, because they may take long.
    let ready = async {
        service.sweep(GATE, assize_types::unix_millis(), retention(&services.settings)).await?;
        Ok(service.decide_orphaned_in_background().await?)
    };
    until_cancelled(&cancel, ready).await?;
    let folder = service.workspace().display();
    let heading = format!("serving draft tools for `{folder}` over standard input and output");
    note(&paint(DIM, terminal::replace_control_chars(&heading)));
    if std::io::stdin().is_terminal() {
        note("this command is meant to be started by an MCP client; Ctrl-C ends it");
    }
    let ended = serve_stdio(DraftServer::new(service.clone()), &cancel).await;
    // Pending submissions are decided even after the client has disconnected.
    tokio::select! {
        () = service.wait_for_decisions() => {}
        _ = cancel.cancelled() => {}
    }
    into_result(ended)
}

/// Serves only the code execution tool.
async fn code(args: &McpArgs, mut services: Services, cancel: &Cancel) -> Result<(), Failure> {
    args.tools.reject_draft_options()?;
    services.settings.reject_untrusted_values()?;
    note(&paint(DIM, "serving code execution in sandboxes over standard input and output"));
    if std::io::stdin().is_terminal() {
        note("this command is meant to be started by an MCP client; Ctrl-C ends it");
    }
    services.reporter = quiet();
    let backends = services.share_backends(POOL)?;
    let ended = serve_stdio(CodeServer::new(services), cancel).await;
    backends.close().await;
    into_result(ended)
}

/// Converts the end of an MCP session to the result of the command.
fn into_result(ended: McpSessionEnd) -> Result<(), Failure> {
    match ended {
        McpSessionEnd::Closed => Ok(()),
        McpSessionEnd::Cancelled(reason) => Err(Failure::new(FailureKind::Interrupted, reason)),
        McpSessionEnd::Broken(why) => {
            let message = format!("the client does not follow the MCP protocol: {why}");
            Err(Failure::new(FailureKind::Usage, message))
        }
    }
}

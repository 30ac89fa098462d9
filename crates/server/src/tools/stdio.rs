//! MCP over standard input and output.

use assize_types::{Cancel, CancelReason};
use rmcp::handler::server::ServerHandler;
use rmcp::service::{RoleServer, ServerInitializeError, serve_server};
use rmcp::transport::async_rw::AsyncRwTransport;

use crate::tools::unique_ids::UniqueIds;

/// Maximum size of an MCP message in bytes. The drafts that messages contain are far smaller.
const MAX_MESSAGE: usize = 64 << 20;

/// How an MCP session over standard input and output ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpSessionEnd {
    /// The client closed the connection.
    Closed,
    Cancelled(CancelReason),
    /// The client violated the protocol, or the MCP service failed. The text is the error message.
    Broken(String),
}

/// Serves MCP tools over standard input and output until the client closes the connection or `cancel` is cancelled.
pub async fn serve_stdio(tools: impl ServerHandler, cancel: &Cancel) -> McpSessionEnd {
    let transport =
        AsyncRwTransport::<RoleServer, _, _>::new(tokio::io::stdin(), tokio::io::stdout())
            .with_max_line_length(MAX_MESSAGE);
    let begun = tokio::select! {
        begun = serve_server(tools, UniqueIds::new(transport)) => begun,
        reason = cancel.cancelled() => return McpSessionEnd::Cancelled(reason),
    };
    let service = match begun {
        Ok(service) => service,
        // The client closed the connection before `initialize`, which is not an error.
        Err(ServerInitializeError::ConnectionClosed(_)) => return McpSessionEnd::Closed,
        Err(error) => return McpSessionEnd::Broken(error.to_string()),
    };
    let stop = service.cancellation_token();
    tokio::select! {
        ended = service.waiting() => match ended {
            Ok(_) => McpSessionEnd::Closed,
            Err(error) => McpSessionEnd::Broken(error.to_string()),
        },
        reason = cancel.cancelled() => {
            stop.cancel();
            McpSessionEnd::Cancelled(reason)
        }
    }
}

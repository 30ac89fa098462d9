//! Over standard input and output, as most clients start their servers.

use assize_types::{Cancel, CancelReason};
use rmcp::handler::server::ServerHandler;
use rmcp::service::{RoleServer, ServerInitializeError, serve_server};
use rmcp::transport::async_rw::AsyncRwTransport;

use crate::tools::unique_ids::UniqueIds;

/// The longest message that is read: a draft is far shorter.
const LONGEST_MESSAGE: usize = 64 << 20;

/// How the service ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The client is gone.
    Closed,
    Cancelled(CancelReason),
    /// The client did not speak as it should.
    Broken(String),
}

/// Serves tools until the client has gone.
pub async fn serve_stdio(tools: impl ServerHandler, cancel: &Cancel) -> Ended {
    let transport =
        AsyncRwTransport::<RoleServer, _, _>::new(tokio::io::stdin(), tokio::io::stdout())
            .with_max_line_length(LONGEST_MESSAGE);
    let begun = tokio::select! {
        begun = serve_server(tools, UniqueIds::new(transport)) => begun,
        reason = cancel.cancelled() => return Ended::Cancelled(reason),
    };
    let service = match begun {
        Ok(service) => service,
        // Somebody looked in and went away.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ended::Closed,
        Err(error) => return Ended::Broken(error.to_string()),
    };
    let stop = service.cancellation_token();
    tokio::select! {
        ended = service.waiting() => match ended {
            Ok(_) => Ended::Closed,
            Err(error) => Ended::Broken(error.to_string()),
        },
        reason = cancel.cancelled() => {
            stop.cancel();
            Ended::Cancelled(reason)
        }
    }
}

//! Over streamable HTTP, at the server's door.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

/// Tools that are served over HTTP.
pub type HttpService<S> = StreamableHttpService<S, LocalSessionManager>;

/// Serves tools over HTTP until the door closes. Who may call, and by which name, is for the door to say.
pub fn over_http<S>(tools: S, longest_message: usize, closing: CancellationToken) -> HttpService<S>
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(longest_message)
        .with_cancellation_token(closing);
    let sessions = Arc::new(LocalSessionManager::default());
    StreamableHttpService::new(move || Ok(tools.clone()), sessions, config)
}

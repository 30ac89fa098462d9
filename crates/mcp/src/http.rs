//! Over streamable HTTP, at the server's door.

use std::sync::Arc;

use rmcp::handler::server::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

/// Tools that are served over HTTP.
pub type HttpService<S> = StreamableHttpService<S, LocalSessionManager>;

/// Those who have begun to speak with us, and have not ended.
#[derive(Debug, Clone)]
pub struct Sessions(Arc<LocalSessionManager>);

impl Sessions {
    pub async fn count(&self) -> usize {
        self.0.sessions.read().await.len()
    }
}

/// Serves tools over HTTP until the door closes. Who may call, by which name, and how many at once, is for the door to
/// say.
pub fn over_http<S>(
    tools: S,
    longest_message: usize,
    closing: CancellationToken,
) -> (HttpService<S>, Sessions)
where
    S: ServerHandler + Clone + Send + Sync + 'static,
{
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(longest_message)
        .with_cancellation_token(closing);
    let sessions = Arc::new(LocalSessionManager::default());
    let open = Sessions(sessions.clone());
    (StreamableHttpService::new(move || Ok(tools.clone()), sessions, config), open)
}

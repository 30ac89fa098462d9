//! Our tools over streamable HTTP: the draft tools of each workspace on one address, the tool that runs code on another.

use assize_clerk::drafts;
use assize_draft::{GATE, HANDOFF};
use assize_mcp::{CodeServer, DraftServer, over_http};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::problem::Problem;

/// The longest message: drafts are far shorter.
const LONGEST: usize = 8 << 20;

/// The longest of what is said where a message is refused.
const LONGEST_REFUSAL: usize = 64 << 10;

/// The scope of a token that opens nothing but the tools at an address.
pub(crate) fn scope(path: &str) -> Option<&str> {
    path.strip_prefix("/mcp/").map(|scope| scope.trim_end_matches('/'))
}

pub(crate) fn routes(app: &App) -> Router<App> {
    let mut router = Router::new();
    // Clients keep sessions for a while, and what they sent to begin one with it.
    let (longest, closing) = (app.longest_request.min(LONGEST), &app.closing);
    for (name, desk) in app.desks.all() {
        let tools = over_http(DraftServer::new(desk.clone()), longest, closing.clone());
        router = router.route_service(&format!("/mcp/drafts/{name}"), tools);
    }
    let code = over_http(CodeServer::new(app.clerk.clone()), longest, closing.clone());
    router.route_service("/mcp/code", code).layer(map_response(in_our_words))
}

/// What is refused in plain text becomes a problem like all others.
async fn in_our_words(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let plain = kind.is_none_or(|kind| kind.starts_with("text/plain"));
    let status = response.status();
    if !plain || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let bytes = axum::body::to_bytes(response.into_body(), LONGEST_REFUSAL).await;
    let said = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    Problem::new(status, said).into_response()
}

/// Puts away what is old, and has decided what an earlier process left.
pub(crate) async fn tidy(app: &App) {
    for (name, desk) in app.desks.all() {
        // Where nobody ever drafted nothing is left; it may be a folder with documents alone.
        if !desk.workspace().join(HANDOFF).is_dir() {
            continue;
        }
        let tidied = async {
            desk.sweep(GATE, now(), drafts::keep(&app.clerk.config)).await?;
            desk.begin_to_decide_what_is_left().await
        };
        if let Err(error) = tidied.await {
            app.clerk.listener.warn(&format!("`{name}`: {error}"));
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

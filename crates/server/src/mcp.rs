//! Our tools over streamable HTTP: the draft tools of each workspace on one address, the tool that runs code on another.

use assize_clerk::drafts;
use assize_draft::GATE;
use assize_mcp::{CodeServer, DraftServer, over_http};
use axum::Router;

use crate::App;

/// The longest message: drafts are far shorter.
const LONGEST: usize = 8 << 20;

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
    router.route_service("/mcp/code", code)
}

/// Puts away what is old, and has decided what an earlier process left.
pub(crate) async fn tidy(app: &App) {
    for (name, desk) in app.desks.all() {
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

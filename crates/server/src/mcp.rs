//! Our tools over streamable HTTP: the draft tools of each workspace on one address, the tool that runs code on another.

use assize_clerk::drafts;
use assize_draft::{GATE, HANDOFF};
use assize_mcp::{CodeServer, DraftServer, Sessions, over_http};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::extract::PATIENCE;
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
        let (tools, open) = over_http(DraftServer::new(desk.clone()), longest, closing.clone());
        let own = Router::new().route_service(&format!("/mcp/drafts/{name}"), tools);
        router = router.merge(own.layer(from_fn_with_state((open, longest), admit)));
    }
    let (tools, open) = over_http(CodeServer::new(app.clerk.clone()), longest, closing.clone());
    let own = Router::new().route_service("/mcp/code", tools);
    let router = router.merge(own.layer(from_fn_with_state((open, longest), admit)));
    router.layer(map_response(in_our_words))
}

/// The most clients at one address, and the longest word of greeting, which is kept as long as they stay.
const MOST_SESSIONS: usize = 256;
const LONGEST_GREETING: usize = 64 << 10;

/// Lets a message in when all of it is there, and a new client if there is room.
async fn admit(
    State((open, longest)): State<(Sessions, usize)>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let too_long = |longest: usize| {
        let detail = format!("the message is longer than {longest} bytes, or was cut off");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
    };
    let bytes = match tokio::time::timeout(PATIENCE, axum::body::to_bytes(body, longest)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return too_long(longest),
        Err(_) => {
            let detail = "the rest of the message never came";
            return Problem::new(StatusCode::REQUEST_TIMEOUT, detail).into_response();
        }
    };
    if is_greeting(&bytes) {
        if bytes.len() > LONGEST_GREETING {
            return too_long(LONGEST_GREETING);
        }
        if open.count().await >= MOST_SESSIONS {
            let detail = format!("{MOST_SESSIONS} clients are here, which is as many as may be");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            let hint = "end sessions that are not used any more, with DELETE";
            return problem.hint(hint).into_response();
        }
    }
    next.run(Request::from_parts(parts, bytes.into())).await
}

/// Whether somebody begins to speak with us.
fn is_greeting(message: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Called<'a> {
        #[serde(borrow, default)]
        method: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Called<'_>>(message).is_ok_and(|called| called.method == "initialize")
}

/// What is refused in plain text becomes a problem like all others.
async fn in_our_words(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let plain = kind.is_none_or(|kind| kind.starts_with("text/plain"));
    let status = response.status();
    if !plain || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, LONGEST_REFUSAL).await;
    let said = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let mut problem = Problem::new(status, said).into_response();
    if let Some(allow) = parts.headers.get(ALLOW) {
        problem.headers_mut().insert(ALLOW, allow.clone());
    }
    problem
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

//! Our tools over streamable HTTP: the draft tools of each workspace on one address, the tool that runs code on another.

use std::sync::Arc;

use crate::tools::{CodeServer, DraftServer, Refusal, Sessions, over_http};
use assize_draft::{GATE, HANDOFF};
use assize_types::unix_millis;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::App;
use crate::auth::Caller;
use crate::extract::PATIENCE;
use crate::json::Json;
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
    let (tools, open) = over_http(CodeServer::new(app.services.clone()), longest, closing.clone());
    let own = Router::new().route_service("/mcp/code", tools);
    let router = router.merge(own.layer(from_fn_with_state((open, longest), admit)));
    router.layer(map_response(in_our_words))
}

/// The most sessions of one caller at one address, and the longest `initialize` request, which is kept as long as its
/// session.
const MOST_SESSIONS: usize = 64;
const LONGEST_GREETING: usize = 64 << 10;

/// Lets a message in when all of it is there, and a new client if there is room.
async fn admit(
    State((open, longest)): State<(Arc<Sessions>, usize)>,
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
    let length = bytes.len();
    let caller = parts.extensions.get::<Caller>().map_or_else(String::new, |Caller(id)| id.clone());
    let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let message = match serde_json::from_slice::<Json>(&bytes) {
        Ok(Json(message)) => message,
        // Read in two ways, it could be two messages.
        Err(error) if error.is_data() => {
            return Problem::unusable(error.to_string()).into_response();
        }
        // The service says what is wrong with it.
        Err(_) => Value::Null,
    };
    let method = message["method"].as_str().unwrap_or_default();
    let id = message.get("id").filter(|id| !id.is_null() && !method.is_empty());
    let request = Request::from_parts(parts, bytes.into());
    if method == "initialize" {
        if length > LONGEST_GREETING {
            return too_long(LONGEST_GREETING);
        }
        let Some(room) = open.room(&caller, MOST_SESSIONS).await else {
            let detail =
                format!("this token has {MOST_SESSIONS} sessions here, and no more are allowed");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            let hint = "end sessions that are not used any more, with DELETE";
            return problem.hint(hint).into_response();
        };
        let response = next.run(request).await;
        if let Some(id) = response.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
            room.opened(id);
        }
        return response;
    }
    let Some(session) = session else { return next.run(request).await };
    let reserved = open.check(&session, &caller);
    let reserved = reserved.and_then(|()| id.map(|id| open.reserve(&session, id)).transpose());
    match reserved {
        Ok(reserved) => {
            let response = next.run(request).await;
            if let Some(reserved) = reserved.filter(|_| response.status().is_success()) {
                reserved.keep();
            }
            response
        }
        Err(refusal) => refused(refusal).into_response(),
    }
}

/// Header with the id of a session.
const SESSION: &str = "mcp-session-id";

/// The problem of a request that its session does not allow.
fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::UnknownSession => Problem::not_found("this token has no such session here")
            .hint("open another with `initialize`"),
        Refusal::DuplicateId => Problem::conflict(
            "a request with this id is in flight in this session, or was cancelled",
        )
        .hint("give every request of a session an id of its own"),
        Refusal::TooManyInFlight => {
            let detail = "too many requests are in flight in this session";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).hint("wait for their responses")
        }
    }
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
            desk.sweep(GATE, unix_millis(), assize_draft::keep(&app.services.settings)).await?;
            desk.begin_to_decide_what_is_left().await
        };
        if let Err(error) = tidied.await {
            app.services.reporter.warn(&format!("`{name}`: {error}"));
        }
    }
}

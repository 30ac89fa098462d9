//! MCP endpoints over streamable HTTP: `/mcp/drafts/NAME` for each workspace, and `/mcp/code`.

use std::sync::Arc;

use crate::tools::{CodeServer, DraftServer, McpSessions, SessionRefusal, over_http};
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
use crate::extract::BODY_TIMEOUT;
use crate::json::Json;
use crate::problem::Problem;

/// Maximum size of an MCP message in bytes. The drafts that messages contain are far smaller.
const MAX_MESSAGE: usize = 8 << 20;

/// Maximum size in bytes of a plain-text error response of the MCP library.
const MAX_ERROR_TEXT: usize = 64 << 10;

/// Returns the token scope that an MCP path requires, such as `drafts/NAME`; `None` for other paths.
pub(crate) fn scope(path: &str) -> Option<&str> {
    path.strip_prefix("/mcp/").map(|scope| scope.trim_end_matches('/'))
}

pub(crate) fn routes(app: &App) -> Router<App> {
    let mut router = Router::new();
    let (max_message, closing) = (app.max_request_size.min(MAX_MESSAGE), &app.closing);
    for (name, service) in app.workspaces.all() {
        let (tools, open) =
            over_http(DraftServer::new(service.clone()), max_message, closing.clone());
        let own = Router::new().route_service(&format!("/mcp/drafts/{name}"), tools);
        router = router.merge(own.layer(from_fn_with_state((open, max_message), admit)));
    }
    let code = CodeServer::new(app.services.clone());
    let (tools, open) = over_http(code, max_message, closing.clone());
    let own = Router::new().route_service("/mcp/code", tools);
    let router = router.merge(own.layer(from_fn_with_state((open, max_message), admit)));
    router.layer(map_response(plain_text_to_problem))
}

/// Maximum number of MCP sessions that one caller may have open at one endpoint.
const MAX_SESSIONS: usize = 64;

/// Maximum size in bytes of an `initialize` request. The request stays in memory as long as its MCP session.
const MAX_INITIALIZE: usize = 64 << 10;

/// Middleware of the MCP endpoints. Reads the whole message. Then refuses a new session if the caller has too many open
/// sessions. Refuses any other request if its session belongs to a different caller, or if a request in flight has the
/// same id.
async fn admit(
    State((open, max_message)): State<(Arc<McpSessions>, usize)>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let too_long = |limit: usize| {
        let detail = format!("the MCP message is larger than {limit} bytes, or truncated");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
    };
    let read = axum::body::to_bytes(body, max_message);
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return too_long(max_message),
        Err(_) => {
            let detail = "timed out while reading the MCP message";
            return Problem::new(StatusCode::REQUEST_TIMEOUT, detail).into_response();
        }
    };
    let length = bytes.len();
    let caller = parts.extensions.get::<Caller>().map_or_else(String::new, |Caller(id)| id.clone());
    let session = parts.headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let message = match serde_json::from_slice::<Json>(&bytes) {
        Ok(Json(message)) => message,
        // The message has a duplicate field: this middleware and the MCP library could use different values of the
        // field.
        Err(error) if error.is_data() => {
            return Problem::unprocessable(error.to_string()).into_response();
        }
        // The message has a syntax error, which the MCP library reports.
        Err(_) => Value::Null,
    };
    let method = message["method"].as_str().unwrap_or_default();
    let id = message.get("id").filter(|id| !id.is_null() && !method.is_empty());
    let request = Request::from_parts(parts, bytes.into());
    if method == "initialize" {
        if length > MAX_INITIALIZE {
            return too_long(MAX_INITIALIZE);
        }
        let Some(room) = open.reserve_session(&caller, MAX_SESSIONS).await else {
            let detail = format!(
                "the limit of {MAX_SESSIONS} open MCP sessions per token and endpoint is reached"
            );
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, detail);
            return problem.hint("end unused MCP sessions with DELETE").into_response();
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

/// Name of the header that contains the id of an MCP session.
const SESSION: &str = "mcp-session-id";

/// Returns the error response for an MCP request that the session refused.
fn refused(refusal: SessionRefusal) -> Problem {
    match refusal {
        SessionRefusal::UnknownSession => {
            Problem::not_found("unknown MCP session: no session of this token has this id")
                .hint("open a new session with `initialize`")
        }
        SessionRefusal::DuplicateId => Problem::conflict(
            "an MCP request with the same id is in flight in this session, or was cancelled",
        )
        .hint("give every request of a session a unique id"),
        SessionRefusal::TooManyInFlight => {
            let detail = "too many requests are in flight in this MCP session";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
                .hint("wait for the responses to earlier requests")
        }
    }
}

/// Converts a plain-text error response of the MCP library to problem details. Other responses are not changed.
async fn plain_text_to_problem(response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let plain = kind.is_none_or(|kind| kind.starts_with("text/plain"));
    let status = response.status();
    if !plain || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, MAX_ERROR_TEXT).await;
    let detail = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let mut problem = Problem::new(status, detail).into_response();
    if let Some(allow) = parts.headers.get(ALLOW) {
        problem.headers_mut().insert(ALLOW, allow.clone());
    }
    problem
}

/// Deletes the old drafts of each workspace. Also starts tasks in which the gate decides on the submissions that an
/// earlier process left undecided.
pub(crate) async fn clean_workspaces(app: &App) {
    for (name, service) in app.workspaces.all() {
        // No draft was ever created in this folder. It may contain only documents for consultations.
        if !service.workspace().join(HANDOFF).is_dir() {
            continue;
        }
        let tidied = async {
            service
                .sweep(GATE, unix_millis(), assize_draft::retention(&app.services.settings))
                .await?;
            service.decide_orphaned_in_background().await
        };
        if let Err(error) = tidied.await {
            let warning = format!("cannot clean up the drafts of the workspace `{name}`: {error}");
            app.services.reporter.warn(&warning);
        }
    }
}

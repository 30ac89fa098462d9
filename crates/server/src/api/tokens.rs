//! Handlers that create, list and revoke scoped tokens.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::extract::{JsonBody, Path};
use crate::problem::Problem;
use crate::tokens::{DEFAULT_LIFETIME, ScopedTokens, TokenError, TokenInfo};

impl App {
    /// Returns the scoped tokens of this server, or an error if authentication is disabled.
    fn tokens(&self) -> Result<&ScopedTokens, Problem> {
        let detail = "scoped tokens are unavailable: authentication is disabled on this server";
        let disabled = || Problem::conflict(detail);
        self.guard.tokens().ok_or_else(disabled)
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Problem {
        match error {
            TokenError::Scope(_) | TokenError::Lifetime => {
                Problem::unprocessable(error.to_string())
            }
            TokenError::TooMany => Problem::conflict(error.to_string())
                .hint("revoke scoped tokens that are no longer used"),
            TokenError::File { .. } | TokenError::Invalid { .. } => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        }
    }
}

/// Request body that creates a scoped token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateToken {
    /// What the token grants access to: `drafts/NAME` for the draft tools of a workspace, or `code` for code execution
    #[schema(pattern = "^(code|drafts/[A-Za-z0-9_.-]{1,60})$")]
    scope: String,
    /// Seconds until the token expires; default: 30 days
    #[schema(minimum = 1, maximum = 31_536_000)]
    ttl_seconds: Option<u64>,
}

/// New scoped token with its secret text. Only the response that creates the token contains the secret text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedToken {
    #[serde(flatten)]
    info: TokenInfo,
    token: String,
    /// Path of the MCP endpoint on this server that the token grants access to
    path: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenList {
    tokens: Vec<TokenInfo>,
}

/// Create a scoped token for an agent
///
/// The token grants access to one MCP endpoint only: an agent that edits files can neither run code nor accept drafts.
#[utoipa::path(
    post, path = "/api/tokens", tag = "machine", operation_id = "create_token", request_body = CreateToken,
    responses((status = 201, description = "New token, valid until it expires or is revoked", body = CreatedToken)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    JsonBody { body, .. }: JsonBody<CreateToken>,
) -> Result<Response, Problem> {
    let tokens = app.tokens()?;
    if let Some(workspace) = body.scope.strip_prefix("drafts/") {
        app.draft_service(workspace)?;
    }
    let lifetime = body.ttl_seconds.map_or(DEFAULT_LIFETIME, Duration::from_secs);
    let (info, token) = tokens.create(&body.scope, lifetime)?;
    let created = CreatedToken { path: format!("/mcp/{}", info.scope), info, token };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

/// List scoped tokens
#[utoipa::path(
    get, path = "/api/tokens", tag = "machine", operation_id = "list_tokens",
    responses((status = 200, description = "Valid tokens, oldest first", body = TokenList)),
)]
pub(crate) async fn list(State(app): State<App>) -> Result<Json<TokenList>, Problem> {
    let tokens = app.guard.tokens().map_or(Ok(Vec::new()), ScopedTokens::list)?;
    Ok(Json(TokenList { tokens }))
}

/// Revoke a scoped token
#[utoipa::path(
    delete, path = "/api/tokens/{token_id}", tag = "machine", operation_id = "revoke_token",
    params(("token_id" = String, Path, description = "Id of the token")),
    responses((status = 204, description = "The token was revoked")),
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    match app.tokens()?.revoke(&id)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("unknown token: no valid token has this id")),
    }
}

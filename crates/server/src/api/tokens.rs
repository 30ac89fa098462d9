//! Scoped tokens: created, listed, revoked.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::extract::{Path, Sent};
use crate::problem::Problem;
use crate::tokens::{DEFAULT_LIFETIME, TokenInfo, Tokens, TokensError};

impl App {
    /// Scoped tokens of this server, if it asks for tokens.
    fn tokens(&self) -> Result<&Tokens, Problem> {
        self.guard.tokens().ok_or_else(|| Problem::conflict("this server asks for no token"))
    }
}

impl From<TokensError> for Problem {
    fn from(error: TokensError) -> Problem {
        match error {
            TokensError::Scope(_) | TokensError::Lifetime => Problem::unusable(error.to_string()),
            TokensError::TooMany => {
                Problem::conflict(error.to_string()).hint("revoke those that are not used any more")
            }
            TokensError::File { .. } | TokensError::Invalid { .. } => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        }
    }
}

/// A token that is to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateToken {
    /// `drafts/NAME` for the draft tools of a workspace, or `code` for the tool that runs code
    #[schema(pattern = "^(code|drafts/[A-Za-z0-9_.-]{1,60})$")]
    scope: String,
    /// Seconds until it expires; 30 days, if nothing
    #[schema(minimum = 1, maximum = 31_536_000)]
    ttl_seconds: Option<u64>,
}

/// A token with its text, which is shown once.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedToken {
    #[serde(flatten)]
    info: TokenInfo,
    token: String,
    /// Where the tools are, on this server
    path: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenList {
    tokens: Vec<TokenInfo>,
}

/// Create a token for a worker
///
/// It opens nothing but the tools at one address: whoever drafts can neither execute nor accept.
#[utoipa::path(
    post, path = "/api/tokens", tag = "machine", operation_id = "create_token", request_body = CreateToken,
    responses((status = 201, description = "Good until it expires or is revoked", body = CreatedToken)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Sent { body, .. }: Sent<CreateToken>,
) -> Result<Response, Problem> {
    let tokens = app.tokens()?;
    if let Some(workspace) = body.scope.strip_prefix("drafts/") {
        app.desk(workspace)?;
    }
    let lifetime = body.ttl_seconds.map_or(DEFAULT_LIFETIME, Duration::from_secs);
    let (info, token) = tokens.create(&body.scope, lifetime)?;
    let created = CreatedToken { path: format!("/mcp/{}", info.scope), info, token };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

/// List the tokens of workers
#[utoipa::path(
    get, path = "/api/tokens", tag = "machine", operation_id = "list_tokens",
    responses((status = 200, description = "Those that are valid, the oldest first", body = TokenList)),
)]
pub(crate) async fn list(State(app): State<App>) -> Result<Json<TokenList>, Problem> {
    let tokens = app.guard.tokens().map_or(Ok(Vec::new()), Tokens::list)?;
    Ok(Json(TokenList { tokens }))
}

/// Revoke a token
#[utoipa::path(
    delete, path = "/api/tokens/{token_id}", tag = "machine", operation_id = "revoke_token",
    params(("token_id" = String, Path, description = "The id of the token")),
    responses((status = 204, description = "It opens nothing any more")),
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    match app.tokens()?.revoke(&id)? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("there is no such token")),
    }
}

//! Error responses of the API, in the format of RFC 9457 (problem details).

use assize_draft::DraftError;
use assize_run::StoreError;
use assize_sandbox::SandboxError;
use assize_types::{Failure, FailureKind};
use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

/// Problem details (RFC 9457) of a request that failed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// URI reference that identifies the kind of problem
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[schemars(with = "u16", range(min = 400, max = 599))]
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    /// Why the request failed
    detail: String,
    /// What the client or the operator can do about the problem
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Value of the `Retry-After` header, in seconds.
    #[serde(skip)]
    retry_after: Option<u64>,
}

/// Value of the `Retry-After` header, in seconds, if the server does not know how long the client has to wait.
const DEFAULT_RETRY_AFTER: u64 = 5;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_number<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}

/// Returns the `type` and the `title` of a problem with this status.
fn title(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 => ("/problems/malformed", "malformed request"),
        401 => ("/problems/token", "missing or invalid token"),
        402 => ("/problems/budget", "the cost exceeds the limit or needs confirmation"),
        403 => ("/problems/forbidden", "forbidden"),
        404 => ("/problems/not-found", "not found"),
        405 => ("/problems/method", "method not allowed"),
        408 => ("/problems/timeout", "the request timed out"),
        409 => ("/problems/conflict", "conflict with the current state"),
        410 => ("/problems/gone", "no longer available"),
        413 => ("/problems/too-large", "the request is too large"),
        415 => ("/problems/media-type", "unsupported media type"),
        421 => ("/problems/host", "unknown host name"),
        422 => ("/problems/unusable", "invalid request"),
        429 => ("/problems/too-many", "too many requests"),
        502 => ("/problems/upstream", "an upstream service failed"),
        503 => ("/problems/unavailable", "temporarily unavailable"),
        _ => ("/problems/internal", "internal error"),
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let (kind, title) = title(status);
        Problem { kind, title, status, detail: detail.into(), hint: None, retry_after: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the number of seconds in the `Retry-After` header of a response with status 429.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Problem {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn unprocessable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(status = self.status.as_u16(), detail = self.detail, "request failed");
        }
        let mut response = (self.status, Json(&self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            let seconds = HeaderValue::from(self.retry_after.unwrap_or(DEFAULT_RETRY_AFTER));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

/// Converts a failure to a problem; the kind of the failure determines the HTTP status.
impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        let status = match failure.kind {
            FailureKind::Usage | FailureKind::Verdict => StatusCode::UNPROCESSABLE_ENTITY,
            FailureKind::Settings | FailureKind::Interrupted => StatusCode::CONFLICT,
            FailureKind::Budget => StatusCode::PAYMENT_REQUIRED,
            FailureKind::Environment | FailureKind::Sandbox => StatusCode::SERVICE_UNAVAILABLE,
            FailureKind::Internal | FailureKind::Unread => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Problem::new(status, failure.message());
        Problem { hint: failure.hint_text().map(str::to_owned), ..problem }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match &error {
            StoreError::NoSuchRun(_) | StoreError::NoSuchArtifact(_) => {
                Problem::not_found(error.to_string())
            }
            StoreError::Fenced(_) | StoreError::Done(_) => Problem::conflict(error.to_string()),
            _ => Failure::from(error).into(),
        }
    }
}

/// Converts the error of a task that panicked while a request waited for it.
impl From<tokio::task::JoinError> for Problem {
    fn from(_: tokio::task::JoinError) -> Problem {
        let detail = "internal error in assize: see the server's log";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }
}

impl From<SandboxError> for Problem {
    fn from(error: SandboxError) -> Problem {
        match &error {
            SandboxError::NotFound(_) => Problem::not_found(error.to_string()),
            SandboxError::NameConflict(_) => Problem::conflict(error.to_string()),
            SandboxError::RejectedByGuest(_) => Problem::unprocessable(error.to_string()),
            _ => Failure::from(error).into(),
        }
    }
}

impl From<DraftError> for Problem {
    fn from(error: DraftError) -> Problem {
        match &error {
            DraftError::Conflict(_) => Problem::conflict(error.to_string()),
            _ => Failure::from(error).into(),
        }
    }
}

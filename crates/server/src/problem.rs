//! What went wrong, as programs read it: problem details by RFC 9457.

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

/// Why a request was not done.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// What kind of problem it is: a reference that is the same for all of a kind.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[schemars(with = "u16", range(min = 400, max = 599))]
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    /// What is wrong with this very request.
    detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Seconds after which it may be done.
    #[serde(skip)]
    wait: Option<u64>,
}

/// How many, where nobody knows better.
const USUAL_WAIT: u64 = 5;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it like this")]
fn as_number<S: serde::Serializer>(status: &StatusCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u16(status.as_u16())
}

/// What a problem's status says, in words.
fn title(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 => ("/problems/malformed", "the request cannot be read"),
        401 => ("/problems/token", "there is no token, or it is wrong"),
        402 => ("/problems/budget", "it costs more than may be spent"),
        403 => ("/problems/forbidden", "this is not allowed"),
        404 => ("/problems/not-found", "there is no such thing"),
        405 => ("/problems/method", "this cannot be done here"),
        408 => ("/problems/timeout", "it took too long"),
        409 => ("/problems/conflict", "it does not fit how things stand"),
        410 => ("/problems/gone", "it is there no more"),
        413 => ("/problems/too-large", "the request is too large"),
        415 => ("/problems/media-type", "the request is of another type"),
        421 => ("/problems/host", "this server has another name"),
        422 => ("/problems/unusable", "what is asked for cannot be used"),
        429 => ("/problems/too-many", "too much was asked for in a short time"),
        502 => ("/problems/upstream", "somebody else failed"),
        503 => ("/problems/unavailable", "it cannot be done right now"),
        _ => ("/problems/internal", "something is wrong in assize"),
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let (kind, title) = title(status);
        Problem { kind, title, status, detail: detail.into(), hint: None, wait: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// After so many seconds it may be done.
    pub(crate) fn wait(mut self, seconds: u64) -> Problem {
        self.wait = Some(seconds);
        self
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn unusable(detail: impl Into<String>) -> Problem {
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
            let seconds = HeaderValue::from(self.wait.unwrap_or(USUAL_WAIT));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

/// The status of each kind of failure; the exit codes of the command have a table of their own.
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
        Problem { hint: failure.advice().map(str::to_owned), ..problem }
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

/// Something of ours that was to be waited for has panicked.
impl From<tokio::task::JoinError> for Problem {
    fn from(_: tokio::task::JoinError) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a fault in assize; its log says more")
    }
}

impl From<SandboxError> for Problem {
    fn from(error: SandboxError) -> Problem {
        match &error {
            SandboxError::NotFound(_) => Problem::not_found(error.to_string()),
            SandboxError::Different(_) => Problem::conflict(error.to_string()),
            SandboxError::Refused(_) => Problem::unusable(error.to_string()),
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

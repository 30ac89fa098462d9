//! [`ModelError`]: the error of a model call, with its category.

use assize_types::{Failure, FailureKind};
use std::error::Error as StdError;
use std::time::Duration;

/// Error of a model call.
///
/// The message and the hint can be shown and logged, because they contain no API key and no part of the prompt.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    kind: ErrorKind,
    message: String,
    /// Hint for the user about how to fix the error.
    pub hint: Option<String>,
    /// HTTP status code of the provider's response; `None` if there was no response.
    pub status: Option<u16>,
    /// Delay that the provider requested before a retry, for example in a `retry-after` header.
    pub retry_after: Option<Duration>,
    /// Longer explanation of the error. It must not be logged, because it may contain parts of the prompt.
    pub detail: Option<String>,
    /// Whether it is possible that the provider charges for the call although the result is lost.
    pub may_be_charged: bool,
    /// Number of times the request was sent.
    pub attempts: u32,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Category of a model error. Callers use the category to decide how to react, for example whether to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider could not be reached, so nothing was sent.
    Unreachable,
    /// The connection broke after the request was sent.
    Connection,
    /// One attempt of the call exceeded its timeout.
    Timeout,
    /// HTTP 429: too many requests or tokens per minute.
    RateLimited,
    /// HTTP 529 or 503: the provider is overloaded.
    Overloaded,
    /// HTTP 408, or a 5xx status other than 503 and 529: an error on the provider's side.
    Server,
    /// The response could not be parsed: not JSON, truncated, or too long.
    Malformed,
    /// The provider's response has no content.
    Empty,
    /// HTTP 400: the provider rejected the request as invalid.
    BadRequest,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// HTTP 401: the API key is missing or invalid.
    Unauthorized,
    /// HTTP 403: the API key lacks permission.
    Forbidden,
    /// HTTP 404: the model or the endpoint does not exist.
    NotFound,
    /// HTTP 413: the request is too large.
    TooLarge,
    /// The account at the provider has no credit, or has reached its spending limit.
    SpendLimit,
    /// The model, or its provider's filter, declined to answer, and the caller cannot continue without an answer.
    Declined,
    /// The budget of the run does not allow the call.
    Budget,
    /// The call, including its retries, exceeded its deadline.
    Deadline,
    /// The caller cancelled the call.
    Cancelled,
    /// The request is not in the cassette that is being replayed.
    NotRecorded,
    /// The call was not sent, because the ledger could not record the call before sending it.
    NotNoted,
    /// An error in this process, such as a cassette that cannot be written.
    Internal,
}

impl ErrorKind {
    /// Whether a retry of the same request can succeed.
    pub fn is_retryable(self) -> bool {
        use ErrorKind::*;
        [Unreachable, Connection, Timeout, RateLimited, Overloaded, Server, Malformed, Empty]
            .contains(&self)
    }

    /// Whether the error ends the whole run or task. The caller must then neither retry nor use a default value as the
    /// answer.
    pub fn is_final(self) -> bool {
        use ErrorKind::*;
        matches!(self, Budget | Deadline | Cancelled | NotRecorded | NotNoted | Internal)
    }
}

impl ModelError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ModelError {
        ModelError {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            hint: None,
            detail: None,
            may_be_charged: matches!(kind, ErrorKind::Connection | ErrorKind::Timeout),
            attempts: 1,
            source: None,
        }
    }

    /// Sets the hint for the user about how to fix the error.
    pub fn with_hint(mut self, hint: impl Into<String>) -> ModelError {
        self.hint = Some(hint.into());
        self
    }

    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> ModelError {
        self.source = Some(source.into());
        self
    }

    /// Prepends `words` and a colon to the message.
    pub fn context(mut self, words: &str) -> ModelError {
        self.message = format!("{words}: {}", self.message);
        self
    }

    /// Appends `words` to the message.
    pub fn append_message(mut self, words: &str) -> ModelError {
        self.message.push_str(words);
        self
    }

    /// Rewrites the message and the hint, for example to remove an API key.
    pub fn map_message(mut self, rewrite: impl Fn(&str) -> String) -> ModelError {
        self.message = rewrite(&self.message);
        self.hint = self.hint.as_deref().map(rewrite);
        self
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Failure {
        use ErrorKind as E;
        let kind = match error.kind() {
            E::Unauthorized | E::Forbidden | E::NotFound => FailureKind::Settings,
            E::BadRequest | E::TooLarge | E::ContextOverflow | E::NotRecorded => FailureKind::Usage,
            E::Budget => FailureKind::Budget,
            E::Declined => FailureKind::Verdict,
            E::Cancelled => FailureKind::Interrupted,
            E::Unreachable
            | E::Connection
            | E::Timeout
            | E::RateLimited
            | E::Overloaded
            | E::Server
            | E::Malformed
            | E::Empty
            | E::SpendLimit
            | E::Deadline
            | E::NotNoted
            | E::Internal => FailureKind::Environment,
        };
        let failure = match error.kind() {
            // For these two kinds, the source of the error adds information to the message, such as a file path.
            E::Internal | E::NotNoted => Failure::from_error(kind, &error),
            _ => Failure::new(kind, error.message()),
        };
        let failure = failure.with_optional_hint(error.hint.as_deref());
        match &error.detail {
            Some(detail) => failure.with_detail(detail),
            None => failure,
        }
    }
}

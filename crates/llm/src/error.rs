//! Errors of model calls.

use assize_types::{Failure, FailureKind};
use std::error::Error as StdError;
use std::time::Duration;

/// Error of a model call.
///
/// Message and hint are safe to show and to log: they contain no key and no part of the prompt.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    kind: ErrorKind,
    message: String,
    /// What the user can do about the error.
    pub hint: Option<String>,
    /// HTTP status of the provider's response, if there was one.
    pub status: Option<u16>,
    /// Delay before a retry that the provider asked for.
    pub retry_after: Option<Duration>,
    /// Longer explanation. Not for logs: it may contain parts of the prompt.
    pub detail: Option<String>,
    /// Whether the provider may charge for the call although its result is lost.
    pub may_be_charged: bool,
    /// How many times the call was sent.
    pub attempts: u32,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Category of an error; it decides how the caller reacts, for example whether it retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider could not be reached: nothing was sent.
    Unreachable,
    /// The connection broke after the request was sent.
    Connection,
    /// One attempt took too long.
    Timeout,
    /// 429: too many requests or tokens per minute.
    RateLimited,
    /// 529 or 503: the provider is overloaded.
    Overloaded,
    /// Another 5xx, or 408.
    Server,
    /// The response could not be parsed: not JSON, truncated, or too long.
    Malformed,
    /// The provider's response has no content.
    Empty,
    /// 400: the provider did not accept the request.
    BadRequest,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// 401: the API key is missing or invalid.
    Unauthorized,
    /// 403: the API key lacks permission.
    Forbidden,
    /// 404: no such model or endpoint.
    NotFound,
    /// 413: the request is too large.
    TooLarge,
    /// The account has no credit, or its own spending limit is reached.
    SpendLimit,
    /// The model, or its provider's filter, declined to answer, and the caller has no fallback.
    Declined,
    /// The run's own budget is used up.
    Budget,
    /// The call, retries included, exceeded its deadline.
    Deadline,
    /// The caller cancelled.
    Cancelled,
    /// The request is not in the cassette that is being replayed.
    NotRecorded,
    /// The call was not sent, because the store could not record it first.
    NotNoted,
    /// An error in this process, such as a cassette that cannot be written.
    Internal,
}

impl ErrorKind {
    /// Whether a retry of the same request may succeed.
    pub fn is_retryable(self) -> bool {
        use ErrorKind::*;
        [Unreachable, Connection, Timeout, RateLimited, Overloaded, Server, Malformed, Empty]
            .contains(&self)
    }

    /// Whether the error ends the whole run or task, so that no retry, extraction or default may replace the answer.
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

    /// Sets the hint: what the user can do about the error.
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
    pub fn and(mut self, words: &str) -> ModelError {
        self.message.push_str(words);
        self
    }

    /// Rewrites the message and the hint, for example to remove a key.
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
            // Only for these kinds does the cause add to the message, such as the file that failed.
            E::Internal | E::NotNoted => Failure::from_error(kind, &error),
            _ => Failure::new(kind, error.message()),
        };
        let failure = failure.maybe_hint(error.hint.as_deref());
        match &error.detail {
            Some(detail) => failure.with_detail(detail),
            None => failure,
        }
    }
}

//! Why a call got no answer.

use assize_types::{Failure, FailureKind};
use std::error::Error as StdError;
use std::time::Duration;

/// A call that was not answered.
///
/// Message and hint are safe to show and to log: they hold no key and no part of the prompt.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    kind: ErrorKind,
    message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// The HTTP status that the provider answered with, where it answered.
    pub status: Option<u16>,
    /// How long the provider asked us to wait.
    pub retry_after: Option<Duration>,
    /// More than fits a line, and not for logs: it may show parts of the prompt.
    pub detail: Option<String>,
    /// Whether the provider may have done, and charged for, work whose result is lost.
    pub may_be_charged: bool,
    /// How often the call was sent.
    pub attempts: u32,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What its caller can do about an error depends on this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider could not be reached: nothing was sent.
    Unreachable,
    /// The connection broke after the request was sent.
    Connection,
    /// One attempt took too long.
    Timeout,
    /// 429: too many requests or tokens a minute.
    RateLimited,
    /// 529 or 503: the provider has no room just now.
    Overloaded,
    /// Another 5xx, or 408.
    Server,
    /// The answer could not be understood: not JSON, cut short, or too long.
    Malformed,
    /// The provider answered with nothing in it.
    Empty,
    /// 400: the provider did not accept the request.
    BadRequest,
    /// The prompt does not fit the model's context window.
    ContextOverflow,
    /// 401: no key, or a wrong one.
    Unauthorized,
    /// 403: the key may not do this.
    Forbidden,
    /// 404: no such model or endpoint.
    NotFound,
    /// 413: the request is too large.
    TooLarge,
    /// The account has no credit, or its own spending limit is reached.
    SpendLimit,
    /// The model, or its provider's filter, declined to answer where nothing else will do.
    Declined,
    /// Our own budget is reached.
    Budget,
    /// The whole call, retries included, took longer than it may.
    Deadline,
    /// The caller cancelled.
    Cancelled,
    /// The request is not on the cassette that is being replayed.
    NotRecorded,
    /// The call could not be noted in the store before it was sent, so it was not sent.
    NotNoted,
    /// A fault on our side of the wire (a cassette that cannot be written, say).
    Internal,
}

impl ErrorKind {
    /// Whether the same request may well succeed a little later.
    pub fn is_retryable(self) -> bool {
        use ErrorKind::*;
        [Unreachable, Connection, Timeout, RateLimited, Overloaded, Server, Malformed, Empty]
            .contains(&self)
    }

    /// Whether the end of the whole piece of work was decided elsewhere, so that no other rung,
    /// retry or default may stand in for the answer.
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

    /// What the user can do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> ModelError {
        self.hint = Some(hint.into());
        self
    }

    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> ModelError {
        self.source = Some(source.into());
        self
    }

    /// Puts words before the message, keeping all else.
    pub fn context(mut self, words: &str) -> ModelError {
        self.message = format!("{words}: {}", self.message);
        self
    }

    /// Puts words behind the message, keeping all else.
    pub fn and(mut self, words: &str) -> ModelError {
        self.message.push_str(words);
        self
    }

    /// Rewrites the message and the hint, to take something out of them.
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
            // Only here does the cause say more than the message: which file, which disk.
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

//! The error type that the command line and the server report: message, kind and hint.
//!
//! Each crate implements `From` to convert its error types to [`Failure`]. The command line maps [`FailureKind`] to
//! exit codes, and the server maps it to HTTP statuses.

use std::error::Error;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Category of a failure. The category determines the exit code of the command or the HTTP status of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The operation was completed, but its verdict is negative: a program failed its tests, for example.
    Verdict,
    /// The command or its input is invalid.
    Usage,
    /// A setting, an API key or a model name is invalid.
    Settings,
    /// A provider, the network or the disk failed.
    Environment,
    /// The budget (cost or tokens) that the user set is used up.
    Budget,
    /// A bug in assize.
    Internal,
    /// A sandbox could not be created, or it failed while it was in use.
    Sandbox,
    /// The user interrupted or cancelled the operation.
    Interrupted,
    /// The process that reads standard output closed the pipe, so nothing more can be printed.
    Unread,
}

/// An error that ends a command or a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), hint: None }
    }

    /// Puts `what` and a colon before the message. `what` names the operation or object in which the failure occurred.
    pub fn within(mut self, what: &str) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// Sets the hint: what the user can do about the failure.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint, or removes it if `hint` is `None`.
    #[must_use]
    pub fn with_optional_hint(mut self, hint: Option<&str>) -> Failure {
        self.hint = hint.map(str::to_owned);
        self
    }

    /// Returns the hint: what the user can do about the failure.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Appends `detail` to the message, on a new line.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Failure {
        self.message = format!("{}\n{detail}", self.message);
        self
    }

    /// Creates a failure whose message is the error followed by all its causes.
    pub fn from_error(kind: FailureKind, error: &dyn Error) -> Failure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let _ = write!(message, ": {cause}");
            source = cause.source();
        }
        Failure::new(kind, message)
    }

    /// Returns the message of the root cause of `error`. In errors of HTTP libraries, only the root cause names the
    /// actual reason.
    pub fn root_cause_message(error: &dyn Error) -> String {
        let mut deepest = error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        deepest.to_string()
    }

    /// Text for the user: the message and, after a blank line, the hint.
    pub fn render(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\n\nhint: {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

//! The one error at the edge: what failed, whose matter it is, and what to do about it.
//!
//! Each crate implements `From` for its own errors. The command line maps [`FailureKind`] to exit codes, the server to
//! HTTP statuses.

use std::error::Error;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Whose matter a failure is; decides exit codes and statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// We did what was asked, and the outcome is no.
    Verdict,
    /// The command or its input cannot be used.
    Usage,
    /// A setting, a key or a model's name is wrong.
    Settings,
    /// A provider, the network or the disk failed us.
    Environment,
    /// The user's own budget is reached.
    Budget,
    /// A fault of ours.
    Internal,
    /// No sandbox could be made, or it broke.
    Sandbox,
    /// The user stopped it.
    Interrupted,
    /// Whoever read our output has gone; there is nobody to be told.
    Unread,
}

/// Something that ends what was asked for.
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

    /// The same, said of something larger.
    pub fn within(mut self, what: &str) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with a hint if there is one.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<&str>) -> Failure {
        self.hint = hint.map(str::to_owned);
        self
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same, with details on the lines after its message.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Failure {
        self.message = format!("{}\n{detail}", self.message);
        self
    }

    /// A failure told by an error and all its causes.
    pub fn from_error(kind: FailureKind, error: &dyn Error) -> Failure {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let _ = write!(message, ": {cause}");
            source = cause.source();
        }
        Failure::new(kind, message)
    }

    /// The words of the deepest cause of an error, which is where HTTP libraries keep the reason.
    pub fn innermost(error: &dyn Error) -> String {
        let mut deepest = error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        deepest.to_string()
    }

    /// As the user reads it: the message, and after a blank line what to do.
    pub fn render(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\n\nhint: {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

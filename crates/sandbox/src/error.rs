//! Why a sandbox could not do something.

use assize_config::Isolation;
use assize_protocol::{Cause, Failure as GuestFailure};
use assize_types::{Failure, FailureKind};

use crate::channel::Gone;
use crate::interpreter::Language;

/// A sandbox that failed, or refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SandboxError {
    /// This machine has no such sandbox, and why.
    #[error("no {isolation} sandbox can be made here: {reason}")]
    Unavailable { isolation: Isolation, reason: String, hint: Option<String> },
    #[error("the {isolation} sandbox cannot do this: {reason}")]
    Unsupported { isolation: Isolation, reason: String, hint: Option<&'static str> },
    #[error("the limits of the sandbox make no sense: {0}")]
    Limits(String),
    #[error("`{0}` is no name for a sandbox")]
    Name(String),
    #[error("there is no sandbox `{0}`")]
    NotFound(String),
    #[error("the sandbox `{0}` is there already, and is another one than was asked for")]
    Different(String),
    #[error("there is no {0} interpreter in the {1} sandbox")]
    NoInterpreter(Language, Isolation),
    /// What was asked for cannot be done inside, by the guest's own word.
    #[error("{}", .0.message)]
    Refused(GuestFailure),
    /// Work inside asked the host for what it may not have, and was ended.
    #[error("what ran in the sandbox was ended, as it sent {0}")]
    Overstepped(String),
    /// A program went on after it was cancelled, and was killed.
    #[error("the program did not end within {} s of its cancellation and was killed", .0.as_secs_f64())]
    IgnoredCancellation(std::time::Duration),
    /// The sandbox itself broke: no fault of what ran in it.
    #[error("the sandbox broke: {0}")]
    Broke(String),
    #[error("{what} failed: {reason}")]
    Failed { what: String, reason: String },
}

impl SandboxError {
    pub(crate) fn failed(what: impl Into<String>, reason: impl std::fmt::Display) -> SandboxError {
        SandboxError::Failed { what: what.into(), reason: reason.to_string() }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            SandboxError::Unavailable { hint, .. } => hint.as_deref(),
            SandboxError::Unsupported { hint, .. } => *hint,
            SandboxError::Different(_) => Some("remove it first, or choose another name"),
            SandboxError::NoInterpreter(language, Isolation::Jail) => Some(match language {
                Language::Python => {
                    "install Python 3 so that `python3` is in PATH, name one with the setting \
                     `sandbox.python`, or use `--isolation docker`"
                }
                Language::Bash => {
                    "install Bash so that `bash` is in PATH, or name it with the setting `sandbox.bash`"
                }
                Language::JavaScript => {
                    "install Node.js so that `node` is in PATH, or name it with the setting \
                     `sandbox.node`"
                }
            }),
            SandboxError::NotFound(_) => Some("`assize sandbox ls` shows those there are"),
            SandboxError::Name(_) => Some(
                "use lower-case letters, digits and `-`, 63 at most, as in `negotiate-nvda-m1`",
            ),
            _ => None,
        }
    }

    /// Whether the same may work when it is tried again in a new sandbox.
    pub fn is_infrastructure(&self) -> bool {
        matches!(self, SandboxError::Broke(_) | SandboxError::Failed { .. })
    }

    /// Why the guest refused, if it did.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            SandboxError::Refused(failure) => Some(failure.cause),
            _ => None,
        }
    }
}

impl From<Gone> for SandboxError {
    fn from(gone: Gone) -> SandboxError {
        SandboxError::Broke(gone.0)
    }
}

impl From<GuestFailure> for SandboxError {
    fn from(failure: GuestFailure) -> SandboxError {
        SandboxError::Refused(failure)
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Failure {
        let kind = match &error {
            SandboxError::Limits(_)
            | SandboxError::Unsupported { .. }
            | SandboxError::Name(_)
            | SandboxError::NotFound(_)
            | SandboxError::Different(_) => FailureKind::Usage,
            _ => FailureKind::Sandbox,
        };
        Failure::new(kind, error.to_string()).maybe_hint(error.hint())
    }
}

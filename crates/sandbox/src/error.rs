//! Errors of sandboxes.

use assize_config::Isolation;
use assize_protocol::{GuestFailure, GuestFailureCause};
use assize_types::{Failure, FailureKind};

use crate::channel::ChannelClosed;
use crate::interpreter::Language;

/// Error of a sandbox operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SandboxError {
    /// The backend is unavailable on this machine.
    #[error("{isolation} sandboxes are unavailable: {reason}")]
    Unavailable { isolation: Isolation, reason: String, hint: Option<String> },
    #[error("unsupported by the {isolation} sandbox: {reason}")]
    Unsupported { isolation: Isolation, reason: String, hint: Option<&'static str> },
    #[error("invalid sandbox limits: {0}")]
    Limits(String),
    #[error("invalid sandbox name `{0}`")]
    InvalidName(String),
    #[error("sandbox `{0}` not found")]
    NotFound(String),
    #[error("sandbox `{0}` already exists with a different image, layers, limits or isolation")]
    NameConflict(String),
    #[error("no {0} interpreter in the {1} sandbox")]
    NoInterpreter(Language, Isolation),
    /// The guest agent rejected the request.
    #[error("{}", .0.message)]
    RejectedByGuest(GuestFailure),
    /// A program violated the protocol for messages to the host and was killed.
    #[error("the program in the sandbox was killed for a protocol violation: {0}")]
    ProtocolViolation(String),
    /// A program did not end after its cancellation and was killed.
    #[error("the program did not end within {} s of its cancellation and was killed", .0.as_secs_f64())]
    IgnoredCancellation(std::time::Duration),
    /// The sandbox itself failed, independently of the program in it.
    #[error("the sandbox failed: {0}")]
    SandboxFailed(String),
    #[error("{what} failed: {reason}")]
    Failed { what: String, reason: String },
}

impl SandboxError {
    pub(crate) fn failed(what: impl Into<String>, reason: impl std::fmt::Display) -> SandboxError {
        SandboxError::Failed { what: what.into(), reason: reason.to_string() }
    }

    /// Hint for the user, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            SandboxError::Unavailable { hint, .. } => hint.as_deref(),
            SandboxError::Unsupported { hint, .. } => *hint,
            SandboxError::NameConflict(_) => {
                Some("remove the sandbox with `assize sandbox rm`, or choose another name")
            }
            SandboxError::NoInterpreter(language, Isolation::Jail) => Some(match language {
                Language::Python => {
                    "install Python 3 so that `python3` is in PATH, set the path of an interpreter with the \
                     setting `sandbox.python`, or use `--isolation docker`"
                }
                Language::Bash => {
                    "install Bash so that `bash` is in PATH, or set its path with the setting `sandbox.bash`"
                }
                Language::JavaScript => {
                    "install Node.js so that `node` is in PATH, or set its path with the setting \
                     `sandbox.node`"
                }
            }),
            SandboxError::NotFound(_) => Some("list the sandboxes with `assize sandbox ls`"),
            SandboxError::InvalidName(_) => Some(
                "use 1 to 63 lower-case letters, digits and `-` (not first or last), for example `negotiate-nvda-m1`",
            ),
            _ => None,
        }
    }

    /// Whether the cause of this error is the sandbox or the host, so that a retry in a new sandbox can succeed.
    pub fn is_infrastructure(&self) -> bool {
        matches!(self, SandboxError::SandboxFailed(_) | SandboxError::Failed { .. })
    }

    /// Cause that the guest agent reported, if the guest agent rejected the request.
    pub fn cause(&self) -> Option<GuestFailureCause> {
        match self {
            SandboxError::RejectedByGuest(failure) => Some(failure.cause),
            _ => None,
        }
    }
}

impl From<ChannelClosed> for SandboxError {
    fn from(gone: ChannelClosed) -> SandboxError {
        SandboxError::SandboxFailed(gone.0)
    }
}

impl From<GuestFailure> for SandboxError {
    fn from(failure: GuestFailure) -> SandboxError {
        SandboxError::RejectedByGuest(failure)
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Failure {
        let kind = match &error {
            SandboxError::Limits(_)
            | SandboxError::Unsupported { .. }
            | SandboxError::InvalidName(_)
            | SandboxError::NotFound(_)
            | SandboxError::NameConflict(_) => FailureKind::Usage,
            _ => FailureKind::Sandbox,
        };
        Failure::new(kind, error.to_string()).with_optional_hint(error.hint())
    }
}

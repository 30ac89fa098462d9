//! The one error at the doors: what went wrong, whose matter it is, what to do.

use std::error::Error;
use std::fmt::Write as _;
use std::io::ErrorKind::NotFound;

use assize_code::SessionError;
use assize_gateway::CassetteError;
use assize_llm::{AnswerError, ErrorKind, ModelError};
use assize_sandbox::SandboxError;
use assize_sandbox::microvm::ImageError;
use assize_sandbox::rootfs::RootfsError;
use assize_store::StoreError;
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
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    pub(crate) fn within(mut self, what: &str) -> Failure {
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

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
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

    /// As the user reads it: the message, and after a blank line what to do.
    pub fn render(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\n\nhint: {hint}", self.message),
            None => self.message.clone(),
        }
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
            E::Internal | E::NotNoted => FailureKind::Environment,
            E::Unreachable
            | E::Connection
            | E::Timeout
            | E::RateLimited
            | E::Overloaded
            | E::Server
            | E::Malformed
            | E::Empty
            | E::SpendLimit
            | E::Deadline => FailureKind::Environment,
        };
        let hint = error.hint().map(str::to_owned);
        let mut failure = match kind {
            // Only here does the cause say more than the message: which file, which disk.
            _ if matches!(error.kind(), E::Internal | E::NotNoted) => {
                Failure::from_error(kind, &error)
            }
            _ => Failure::new(kind, error.message()),
        };
        if let Some(detail) = error.detail() {
            failure.message = format!("{}\n{detail}", failure.message);
        }
        Failure { hint, ..failure }
    }
}

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Failure {
        match error {
            AnswerError::Model(error) => error.into(),
            AnswerError::SecondCall { reason, error, .. } => Failure::from(error.context(
                &format!("the answer could not be read ({reason}), and asking again failed"),
            )),
            AnswerError::Schema => Failure::new(FailureKind::Usage, error.to_string()),
            AnswerError::CutOff { .. } => Failure::new(FailureKind::Verdict, error.to_string())
                .hint("allow longer answers with `--max-output-tokens`"),
            AnswerError::Refused { .. } | AnswerError::Unreadable { .. } => {
                Failure::new(FailureKind::Verdict, error.to_string())
            }
        }
    }
}

impl From<CassetteError> for Failure {
    fn from(error: CassetteError) -> Failure {
        let kind = match error {
            CassetteError::Open { ref source, .. } if source.kind() == NotFound => {
                FailureKind::Usage
            }
            CassetteError::Open { .. } | CassetteError::Busy { .. } => FailureKind::Environment,
            _ => FailureKind::Usage,
        };
        Failure::from_error(kind, &error)
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
        Failure { hint: error.hint().map(str::to_owned), ..Failure::new(kind, error.to_string()) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let kind = match &error {
            StoreError::NoSuchRun(_)
            | StoreError::NoSuchArtifact(_)
            | StoreError::AskedBefore { .. }
            | StoreError::Done(_) => FailureKind::Usage,
            StoreError::NotAStore { .. } | StoreError::Newer { .. } => FailureKind::Settings,
            StoreError::Fenced(_)
            | StoreError::Unopened { .. }
            | StoreError::Empty { .. }
            | StoreError::Damaged { .. }
            | StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Busy { .. }
            | StoreError::Failed { .. } => FailureKind::Environment,
        };
        let hint = match &error {
            StoreError::Done(id) => Some(format!(
                "`assize runs show {id}` shows its result, `assize runs fork {id}` makes calls again that failed"
            )),
            error => error.hint().map(str::to_owned),
        };
        Failure { hint, ..Failure::new(kind, error.to_string()) }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        let kind = match &error {
            SessionError::Files(_) | SessionError::Changed => FailureKind::Environment,
            _ => FailureKind::Usage,
        };
        let failure = Failure::from_error(kind, &error);
        match error {
            SessionError::InUse(_) => failure.hint("wait for it, or name another"),
            SessionError::TooLarge { .. } => failure.hint(
                "allow more with `--disk`, or remove some: `assize sessions show NAME` says where they are",
            ),
            SessionError::TooMany => {
                failure.hint("remove some: `assize sessions show NAME` says where they are")
            }
            SessionError::Changed => {
                failure.hint("start a new run: this one knows nothing of what has changed")
            }
            SessionError::Name(_) | SessionError::Files(_) => failure,
        }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Failure {
        let failure = Failure::from_error(FailureKind::Environment, &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<RootfsError> for Failure {
    fn from(error: RootfsError) -> Failure {
        let failure = Failure::from_error(FailureKind::Environment, &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

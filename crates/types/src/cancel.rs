//! Cancellation tokens that carry a reason.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why an operation was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CancelReason {
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The process received SIGTERM.
    #[error("interrupted (SIGTERM)")]
    Terminated,
    /// The process received SIGHUP: its terminal was closed.
    #[error("the terminal was closed (SIGHUP)")]
    HungUp,
    /// A user cancelled the run.
    #[error("cancelled by a user")]
    CancelledByUser,
    /// The server or worker that executes the run is shutting down. The run has not ended and is resumed later.
    #[error("this server or worker is shutting down; the run is resumed later")]
    ShuttingDown,
    /// Another worker took over the lease of the run, so this worker must stop.
    #[error("another worker took over the lease of the run")]
    LeaseLost,
    /// Any other reason, as a message for the user.
    #[error("{0}")]
    Other(Cow<'static, str>),
}

impl From<&'static str> for CancelReason {
    fn from(reason: &'static str) -> CancelReason {
        CancelReason::Other(reason.into())
    }
}

impl From<String> for CancelReason {
    fn from(reason: String) -> CancelReason {
        CancelReason::Other(reason.into())
    }
}

impl From<CancelReason> for String {
    fn from(reason: CancelReason) -> String {
        reason.to_string()
    }
}

/// A cancellation token that stores the reason for its cancellation.
///
/// Cancelling a clone also cancels the original. [`Cancel::child`] creates a token that can be cancelled without
/// cancelling its parent.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
    parent: Option<Cancel>,
}

impl Cancel {
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels the token. If it is cancelled several times, only the first reason is stored.
    pub fn cancel(&self, reason: impl Into<CancelReason>) {
        let _ = self.0.reason.set(reason.into());
        self.0.token.cancel();
    }

    /// Creates a child token. Cancelling the parent cancels the child, but cancelling the child leaves the parent
    /// active.
    pub fn child(&self) -> Cancel {
        let (token, parent) = (self.0.token.child_token(), Some(self.clone()));
        Cancel(Arc::new(Shared { token, reason: OnceLock::new(), parent }))
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Waits until the token is cancelled, and returns the reason.
    pub async fn cancelled(&self) -> CancelReason {
        self.0.token.cancelled().await;
        self.reason()
    }

    /// Returns why the token was cancelled. A token that was cancelled through its parent returns the parent's reason.
    pub fn reason(&self) -> CancelReason {
        match (self.0.reason.get(), &self.0.parent) {
            (Some(reason), _) => reason.clone(),
            (None, Some(parent)) => parent.reason(),
            (None, None) => CancelReason::from("cancelled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn child_token_reports_its_own_cancel_reason_or_else_the_reason_of_its_parent() {
        let parent = Cancel::new();
        let (first, second) = (parent.child(), parent.child());
        first.cancel("lost the race");
        assert!(!parent.is_cancelled() && !second.is_cancelled());
        parent.cancel(CancelReason::Interrupted);
        parent.cancel("too late to matter");
        assert_eq!(first.cancelled().await, CancelReason::from("lost the race"));
        assert_eq!(second.cancelled().await, CancelReason::Interrupted);
    }
}

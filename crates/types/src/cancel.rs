//! Cancellation that says why.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why something was cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CancelReason {
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The process got SIGTERM.
    #[error("told to end")]
    Terminated,
    /// The process got SIGHUP.
    #[error("the terminal is gone")]
    HungUp,
    /// A user cancelled the run.
    #[error("somebody stopped it")]
    Stopped,
    /// The server or worker stops. The run has not ended: it is resumed later.
    #[error("the server is stopping; it goes on with this when it is started again")]
    Paused,
    /// Another worker holds the lease.
    #[error("somebody else goes on with it")]
    LeaseLost,
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

/// A cancellation token that carries the reason it was cancelled for.
///
/// Clones share one fate. [`Cancel::child`] makes one that can be cancelled alone.
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

    /// Cancels; the first reason given is the one that is kept.
    pub fn cancel(&self, reason: impl Into<CancelReason>) {
        let _ = self.0.reason.set(reason.into());
        self.0.token.cancel();
    }

    /// A token that is cancelled with this one, and can also be cancelled without it.
    pub fn child(&self) -> Cancel {
        let (token, parent) = (self.0.token.child_token(), Some(self.clone()));
        Cancel(Arc::new(Shared { token, reason: OnceLock::new(), parent }))
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Waits until cancelled and gives the reason.
    pub async fn cancelled(&self) -> CancelReason {
        self.0.token.cancelled().await;
        self.reason()
    }

    /// Why this was cancelled: its own reason, or that of the one it is a child of.
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
    async fn a_child_learns_its_parents_reason_and_keeps_its_own() {
        let parent = Cancel::new();
        let (one, two) = (parent.child(), parent.child());
        one.cancel("lost the race");
        assert!(!parent.is_cancelled() && !two.is_cancelled());
        parent.cancel(CancelReason::Interrupted);
        parent.cancel("too late to matter");
        assert_eq!(one.cancelled().await, CancelReason::from("lost the race"));
        assert_eq!(two.cancelled().await, CancelReason::Interrupted);
    }
}

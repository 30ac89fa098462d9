//! Cancellation that says why.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// A cancellation token that carries the reason it was cancelled for.
///
/// Clones share one fate. [`Cancel::child`] makes one that can be cancelled alone.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
    parent: Option<Arc<Cancel>>,
}

impl Cancel {
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Cancels; the first reason given is the one that is kept.
    pub fn cancel(&self, reason: impl Into<String>) {
        let _ = self.reason.set(reason.into());
        self.token.cancel();
    }

    /// A token that is cancelled with this one, and can also be cancelled without it.
    pub fn child(&self) -> Cancel {
        Cancel {
            token: self.token.child_token(),
            reason: Arc::default(),
            parent: Some(Arc::new(self.clone())),
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until cancelled and gives the reason.
    pub async fn cancelled(&self) -> String {
        self.token.cancelled().await;
        self.reason()
    }

    /// Why this was cancelled: its own reason, or that of the one it is a child of.
    pub fn reason(&self) -> String {
        match (self.reason.get(), &self.parent) {
            (Some(reason), _) => reason.clone(),
            (None, Some(parent)) => parent.reason(),
            (None, None) => "cancelled".to_owned(),
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
        parent.cancel("interrupted");
        parent.cancel("too late to matter");
        assert_eq!(one.cancelled().await, "lost the race");
        assert_eq!(two.cancelled().await, "interrupted");
    }
}

//! Runs debates of one move, isolated from the host where possible.
//!
//! A debate runs in a sandbox ([`SandboxedDebates`]) or, if none can be created, in this process ([`InProcessDebates`]). Either way
//! every model call goes through a [`ModelProxy`] to a [`ModelSource`]: `JournaledSource` in the process that holds the
//! run's lease, which calls the models and journals their answers, or a source that forwards to that process.
//! `negotiate` is the step shared by consultations and single debates. The effect of a failed call is decided there and
//! in `assize_debate` (rules in `docs/explanation/durability.md`). Ranking and reports are left to the callers.

mod affected;
mod journaled;
mod models;
mod negotiate;
mod proxy;
mod sandboxes;

use std::sync::Arc;

use assize_debate::{DebateSpec, DebateVerdict};
use assize_graph::NodeError;
use assize_types::Cancel;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use affected::TooManyMovesAffected;
pub use models::RoleModels;
pub use proxy::{ModelProxy, ModelSource};
pub use sandboxes::{DebateError, SandboxedDebates, install};

pub(crate) use affected::AffectedMoves;
pub(crate) use journaled::AffectedLimit;
pub(crate) use negotiate::{DebateResult, negotiate};
pub(crate) use sandboxes::LONGEST;

/// Verdict of a debate, and how it was isolated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DebateOutcome {
    pub verdict: DebateVerdict,
    /// Why it ran without a sandbox, if it did.
    pub not_isolated: Option<String>,
    /// Warning, if no microVM was available and the debate ran with weaker isolation than that.
    #[serde(default)]
    pub weaker: Option<String>,
    /// Why each replaced sandbox failed.
    pub remade: Vec<String>,
}

/// Runs debates at one kind of place.
#[async_trait]
pub trait DebateRunner: Send + Sync {
    /// Runs one debate; `proxy` answers its model calls.
    async fn hold(
        &self,
        job: &DebateSpec,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError>;

    /// Isolation of the debates, as far as known, and why it was chosen.
    fn isolation(&self) -> String;

    /// Removes all sandboxes created for the debates.
    async fn close(&self) {}
}

/// Runs debates in this process.
#[derive(Debug, Clone, Default)]
pub struct InProcessDebates {
    /// Why there is no sandbox, if the report must mention it.
    pub why: Option<String>,
}

#[async_trait]
impl DebateRunner for InProcessDebates {
    async fn hold(
        &self,
        job: &DebateSpec,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError> {
        let verdict = job.hold(proxy, cancel.clone()).await?;
        Ok(DebateOutcome {
            verdict,
            not_isolated: self.why.clone(),
            weaker: None,
            remade: Vec::new(),
        })
    }

    fn isolation(&self) -> String {
        "no sandbox".to_owned()
    }
}

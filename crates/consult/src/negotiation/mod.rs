//! Runs debates, each about one move, isolated from the host where possible.
//!
//! A debate runs in a sandbox ([`SandboxedDebates`]) or, if no sandbox can be created, in this process
//! ([`InProcessDebates`]). In both cases every model call goes through a [`ModelProxy`] to a [`ModelSource`]. In the
//! process that holds the run's lease, the source is `JournaledSource`, which calls the models and journals their
//! answers. In other processes, the source forwards calls to that process.
//!
//! Consultations and single debates both run a debate with `negotiate`. `negotiate` and `assize_debate` decide how a
//! debate and its run continue after a failed model call (rules in `docs/explanation/durability.md`). The callers of
//! `negotiate` rank the moves and write the reports.

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
pub use sandboxes::{DebateError, SandboxedDebates, install, negotiator_program};

pub(crate) use affected::AffectedMoves;
pub(crate) use journaled::AffectedLimit;
pub(crate) use negotiate::{DebateResult, negotiate};
pub(crate) use sandboxes::DEBATE_TIME_LIMIT;

/// Verdict of a debate, and how the debate was isolated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DebateOutcome {
    pub verdict: DebateVerdict,
    /// Reason why the debate ran without a sandbox; `None` if it ran in a sandbox.
    pub not_isolated: Option<String>,
    /// Warning for the report if no microVM was available and the debate ran with weaker isolation than a microVM.
    #[serde(default)]
    pub weaker: Option<String>,
    /// Errors of the sandboxes that failed and were replaced during the debate.
    pub remade: Vec<String>,
}

/// Runs debates. Each implementation runs them in one kind of place: in sandboxes, in this process or in a cluster.
#[async_trait]
pub trait DebateRunner: Send + Sync {
    /// Runs one debate; `proxy` answers its model calls.
    async fn run_debate(
        &self,
        job: &DebateSpec,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError>;

    /// Isolation of the debates, as far as it is known, and why it was chosen.
    fn isolation(&self) -> String;

    /// Removes all sandboxes created for the debates.
    async fn close(&self) {}
}

/// Runs debates in this process.
#[derive(Debug, Clone, Default)]
pub struct InProcessDebates {
    /// Reason why the debates run without a sandbox, as shown in the report; `None` if the report shows no reason.
    pub why: Option<String>,
}

#[async_trait]
impl DebateRunner for InProcessDebates {
    async fn run_debate(
        &self,
        job: &DebateSpec,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError> {
        let verdict = job.run(proxy, cancel.clone()).await?;
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

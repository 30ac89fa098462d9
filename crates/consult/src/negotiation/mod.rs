//! Debates of one move, held where model output cannot do harm.
//!
//! A debate runs in a sandbox ([`InSandboxes`]) or, where none can be made, in this process ([`InProcess`]). Either
//! way every model call goes through a [`ModelProxy`] to a [`ModelSource`]: `JournaledSource` in the process that
//! holds the run, which calls the models and journals their answers, or a source that forwards to that process.
//! `negotiate` is the step that both a consultation and a single debate run; what a failed call means is decided
//! there and in `assize_debate` (`docs/failures.md` lists the rules). Ranking and reports are left to the callers.

mod affected;
mod journaled;
mod models;
mod negotiate;
mod proxy;
mod sandboxes;

use std::sync::Arc;

use assize_debate::{Job, Verdict};
use assize_graph::NodeError;
use assize_types::Cancel;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use affected::MostMovesAffected;
pub use models::Models;
pub use proxy::{ModelProxy, ModelSource};
pub use sandboxes::{DebateError, InSandboxes, install};

pub(crate) use affected::AffectedMoves;
pub(crate) use journaled::AffectedLimit;
pub(crate) use negotiate::{Negotiated, negotiate};
pub(crate) use sandboxes::LONGEST;

/// A debate that came to a verdict.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DebateOutcome {
    pub verdict: Verdict,
    /// Why it ran without a sandbox, if it did.
    pub not_isolated: Option<String>,
    /// That it ran behind a weaker boundary than a microVM although none was asked for, in a sentence.
    #[serde(default)]
    pub weaker: Option<String>,
    /// Why sandboxes were replaced, once for each replacement.
    pub remade: Vec<String>,
}

/// Where debates run.
#[async_trait]
pub trait Debates: Send + Sync {
    /// Runs one debate; `proxy` answers its model calls.
    async fn hold(
        &self,
        job: &Job,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError>;

    /// Behind which boundary debates run, as far as that is known, and why that one.
    fn isolation(&self) -> String;

    /// Ends all sandboxes that were made for them.
    async fn close(&self) {}
}

/// Runs debates in this process.
#[derive(Debug, Clone, Default)]
pub struct InProcess {
    /// Why there is no sandbox, where the report must say so.
    pub why: Option<String>,
}

#[async_trait]
impl Debates for InProcess {
    async fn hold(
        &self,
        job: &Job,
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

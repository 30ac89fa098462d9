//! Serializable description of a debate, so that a sandbox or another process can run it.

use std::sync::Arc;

use assize_graph::{NodeError, RunOptions};
use assize_llm::Model;
use assize_types::Cancel;
use serde::{Deserialize, Serialize};

use crate::personas::DebatePersonas;
use crate::state::{DebateCompany, DebateState, MoveDocument, PersonaChange};
use crate::verdict::DebateVerdict;
use crate::{DebateOptions, graph};

/// Cancel reason and error text of a debate in a sandbox that lost its connection to the host.
pub const HOST_IS_GONE: &str = "the host is gone";

/// Everything needed to run a debate, except the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DebateSpec {
    pub move_document: MoveDocument,
    pub company: DebateCompany,
    pub personas: DebatePersonas,
    pub max_rounds: u32,
    pub options: DebateOptions,
    /// Persona changes; a later one overrides an earlier one for the same role.
    pub changes: Vec<PersonaChange>,
}

impl DebateSpec {
    /// Runs the debate without a journal. Each call carries its key, so that the model's side can journal it.
    pub async fn hold(
        &self,
        model: Arc<dyn Model>,
        cancel: Cancel,
    ) -> Result<DebateVerdict, NodeError> {
        let DebateSpec { move_document, company, personas, max_rounds, options, changes } =
            self.clone();
        let state = DebateState::new(move_document, company, Arc::new(personas), max_rounds);
        let state = DebateState { changes, ..state };
        let run =
            RunOptions { cancel, step_limit: step_limit(max_rounds), ..RunOptions::default() };
        Ok(DebateVerdict::from(graph(model, options)?.run(state, run).await?))
    }
}

/// Step limit of a debate: two steps per round, the opening and the scores, and some spare.
pub fn step_limit(rounds: u32) -> u32 {
    2 * rounds + 10
}

//! Serializable specification of a debate, so that a sandbox or another process can run the debate.

use std::sync::Arc;

use assize_graph::{NodeError, RunOptions};
use assize_llm::Model;
use assize_types::Cancel;
use serde::{Deserialize, Serialize};

use crate::personas::DebatePersonas;
use crate::state::{DebateCompany, DebateState, MoveDocument, PersonaChange};
use crate::verdict::DebateVerdict;
use crate::{DebateOptions, graph};

/// Cancel reason and error text of a debate whose sandbox lost the connection to the host.
pub const HOST_CONNECTION_LOST: &str = "lost the connection to the host";

/// Specification of a debate: everything that is needed to run it, except the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DebateSpec {
    pub move_document: MoveDocument,
    pub company: DebateCompany,
    pub personas: DebatePersonas,
    pub max_rounds: u32,
    pub options: DebateOptions,
    /// Persona changes. If several changes apply to a role, the last one in the list is used.
    pub changes: Vec<PersonaChange>,
}

impl DebateSpec {
    /// Runs the debate without a journal. Each call passes its key to `model`, which can journal the answer under that
    /// key.
    pub async fn run(
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

/// Maximum number of graph steps of a debate: two steps per round, the opening and the scores, and a reserve.
pub fn step_limit(rounds: u32) -> u32 {
    2 * rounds + 10
}

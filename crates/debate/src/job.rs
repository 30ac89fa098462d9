//! A debate as a piece of work that can be carried out elsewhere: all it needs besides is a model.

use std::sync::Arc;

use assize_graph::{NodeError, RunOptions};
use assize_llm::Model;
use assize_types::Cancel;
use serde::{Deserialize, Serialize};

use crate::personas::Personas;
use crate::state::{Change, Company, DebateState, MoveDocument};
use crate::verdict::Verdict;
use crate::{Options, graph};

/// What a debate elsewhere says when nobody is left to answer it.
pub const HOST_IS_GONE: &str = "the host is gone";

/// All that is to be debated, and by whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub move_document: MoveDocument,
    pub company: Company,
    pub personas: Personas,
    pub max_rounds: u32,
    pub options: Options,
    /// The later counts where two speak of the same.
    pub changes: Vec<Change>,
}

impl Job {
    /// Debates, and keeps no journal: whoever answers for the model does. Each call says under which key.
    pub async fn hold(&self, model: Arc<dyn Model>, cancel: Cancel) -> Result<Verdict, NodeError> {
        let Job { move_document, company, personas, max_rounds, options, changes } = self.clone();
        let state = DebateState::new(move_document, company, Arc::new(personas), max_rounds);
        let state = DebateState { changes, ..state };
        let run =
            RunOptions { cancel, step_limit: step_limit(max_rounds), ..RunOptions::default() };
        Ok(Verdict::from(graph(model, options)?.run(state, run).await?))
    }
}

/// Two steps a round, the opening and the scores, and some to spare.
pub fn step_limit(rounds: u32) -> u32 {
    2 * rounds + 10
}

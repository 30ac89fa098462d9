//! The graphs of consultations and debates, as Mermaid flowcharts.

use std::sync::Arc;

use assize_debate::{Options, ROUNDS};
use assize_gateway::{Gateway, Rehearsal};
use assize_types::{Failure, FailureKind};

use crate::negotiation::{InProcess, Models};
use crate::{Chamber, MOVES, Manner, Personas};

fn no_model() -> Arc<Gateway> {
    let options = assize_gateway::Options::default();
    Arc::new(Gateway::to_rehearsal(Rehearsal::default(), options))
}

fn invalid(error: assize_graph::InvalidGraph) -> Failure {
    Failure::from_error(FailureKind::Internal, &error)
}

/// The graph of a debate.
///
/// # Errors
/// Never, but for a mistake of ours.
pub fn debate_mermaid() -> Result<String, Failure> {
    let graph = assize_debate::graph(no_model(), Options::default()).map_err(invalid)?;
    Ok(graph.mermaid())
}

/// The graph of a consultation.
///
/// # Errors
/// Never, but for a mistake of ours.
pub fn mermaid() -> Result<String, Failure> {
    let chamber = Chamber {
        models: Models::new(no_model()),
        manner: Manner { temperature: 0.0, max_tokens: 1 },
        personas: Personas::default(),
        moves: MOVES,
        rounds: ROUNDS,
        at_once: 1,
        debate_options: Options::default(),
        gathered: Arc::default(),
        synthetic: false,
        debates: Arc::new(InProcess::default()),
        turnings: Vec::new(),
        shelf: None,
    };
    Ok(crate::graph(Arc::new(chamber)).map_err(invalid)?.mermaid())
}

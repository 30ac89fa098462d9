//! The graphs of consultations and debates, as Mermaid flowcharts.

use std::sync::Arc;

use assize_debate::Options;
use assize_gateway::{Gateway, Rehearsal};
use assize_types::{Failure, FailureKind};

use crate::Chamber;
use crate::negotiation::Models;

fn no_model() -> Arc<Gateway> {
    let options = assize_gateway::Options::default();
    Arc::new(Gateway::to_rehearsal(Rehearsal::default(), options))
}

fn invalid(error: assize_graph::InvalidGraph) -> Failure {
    Failure::from_error(FailureKind::Internal, &error)
}

/// The graph of a debate.
pub fn debate_mermaid() -> Result<String, Failure> {
    let graph = assize_debate::graph(no_model(), Options::default()).map_err(invalid)?;
    Ok(graph.mermaid())
}

/// The graph of a consultation.
pub fn mermaid() -> Result<String, Failure> {
    let chamber = Chamber::new(Models::new(no_model()));
    Ok(crate::graph(Arc::new(chamber)).map_err(invalid)?.mermaid())
}

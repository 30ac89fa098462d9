//! Renders the graphs of consultations and debates as Mermaid flowcharts.

use std::sync::Arc;

use assize_debate::DebateOptions;
use assize_gateway::{Gateway, Rehearsal};
use assize_types::{Failure, FailureKind};

use crate::ConsultContext;
use crate::negotiation::RoleModels;

fn placeholder_model() -> Arc<Gateway> {
    let options = assize_gateway::GatewayOptions::default();
    Arc::new(Gateway::to_rehearsal(Rehearsal::default(), options))
}

fn invalid(error: assize_graph::InvalidGraph) -> Failure {
    Failure::from_error(FailureKind::Internal, &error)
}

/// Renders the graph of a debate as a Mermaid flowchart.
pub fn debate_mermaid() -> Result<String, Failure> {
    let graph =
        assize_debate::graph(placeholder_model(), DebateOptions::default()).map_err(invalid)?;
    Ok(graph.mermaid())
}

/// Renders the graph of a consultation as a Mermaid flowchart.
pub fn mermaid() -> Result<String, Failure> {
    let context = ConsultContext::new(RoleModels::new(placeholder_model()));
    Ok(crate::graph(Arc::new(context)).map_err(invalid)?.mermaid())
}

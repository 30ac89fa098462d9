//! A debate as a run of its own: one node that holds it.

use std::sync::Arc;

use assize_debate::Job;
use assize_graph::{Context, END, Graph, InvalidGraph, NodeError, State};

use crate::negotiation::models::Models;
use crate::negotiation::negotiate::{Negotiated, negotiate};
use crate::negotiation::{DebateOutcome, Debates};

/// State of a run that is one debate.
#[derive(Debug, Clone, Default)]
pub(crate) struct SingleDebate {
    pub outcome: Option<Arc<DebateOutcome>>,
}

impl State for SingleDebate {
    type Update = Arc<DebateOutcome>;
    type Item = ();

    fn apply(&mut self, outcome: Arc<DebateOutcome>) {
        self.outcome = Some(outcome);
    }
}

/// The graph of a run that is one debate.
///
/// # Errors
/// Never, except for a mistake in it.
pub(crate) fn single_debate(
    job: Job,
    models: Models,
    debates: Arc<dyn Debates>,
) -> Result<Graph<SingleDebate>, InvalidGraph> {
    let inside = assize_debate::graph(models.of("critic").clone(), job.options)?;
    let shared = Arc::new((job, models, debates));
    Graph::builder("debate")
        .elsewhere("negotiation", &inside, move |context| hold(context, shared.clone()))
        .start("negotiation")
        .edge("negotiation", END)
        .compile()
}

async fn hold(
    context: Context<SingleDebate>,
    shared: Arc<(Job, Models, Arc<dyn Debates>)>,
) -> Result<Vec<Arc<DebateOutcome>>, NodeError> {
    let (job, models, debates) = &*shared;
    match negotiate(&context, &**debates, models, job, None).await? {
        Negotiated::Outcome(outcome) => Ok(vec![Arc::from(outcome)]),
        Negotiated::Unopened(error) => Err(error.into()),
    }
}

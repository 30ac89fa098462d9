//! Runs one debate in a node of a run.

use std::sync::Arc;

use assize_debate::{DebateSpec, DebateVerdict, RoundEvents};
use assize_graph::{Context, EffectError, GraphEvent, NodeError, State};
use assize_llm::ModelError;
use assize_run::{RoundStatus, RunEvent};
use assize_types::Fingerprint;
use serde_json::{Value, json};

use crate::negotiation::journaled::{AffectedLimit, JournaledSource};
use crate::negotiation::models::RoleModels;
use crate::negotiation::proxy::ModelProxy;
use crate::negotiation::{DebateOutcome, DebateRunner};

/// Result of [`negotiate`].
#[derive(Debug)]
pub(crate) enum DebateResult {
    /// The debate has a verdict, which may be partial.
    Outcome(Box<DebateOutcome>),
    /// The debate has no verdict, because its opening critique failed permanently. Other debates are not affected.
    OpeningFailed(ModelError),
}

/// Runs one debate in a node of a run, and emits the events of the debate.
pub(crate) async fn negotiate<S: State>(
    context: &Context<S>,
    debates: &dyn DebateRunner,
    models: &RoleModels,
    job: &DebateSpec,
    limit: Option<AffectedLimit>,
) -> Result<DebateResult, NodeError> {
    let is_single = limit.is_none();
    let source = Arc::new(JournaledSource::new(context.clone(), models.clone(), job, limit));
    let proxy = Arc::new(ModelProxy::new(source.clone(), job));
    let result = debates.run_debate(job, proxy, context.cancel()).await;
    if let Some(stopped) = source.take_run_error() {
        return Err(stopped);
    }
    if let Some(error) = source.take_opening_error() {
        return Ok(DebateResult::OpeningFailed(error));
    }
    let outcome = result?;
    // In a consultation with several moves, `limit` decides whether the run fails. A single debate without a verdict
    // always fails its run.
    if is_single && let Some(none) = outcome.verdict.no_verdict_reason() {
        return Err(none.into());
    }
    emit(context, job, &outcome).await?;
    Ok(DebateResult::Outcome(Box::new(outcome)))
}

/// Emits the events for the end of the debate. Their journal key is derived from the verdict: a resumed run with the
/// same verdict emits no event twice, and a resumed run with a new verdict emits the new scores.
async fn emit<S: State>(
    context: &Context<S>,
    job: &DebateSpec,
    outcome: &DebateOutcome,
) -> Result<(), NodeError> {
    let DebateOutcome { verdict, not_isolated, remade, .. } = outcome;
    let move_id = &verdict.move_id;
    let warning = |message: String| RunEvent::Warning { move_id: move_id.clone(), message }.into();
    let mut events: Vec<GraphEvent> = (remade.iter())
        .map(|why| {
            warning(format!("the sandbox failed ({why}) and was replaced; no answer was lost"))
        })
        .chain(not_isolated.clone().map(warning))
        .collect();
    for (log, partial) in &verdict.partial {
        let round = RoundEvents { move_id, rounds: job.max_rounds };
        let (number, error) = (partial.completed_rounds + 1, Some(partial.error.clone()));
        events.push(round.event(Some(*log), number, RoundStatus::Failed, error));
    }
    events.push(scored(verdict));
    let end = json!([verdict.total_score, verdict.scores_by_agent, verdict.partial]);
    let key = format!("verdict-{}", &Fingerprint::of(end.to_string().as_bytes()).to_string()[..16]);
    let done = async { Ok::<(), String>(()) };
    match context.effect(&key, || Fingerprint::NONE, done, |()| events).await {
        Ok(()) => Ok(()),
        Err(EffectError::Stop(error)) => Err(error.into()),
        Err(EffectError::Failed(failed)) => {
            Err(NodeError::from(ModelError::new(assize_llm::ErrorKind::Internal, failed.error)))
        }
    }
}

fn scored(verdict: &DebateVerdict) -> GraphEvent {
    let breakdown: serde_json::Map<String, Value> =
        verdict.scores_by_agent.iter().map(|(id, score)| (id.clone(), json!(score.card))).collect();
    let scored = RunEvent::SandboxScored {
        move_id: verdict.move_id.clone(),
        score: verdict.total_score,
        breakdown,
        partial: !verdict.partial.is_empty(),
        neutral: verdict.failed_judges().cloned().collect(),
    };
    scored.into()
}

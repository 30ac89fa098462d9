//! The step of a run that holds one debate.

use std::sync::Arc;

use assize_debate::{Job, Round, Verdict};
use assize_graph::{Context, EffectError, Event, NodeError, State};
use assize_llm::ModelError;
use assize_run::{RoundStatus, RunEvent};
use assize_types::Fingerprint;
use serde_json::{Value, json};

use crate::negotiation::journaled::{AffectedLimit, JournaledSource};
use crate::negotiation::models::Models;
use crate::negotiation::proxy::ModelProxy;
use crate::negotiation::{DebateOutcome, Debates};

/// What a debate came to.
#[derive(Debug)]
pub(crate) enum Negotiated {
    /// To a verdict, partial or not.
    Outcome(Box<DebateOutcome>),
    /// To nothing: the critic's opening failed for good. Other debates can be held all the same.
    Unopened(ModelError),
}

/// Holds one debate in a node of a run, and emits its events.
pub(crate) async fn negotiate<S: State>(
    context: &Context<S>,
    debates: &dyn Debates,
    models: &Models,
    job: &Job,
    limit: Option<AffectedLimit>,
) -> Result<Negotiated, NodeError> {
    let is_single = limit.is_none();
    let source = Arc::new(JournaledSource::new(context.clone(), models.clone(), job, limit));
    let proxy = Arc::new(ModelProxy::new(source.clone(), job));
    let held = debates.hold(job, proxy, context.cancel()).await;
    if let Some(stopped) = source.stopped() {
        return Err(stopped);
    }
    if let Some(error) = source.unopened() {
        return Ok(Negotiated::Unopened(error));
    }
    let outcome = held?;
    // In a run of many moves the limit decides; a debate on its own is all there is.
    if is_single && let Some(none) = outcome.verdict.is_no_verdict() {
        return Err(none.into());
    }
    emit(context, job, &outcome).await?;
    Ok(Negotiated::Outcome(Box::new(outcome)))
}

/// Emits how the debate ended, under a key made of the verdict: a run that is resumed with the same verdict emits
/// nothing twice, and one that got answers where calls had failed before emits the new scores.
async fn emit<S: State>(
    context: &Context<S>,
    job: &Job,
    outcome: &DebateOutcome,
) -> Result<(), NodeError> {
    let DebateOutcome { verdict, not_isolated, remade, .. } = outcome;
    let move_id = &verdict.move_id;
    let warning = |message: String| RunEvent::Warning { move_id: move_id.clone(), message }.into();
    let mut events: Vec<Event> = (remade.iter())
        .map(|why| warning(format!("its sandbox was replaced, and nothing was lost: {why}")))
        .chain(not_isolated.clone().map(warning))
        .collect();
    for (log, partial) in &verdict.partial {
        let round = Round { move_id, rounds: job.max_rounds };
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

fn scored(verdict: &Verdict) -> Event {
    let breakdown: serde_json::Map<String, Value> =
        verdict.scores_by_agent.iter().map(|(id, score)| (id.clone(), json!(score.card))).collect();
    let scored = RunEvent::SandboxScored {
        move_id: verdict.move_id.clone(),
        score: verdict.total_score,
        breakdown,
        partial: !verdict.partial.is_empty(),
        neutral: verdict.unasked().cloned().collect(),
    };
    scored.into()
}

//! Source of model answers in the process that holds the run's lease: calls the models and journals their answers.

use std::sync::{Arc, Mutex, PoisonError};

use assize_debate::{CallPosition, CallPurpose, DebateSpec, RoundEvents};
use assize_graph::{Context, EffectKey, GraphEvent, NodeError, State};
use assize_llm::{ErrorKind, ModelError, ModelRequest, ModelResponse, StopReason};
use assize_run::{JournaledModel, RoundStatus};
use async_trait::async_trait;

use crate::negotiation::affected::AffectedMoves;
use crate::negotiation::models::RoleModels;
use crate::negotiation::proxy::ModelSource;

/// Maximum size of an answer passed to the debate, in bytes.
const MAX_ANSWER: usize = 32 << 10;

/// Calls models for one debate of a run and journals their answers.
///
/// A call that failed permanently is not journaled, so that a resumed run repeats the call. Two kinds of failures are
/// journaled nevertheless, because later prompts of the conversation depend on them: a summary that could not be
/// generated, and a prompt that was too long.
pub(crate) struct JournaledSource<S: State> {
    context: Context<S>,
    models: RoleModels,
    move_id: String,
    rounds: u32,
    /// Stops the run if failed calls affect too many of its moves; `None` for a single debate.
    limit: Option<AffectedLimit>,
    /// Error that ends the whole run, if such an error occurred.
    run_error: Mutex<Option<NodeError>>,
    /// Error of the call for the opening critique, if the call failed.
    opening_error: Mutex<Option<ModelError>>,
}

/// Limit on the number of moves that failed calls can affect before the run ends.
#[derive(Debug, Clone)]
pub(crate) struct AffectedLimit {
    /// Moves that are affected by failed calls so far.
    pub affected: Arc<AffectedMoves>,
    /// Number of moves that were never proposed, because calls of analysts failed.
    pub lost: usize,
    /// Number of all moves: the proposed moves and the `lost` moves.
    pub total: usize,
}

impl<S: State> JournaledSource<S> {
    pub(crate) fn new(
        context: Context<S>,
        models: RoleModels,
        job: &DebateSpec,
        limit: Option<AffectedLimit>,
    ) -> JournaledSource<S> {
        let (move_id, rounds) = (job.move_document.move_id.clone(), job.max_rounds);
        let (run_error, opening_error) = (Mutex::default(), Mutex::default());
        JournaledSource { context, models, move_id, rounds, limit, run_error, opening_error }
    }

    /// Removes and returns the error of the call for the opening critique, if the call failed.
    pub(crate) fn take_opening_error(&self) -> Option<ModelError> {
        self.opening_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Removes and returns the error that ends the run, if such an error occurred.
    pub(crate) fn take_run_error(&self) -> Option<NodeError> {
        self.run_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn end_run(&self, error: NodeError) -> ModelError {
        let mut stopped = self.run_error.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert(error);
        ModelError::new(ErrorKind::Cancelled, "the run has ended")
    }

    /// Event that is recorded with the answer of a call; `None` for scores and summaries.
    fn event(&self, place: CallPosition) -> Option<GraphEvent> {
        let status = match place.purpose {
            CallPurpose::Critic => RoundStatus::CriticResponded,
            CallPurpose::Answer => RoundStatus::DmResponded,
            CallPurpose::Score | CallPurpose::ScoreAgain | CallPurpose::Summary => return None,
        };
        let round = RoundEvents { move_id: &self.move_id, rounds: self.rounds };
        Some(round.event(place.log, place.round?, status, None))
    }
}

#[async_trait]
impl<S: State> ModelSource for JournaledSource<S> {
    async fn answer_call(
        &self,
        key: &str,
        request: &ModelRequest,
    ) -> Result<ModelResponse, ModelError> {
        let place = EffectKey::new(key).ok().and_then(|key| CallPosition::of(&key));
        let Some(place) = place else {
            let message =
                format!("invalid call key `{key}`: it does not belong to a call of a debate");
            return Err(ModelError::new(ErrorKind::Internal, message));
        };
        let model = self.models.of(&role_of(place));
        let tell = move || self.event(place);
        let mut asking = JournaledModel::new(&self.context, &**model, key).with_event(tell);
        if matches!(place.purpose, CallPurpose::Critic | CallPurpose::Answer) {
            // A refusal of the model counts as a failed call here. It is not journaled, so that a resumed run repeats
            // the call.
            asking = asking.refusal_is_failure();
        }
        let error = match asking.request_answer(request).await {
            Err(error) => return Err(self.end_run(error)),
            Ok(Ok(response)) => return Ok(truncate(response)),
            Ok(Err(error)) => error,
        };
        if assize_debate::ends_the_run(&error) {
            let copy = ModelError::new(error.kind(), error.message().to_owned());
            self.end_run(error.into());
            return Err(copy);
        }
        if place.must_journal_failure(&error)
            && let Err(stop) = asking.record_failure().await
        {
            return Err(self.end_run(stop.into()));
        }
        if let Some(AffectedLimit { affected, lost, total }) = &self.limit
            && place.affects_the_verdict(&error)
            && let Err(most) = affected.mark(&self.move_id, (*lost, *total), error.message())
        {
            return Err(self.end_run(most.into()));
        }
        if place.log.is_none() {
            let copy = ModelError::new(error.kind(), error.message().to_owned());
            *self.opening_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return Err(copy);
        }
        Err(error)
    }
}

/// Truncates an answer that exceeds [`MAX_ANSWER`]. Models are asked for much shorter answers, so this is rare.
fn truncate(mut response: ModelResponse) -> ModelResponse {
    if response.text.len() > MAX_ANSWER {
        let end = response.text.floor_char_boundary(MAX_ANSWER);
        response.text.truncate(end);
        response.stop = StopReason::MaxTokens;
    }
    response
}

/// Role that the model plays in a call: the critic or a decision maker.
fn role_of(place: CallPosition) -> String {
    match (place.purpose, place.log) {
        (CallPurpose::Answer | CallPurpose::Score | CallPurpose::ScoreAgain, Some(log)) => {
            log.decision_maker_id()
        }
        _ => "critic".to_owned(),
    }
}

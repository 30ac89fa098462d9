//! Model source of the process that holds the run: calls the models and journals their answers.

use std::sync::{Arc, Mutex, PoisonError};

use assize_debate::{Job, Part, Place, Round};
use assize_graph::{Context, Event, Key, NodeError, State};
use assize_llm::{ErrorKind, ModelError, Request, Response, Stop};
use assize_run::{Asking, RoundStatus};
use async_trait::async_trait;

use crate::negotiation::affected::AffectedMoves;
use crate::negotiation::models::Models;
use crate::negotiation::proxy::ModelSource;

/// The longest answer that is passed on, in bytes.
const LONGEST: usize = 32 << 10;

/// Calls models for one debate of a run and journals what they answer.
///
/// A call that failed for good is not journalled: whether the run comes to its end without it is not known yet, and a
/// run that is resumed makes it again. The two failures that the rest of a conversation is built on are: that a
/// summary could not be had, and that a prompt was too long.
pub(crate) struct JournaledSource<S: State> {
    context: Context<S>,
    models: Models,
    move_id: String,
    rounds: u32,
    /// Stops the run when failed calls affect too many of its moves; a debate on its own has only one.
    limit: Option<AffectedLimit>,
    /// Why the run is over, if it is.
    stopped: Mutex<Option<NodeError>>,
    /// Why the critic could not open the debate, if so.
    unopened: Mutex<Option<ModelError>>,
}

/// The moves that failed calls have affected, with how many were never proposed and how many there are.
#[derive(Debug, Clone)]
pub(crate) struct AffectedLimit {
    pub affected: Arc<AffectedMoves>,
    pub lost: usize,
    pub total: usize,
}

impl<S: State> JournaledSource<S> {
    pub(crate) fn new(
        context: Context<S>,
        models: Models,
        job: &Job,
        limit: Option<AffectedLimit>,
    ) -> JournaledSource<S> {
        let (move_id, rounds) = (job.move_document.move_id.clone(), job.max_rounds);
        let (stopped, unopened) = (Mutex::default(), Mutex::default());
        JournaledSource { context, models, move_id, rounds, limit, stopped, unopened }
    }

    /// Why the critic could not open the debate, if so.
    pub(crate) fn unopened(&self) -> Option<ModelError> {
        self.unopened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Why the run is over, if it is.
    pub(crate) fn stopped(&self) -> Option<NodeError> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn stop(&self, error: NodeError) -> ModelError {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.get_or_insert(error);
        ModelError::new(ErrorKind::Cancelled, "the run is over")
    }

    /// The event that goes with an answer.
    fn event(&self, place: Place) -> Option<Event> {
        let status = match place.part {
            Part::Critic => RoundStatus::CriticResponded,
            Part::Answer => RoundStatus::DmResponded,
            Part::Score | Part::ScoreAgain | Part::Summary => return None,
        };
        let round = Round { move_id: &self.move_id, rounds: self.rounds };
        Some(round.event(place.log, place.round?, status, None))
    }
}

#[async_trait]
impl<S: State> ModelSource for JournaledSource<S> {
    async fn ask(&self, key: &str, request: &Request) -> Result<Response, ModelError> {
        let place = Key::new(key).ok().and_then(|key| Place::of(&key));
        let Some(place) = place else {
            let message = format!("`{key}` is no call of a debate");
            return Err(ModelError::new(ErrorKind::Internal, message));
        };
        let model = self.models.of(&role_of(place));
        let tell = move || self.event(place);
        let mut asking = Asking::new(&self.context, &**model, key).telling(tell);
        if matches!(place.part, Part::Critic | Part::Answer) {
            // A refusal is no contribution to a debate: like any failure it is asked again after a resume.
            asking = asking.insisting();
        }
        let error = match asking.answer(request).await {
            Err(error) => return Err(self.stop(error)),
            Ok(Ok(response)) => return Ok(cut(response)),
            Ok(Err(error)) => error,
        };
        if assize_debate::ends_the_run(&error) {
            let passed_on = ModelError::new(error.kind(), error.message().to_owned());
            self.stop(error.into());
            return Err(passed_on);
        }
        if place.is_built_upon(&error)
            && let Err(stop) = asking.go_on().await
        {
            return Err(self.stop(stop.into()));
        }
        if let Some(AffectedLimit { affected, lost, total }) = &self.limit
            && place.affects_the_verdict(&error)
            && let Err(most) = affected.mark(&self.move_id, (*lost, *total), error.message())
        {
            return Err(self.stop(most.into()));
        }
        if place.log.is_none() {
            let passed_on = ModelError::new(error.kind(), error.message().to_owned());
            *self.unopened.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return Err(passed_on);
        }
        Err(error)
    }
}

/// Cuts an answer that is many times what was asked for.
fn cut(mut response: Response) -> Response {
    if response.text.len() > LONGEST {
        let end = response.text.floor_char_boundary(LONGEST);
        response.text.truncate(end);
        response.stop = Stop::MaxTokens;
    }
    response
}

/// The role that speaks at this place.
fn role_of(place: Place) -> String {
    match (place.part, place.log) {
        (Part::Answer | Part::Score | Part::ScoreAgain, Some(log)) => log.maker(),
        _ => "critic".to_owned(),
    }
}

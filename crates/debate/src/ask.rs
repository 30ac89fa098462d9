//! Calls to the model, each of them an effect of the run: made once, and answered from the journal
//! ever after.

use std::sync::{Mutex, MutexGuard, PoisonError};

use assize_graph::{Context, EffectError, Event, FailedEffect, NodeError, RunError};
use assize_llm::{
    Answer, AnswerError, Call, ErrorKind, JsonAsk, Model, ModelError, ModelExt, Request, Response,
    Stop,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::nodes::declined;
use crate::score::ScoreCard;
use crate::state::{DebateState, LogName, Spent};

/// A call that got no answer, as it is written down.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CallFailure {
    kind: ErrorKind,
    message: String,
}

/// Something that has happened in a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// In this conversation, or in all.
    pub(crate) log: Option<LogName>,
    pub(crate) round: u32,
    pub(crate) status: &'static str,
}

impl Told {
    pub(crate) fn event(self, state: &DebateState) -> Event {
        let Told { log, round, status } = self;
        let move_id = &state.move_document().move_id;
        let mut payload = json!({"move": move_id, "round": round, "status": status});
        if let Some(log) = log {
            payload["log"] = json!(log);
        }
        Event::new("sandbox_round", payload)
    }
}

/// A model as one turn of the debate sees it.
pub(crate) struct Asking<'a> {
    context: &'a Context<DebateState>,
    model: &'a dyn Model,
    key: String,
    /// What is told once the first answer is there.
    told: Option<Told>,
    /// Whether a model that declines has failed, so that it can be asked again.
    insists: bool,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    calls: u32,
    spent: Spent,
    /// The run is over; a model has no words for that.
    stop: Option<RunError>,
    /// The last call failed, and nobody has decided yet what that means.
    failed: Option<FailedEffect<CallFailure>>,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        context: &'a Context<DebateState>,
        model: &'a dyn Model,
        key: String,
        told: Option<Told>,
    ) -> Asking<'a> {
        Asking { context, model, key, told, insists: false, held: Mutex::default() }
    }

    pub(crate) fn context(&self) -> &'a Context<DebateState> {
        self.context
    }

    /// Takes no refusal for an answer.
    pub(crate) fn insisting(mut self) -> Self {
        self.insists = true;
        self
    }

    /// Asks for one answer. The inner failure is one that the debate may go on from.
    pub(crate) async fn answer(
        &self,
        request: &Request,
    ) -> Result<Result<Response, ModelError>, NodeError> {
        let answer = self.generate(request, self.call()).await;
        self.still_going()?;
        Ok(answer)
    }

    /// Asks for scores, and looks for them in whatever is answered.
    pub(crate) async fn scores(
        &self,
        request: Request,
    ) -> Result<Result<Answer<ScoreCard>, AnswerError>, NodeError> {
        let reader = ScoreCard::reader().ok_or(AnswerError::Schema)?;
        let ask = JsonAsk::new(request)
            .read_by(reader)
            .extract(&ScoreCard::find)
            .or_default(ScoreCard::neutral());
        let answer = self.generate_json(ask, self.call()).await;
        self.still_going()?;
        Ok(answer)
    }

    fn call(&self) -> Call<'a> {
        Call { cancel: self.context.cancel().clone(), on_delta: None }
    }

    /// Goes on although the last call failed, which is written down.
    pub(crate) async fn go_on(&self) -> Result<(), RunError> {
        let failed = self.held().failed.take();
        if let Some(failed) = failed {
            self.context.go_on(failed).await?;
        }
        Ok(())
    }

    /// Whether the run was over in the middle of it.
    fn still_going(&self) -> Result<(), NodeError> {
        match self.held().stop.take() {
            Some(error) => Err(NodeError::Stop(error)),
            None => Ok(()),
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        self.held().spent
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Model for Asking<'_> {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        let (key, told) = {
            let mut held = self.held();
            held.calls += 1;
            match held.calls {
                1 => (self.key.clone(), self.told),
                number => (format!("{}-{number}", self.key), None),
            }
        };
        let mut original = None;
        let asked = async {
            let answer = match self.model.generate(request, call).await {
                Ok(response) if self.insists && response.stop == Stop::Refused => Err(declined()),
                answer => answer,
            };
            answer.map_err(|error| {
                let failure =
                    CallFailure { kind: error.kind(), message: error.message().to_owned() };
                original = Some(error);
                failure
            })
        };
        let event = |told: Told| told.event(self.context.state());
        let tell = |_: &Response| told.map(event).into_iter().collect();
        let outcome = self.context.effect(&key, || request.fingerprint(), asked, tell).await;
        let mut held = self.held();
        match outcome {
            Ok(response) => {
                held.spent.add(&response);
                Ok(response)
            }
            Err(EffectError::Failed(failed)) => {
                let CallFailure { kind, message } = failed.error.clone();
                held.failed = Some(failed);
                Err(original.unwrap_or_else(|| ModelError::new(kind, message)))
            }
            Err(EffectError::Stop(error)) => {
                held.stop = Some(error);
                Err(ModelError::new(ErrorKind::Cancelled, "the run is over"))
            }
        }
    }
}

//! One question to the model that the settings ask for.

use assize_gateway::{Estimate, Gateway};
use assize_llm::answer::generate_value;
use assize_llm::{
    AnswerError, Call, Model, Prompt, Provenance, Request, Response, Schema, Stop, Totals,
};
use assize_types::{Cancel, Cost, Failure, FailureKind, Usage, trail};
use serde_json::Value;

use crate::Services;

pub use assize_llm::Delta;

/// A question, as a user asks it.
#[derive(Debug)]
pub struct Question {
    pub text: String,
    /// What the model is told before it.
    pub system: Option<String>,
    /// The schema of the answer, with its name.
    pub schema: Option<(String, Value)>,
}

/// A question that is ready to be sent.
#[derive(Debug)]
pub struct PreparedQuestion {
    gateway: Gateway,
    request: Request,
}

/// The answer to a question.
#[derive(Debug)]
pub struct Answered {
    /// The value, where a schema was given.
    pub value: Option<(Value, Provenance)>,
    pub last: Response,
    /// Of all calls that it took.
    pub usage: Option<Usage>,
    pub cost: Cost,
    pub calls: usize,
    pub attempts: u32,
    pub milliseconds: u64,
}

impl Services {
    /// Chooses the model for a question.
    pub async fn prepare(&self, question: Question) -> Result<PreparedQuestion, Failure> {
        if question.text.trim().is_empty() {
            return Err(Failure::new(FailureKind::Usage, "the question is empty"));
        }
        let mut prompt = Prompt::question(question.text);
        if let Some(system) = &question.system {
            prompt = prompt.block("system", system.as_str());
        }
        let mut request = Request::new(prompt);
        if let Some((name, value)) = question.schema {
            let schema = Schema::from_value(&name, value);
            let invalid = |error| Failure::from_error(FailureKind::Usage, &error);
            request.schema = Some(schema.map_err(invalid)?);
        }
        request.temperature = *self.settings.general.temperature as f32;
        request.max_tokens = *self.settings.general.max_output_tokens;
        let gateway = self.providers().gateway_of_no_run().await?;
        Ok(PreparedQuestion { gateway, request })
    }
}

impl PreparedQuestion {
    /// The provider and the model.
    pub fn name(&self) -> (&str, &str) {
        self.gateway.name()
    }

    pub fn is_rehearsal(&self) -> bool {
        self.gateway.is_rehearsal()
    }

    /// What was spent on it.
    pub fn totals(&self) -> Totals {
        self.gateway.ledger().totals()
    }

    /// What it is likely to take.
    pub fn estimate(&self) -> Option<Estimate> {
        self.gateway.estimate(&self.request)
    }

    /// Refuses to call an estimate complete that has no cost.
    pub fn check_price(&self, cost: Cost) -> Result<(), Failure> {
        self.gateway.check_price(cost)
    }

    /// Sends it; `on_delta` is told the answer as it comes.
    pub async fn send(
        &self,
        on_delta: Option<&(dyn Fn(Delta<'_>) + Send + Sync)>,
        cancel: Cancel,
    ) -> Result<Answered, Failure> {
        trail::workflow_started(&self.request.prompt.tail, self.name().0);
        let outcome = self.answers(on_delta, cancel).await;
        let answered = match outcome {
            Ok((value, responses)) => Answered::of(value, responses),
            Err(error) => {
                let sent = error.model_error().map_or(0, |error| error.attempts);
                let attempts = Response::total_attempts(error.responses()) + sent;
                trail::workflow_completed(false, attempts);
                return Err(error.into());
            }
        }?;
        trail::workflow_completed(self.check(&answered).is_ok(), answered.attempts);
        Ok(answered)
    }

    async fn answers(
        &self,
        on_delta: Option<&(dyn Fn(Delta<'_>) + Send + Sync)>,
        cancel: Cancel,
    ) -> Result<(Option<(Value, Provenance)>, Vec<Response>), AnswerError> {
        if self.request.schema.is_some() {
            let call = Call { cancel, ..Call::default() };
            let answer = generate_value(&self.gateway, &self.request, call).await?;
            return Ok((Some((answer.value, answer.provenance)), answer.responses));
        }
        let call = Call { cancel, on_delta, ..Call::default() };
        Ok((None, vec![self.gateway.generate(&self.request, call).await?]))
    }

    /// Refuses what is no answer: the model declined, or was cut off.
    pub fn check(&self, answered: &Answered) -> Result<(), Failure> {
        match answered.last.stop {
            Stop::Refused => {
                Err(Failure::new(FailureKind::Verdict, "the model declined to answer"))
            }
            Stop::MaxTokens if answered.value.is_none() => {
                let most = self.request.max_tokens;
                let message = format!("the answer was cut off at {most} output tokens");
                Err(Failure::new(FailureKind::Verdict, message)
                    .hint("allow longer answers with `--max-output-tokens`"))
            }
            _ => Ok(()),
        }
    }
}

impl Answered {
    fn of(
        value: Option<(Value, Provenance)>,
        mut responses: Vec<Response>,
    ) -> Result<Answered, Failure> {
        let (usage, cost) = (Response::total_usage(&responses), Response::total_cost(&responses));
        let attempts = Response::total_attempts(&responses);
        let milliseconds = Response::total_milliseconds(&responses);
        let calls = responses.len();
        let lost = || Failure::new(FailureKind::Internal, "no response was kept");
        let last = responses.pop().ok_or_else(lost)?;
        Ok(Answered { value, last, usage, cost, calls, attempts, milliseconds })
    }
}

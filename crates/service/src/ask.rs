//! Sends one question to the configured model, for the command `assize ask`.

use assize_gateway::{Estimate, Gateway};
use assize_llm::answer::generate_value;
use assize_llm::{
    AnswerError, BudgetTotals, CallOptions, Model, ModelRequest, ModelResponse, Prompt, Provenance,
    Schema, StopReason,
};
use assize_types::{Cancel, Cost, Failure, FailureKind, Usage, workflow_log};
use serde_json::Value;

use crate::Services;

pub use assize_llm::Delta;

/// A user's question to the model.
#[derive(Debug)]
pub struct Question {
    pub text: String,
    /// System prompt of the request.
    pub system: Option<String>,
    /// JSON schema that the answer must match, after its name; `None` for an answer in plain text.
    pub schema: Option<(String, Value)>,
}

/// A question that is ready to be sent, with the gateway to the model that answers it.
#[derive(Debug)]
pub struct PreparedQuestion {
    gateway: Gateway,
    request: ModelRequest,
}

/// The model's answer to a question, with the usage of the calls that were needed.
#[derive(Debug)]
pub struct AskAnswer {
    /// Answer as a JSON value, and how the value was obtained; `None` if the question has no schema.
    pub value: Option<(Value, Provenance)>,
    /// Response to the last model call.
    pub last: ModelResponse,
    /// Token usage of all model calls together.
    pub usage: Option<Usage>,
    /// Cost of all model calls together.
    pub cost: Cost,
    pub calls: usize,
    pub attempts: u32,
    pub milliseconds: u64,
}

impl Services {
    /// Chooses the model for a question and builds the request.
    pub async fn prepare(&self, question: Question) -> Result<PreparedQuestion, Failure> {
        if question.text.trim().is_empty() {
            return Err(Failure::new(FailureKind::Usage, "the question is empty"));
        }
        let mut prompt = Prompt::question(question.text);
        if let Some(system) = &question.system {
            prompt = prompt.block("system", system.as_str());
        }
        let mut request = ModelRequest::new(prompt);
        if let Some((name, value)) = question.schema {
            let schema = Schema::from_value(&name, value);
            let invalid = |error| Failure::from_error(FailureKind::Usage, &error);
            request.schema = Some(schema.map_err(invalid)?);
        }
        request.temperature = *self.settings.general.temperature as f32;
        request.max_tokens = *self.settings.general.max_output_tokens;
        let gateway = self.providers().gateway_outside_runs().await?;
        Ok(PreparedQuestion { gateway, request })
    }
}

impl PreparedQuestion {
    /// Names of the provider and the model.
    pub fn name(&self) -> (&str, &str) {
        self.gateway.name()
    }

    pub fn is_rehearsal(&self) -> bool {
        self.gateway.is_rehearsal()
    }

    /// Total usage and cost of the model calls made for this question so far.
    pub fn totals(&self) -> BudgetTotals {
        self.gateway.ledger().totals()
    }

    /// Estimated number of tokens and cost of the request; `None` if the answer is replayed from a cassette.
    pub fn estimate(&self) -> Option<Estimate> {
        self.gateway.estimate(&self.request)
    }

    /// Fails if the price of the model is not known.
    pub fn check_price(&self) -> Result<(), Failure> {
        self.gateway.check_price()
    }

    /// Sends the question. `on_delta` receives the answer as it is streamed.
    pub async fn send(
        &self,
        on_delta: Option<&(dyn Fn(Delta<'_>) + Send + Sync)>,
        cancel: Cancel,
    ) -> Result<AskAnswer, Failure> {
        workflow_log::workflow_started(&self.request.prompt.tail, self.name().0);
        let outcome = self.answers(on_delta, cancel).await;
        let answered = match outcome {
            Ok((value, responses)) => AskAnswer::of(value, responses),
            Err(error) => {
                let sent = error.model_error().map_or(0, |error| error.attempts);
                let attempts = ModelResponse::total_attempts(error.responses()) + sent;
                workflow_log::workflow_completed(false, attempts);
                return Err(error.into());
            }
        }?;
        workflow_log::workflow_completed(self.check(&answered).is_ok(), answered.attempts);
        Ok(answered)
    }

    async fn answers(
        &self,
        on_delta: Option<&(dyn Fn(Delta<'_>) + Send + Sync)>,
        cancel: Cancel,
    ) -> Result<(Option<(Value, Provenance)>, Vec<ModelResponse>), AnswerError> {
        if self.request.schema.is_some() {
            let call = CallOptions { cancel, ..CallOptions::default() };
            let answer = generate_value(&self.gateway, &self.request, call).await?;
            return Ok((Some((answer.value, answer.provenance)), answer.responses));
        }
        let call = CallOptions { cancel, on_delta, ..CallOptions::default() };
        Ok((None, vec![self.gateway.generate(&self.request, call).await?]))
    }

    /// Fails if the model refused to answer, or if the answer was truncated.
    pub fn check(&self, answered: &AskAnswer) -> Result<(), Failure> {
        match answered.last.stop {
            StopReason::Refused => {
                Err(Failure::new(FailureKind::Verdict, "the model declined to answer"))
            }
            StopReason::MaxTokens if answered.value.is_none() => {
                let max = self.request.max_tokens;
                let message = format!("the answer was cut off at {max} output tokens");
                Err(Failure::new(FailureKind::Verdict, message)
                    .hint("allow longer answers with `--max-output-tokens`"))
            }
            _ => Ok(()),
        }
    }
}

impl AskAnswer {
    fn of(
        value: Option<(Value, Provenance)>,
        mut responses: Vec<ModelResponse>,
    ) -> Result<AskAnswer, Failure> {
        let (usage, cost) =
            (ModelResponse::total_usage(&responses), ModelResponse::total_cost(&responses));
        let attempts = ModelResponse::total_attempts(&responses);
        let milliseconds = ModelResponse::total_milliseconds(&responses);
        let calls = responses.len();
        let missing = || {
            let message = "the question was answered, but the list of model responses is empty";
            Failure::new(FailureKind::Internal, message)
        };
        let last = responses.pop().ok_or_else(missing)?;
        Ok(AskAnswer { value, last, usage, cost, calls, attempts, milliseconds })
    }
}

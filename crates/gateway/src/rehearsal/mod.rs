//! The rehearsal model: a deterministic offline replacement for a model. Equal requests receive equal answers.
//!
//! With the rehearsal model, every feature can be used and tested without an API key. Its answers match the requested
//! schema but have no meaning. All output that contains such answers is labelled.

mod prose;
mod schema_value;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use assize_config::Price;
use assize_llm::{ErrorKind, ModelError, ModelRequest, StopReason, ToolCall, TranscriptTurn};
use assize_types::Usage;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;

use crate::adapter::{EncodeOptions, EncodedRequest, ProviderReply};
use crate::catalog::ModelFacts;
use crate::estimate;
use crate::transport::{SendOptions, Transport};

/// Parameters of the rehearsal model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rehearsal {
    /// Seed of the generated answers.
    pub seed: u64,
    /// Simulated duration of each call.
    pub latency: Duration,
    /// Share of attempts that fail with a simulated fault, from 0 to 1.
    pub fault_rate: f64,
}

/// A prepared answer of the rehearsal model: text and tool calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreparedAnswer {
    pub text: String,
    /// Tool calls: name of the tool and its arguments.
    pub calls: Vec<(String, Value)>,
}

impl From<String> for PreparedAnswer {
    fn from(text: String) -> PreparedAnswer {
        PreparedAnswer { text, calls: Vec::new() }
    }
}

/// Function that returns the prepared answer or error for a request. If it returns `None`, the rehearsal model
/// generates an answer.
pub type PreparedAnswers =
    Arc<dyn Fn(&ModelRequest) -> Option<Result<PreparedAnswer, ModelError>> + Send + Sync>;

pub(crate) struct RehearsalTransport {
    rehearsal: Rehearsal,
    prepared_answers: Option<PreparedAnswers>,
    /// Model name. It contains the seed unless the seed is 0, because the answers depend on the seed.
    name: String,
    facts: ModelFacts,
    /// Number of times that each request was sent, by the seed of the request. The simulated faults depend on this
    /// number, so that a retry can succeed.
    sent: Mutex<HashMap<u64, u64>>,
}

impl std::fmt::Debug for RehearsalTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RehearsalWire").field("rehearsal", &self.rehearsal).finish_non_exhaustive()
    }
}

impl RehearsalTransport {
    pub(crate) fn new(
        rehearsal: Rehearsal,
        price: Option<Price>,
        prepared_answers: Option<PreparedAnswers>,
    ) -> RehearsalTransport {
        let facts = ModelFacts {
            price: price.or(Some(Price::FREE)),
            context_window: 200_000,
            temperature: true,
            native_schema: true,
            tools_need_no_reasoning: false,
            local: false,
        };
        let name = match rehearsal.seed {
            0 => "rehearsal".to_owned(),
            seed => format!("rehearsal-{seed}"),
        };
        RehearsalTransport { rehearsal, prepared_answers, name, facts, sent: Mutex::default() }
    }

    /// Decides pseudo-randomly whether this attempt fails. Returns the simulated fault, or `None` if it does not fail.
    fn fault(&self, seed: u64) -> Option<ModelError> {
        let attempt = {
            let mut sent = self.sent.lock();
            let count = sent.entry(seed).or_default();
            *count += 1;
            *count
        };
        let mut dice = fastrand::Rng::with_seed(seed ^ attempt.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if dice.f64() >= self.rehearsal.fault_rate {
            return None;
        }
        let kinds = [
            ErrorKind::Overloaded,
            ErrorKind::RateLimited,
            ErrorKind::Connection,
            ErrorKind::Server,
        ];
        let kind = kinds[dice.usize(..kinds.len())];
        Some(ModelError::new(kind, "rehearsal: a simulated fault"))
    }

    fn reply(&self, request: &ModelRequest, seed: u64) -> Result<ProviderReply, ModelError> {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut tool_calls = Vec::new();
        let mut text = String::new();
        let has_result =
            request.prompt.transcript.iter().any(|turn| matches!(turn, TranscriptTurn::Tool(_)));
        let unfit = |reason: String| {
            ModelError::new(
                ErrorKind::BadRequest,
                format!("the rehearsal model cannot answer: {reason}"),
            )
            .with_hint("simplify the schema, or use a real model with `--provider`")
        };
        let prepared = self.prepared_answers.as_ref().and_then(|script| script(request));
        if let Some(prepared) = prepared {
            let PreparedAnswer { text: prepared_text, calls } = prepared?;
            text = prepared_text;
            tool_calls = calls.into_iter().enumerate().map(tool_call).collect();
        } else if let (Some(tool), false) = (request.tools.first(), has_result) {
            let arguments = schema_value::fill(&tool.parameters, &mut dice).map_err(unfit)?;
            tool_calls.push(tool_call((0, (tool.name.clone(), arguments))));
        } else if let Some(schema) = &request.schema {
            text = schema_value::fill(&schema.value, &mut dice).map_err(unfit)?.to_string();
        } else {
            text = prose::answer(&request.prompt, &mut dice);
        }
        let input = estimate::likely_input_tokens(request);
        let output = estimate::likely_tokens(text.len() as u64).max(1);
        Ok(ProviderReply {
            stop: if tool_calls.is_empty() { StopReason::End } else { StopReason::ToolUse },
            text,
            tool_calls,
            usage: Some(Usage { input, output, ..Usage::default() }),
            ..ProviderReply::default()
        })
    }
}

fn tool_call((index, (name, arguments)): (usize, (String, Value))) -> ToolCall {
    ToolCall { id: format!("call_{index}"), name, arguments, signature: None }
}

#[async_trait]
impl Transport for RehearsalTransport {
    fn provider(&self) -> &str {
        "rehearsal"
    }

    fn model(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn is_rehearsal(&self) -> bool {
        true
    }

    fn encode(
        &self,
        request: &ModelRequest,
        _: EncodeOptions,
    ) -> Result<EncodedRequest, ModelError> {
        Ok(EncodedRequest {
            path: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            schema_enforced: request.schema.is_some(),
        })
    }

    async fn send(
        &self,
        _: &EncodedRequest,
        request: &ModelRequest,
        sending: SendOptions<'_>,
    ) -> Result<ProviderReply, ModelError> {
        let seed = request.fingerprint().seed() ^ self.rehearsal.seed.rotate_left(32);
        let Rehearsal { latency, fault_rate, .. } = self.rehearsal;
        let fault = if fault_rate > 0.0 { self.fault(seed) } else { None };
        let reply = self.reply(request, seed)?;
        let words: Vec<&str> = match sending.on_text {
            Some(_) => reply.text.split_inclusive(' ').collect(),
            None => vec![&reply.text],
        };
        // A simulated fault occurs after half of the answer was streamed.
        let sent = if fault.is_some() { words.len() / 2 } else { words.len() };
        for word in &words[..sent] {
            if !latency.is_zero() {
                tokio::time::sleep(latency / words.len() as u32).await;
            }
            if let Some(on_text) = sending.on_text {
                on_text(word);
            }
        }
        match fault {
            Some(fault) => Err(fault),
            None => Ok(reply),
        }
    }
}

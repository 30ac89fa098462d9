//! The rehearsal model: no model at all, offline, the same answer to the same request every time.
//!
//! It is there so that every flow can be shown, tried and tested without a key. Its answers have
//! the asked shape and no meaning, and everything that shows one says so.

mod prose;
mod shape;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use assize_config::Price;
use assize_llm::{ErrorKind, ModelError, Request, Stop, ToolCall, Turn};
use assize_types::Usage;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;

use crate::catalog::ModelFacts;
use crate::dialect::{Encoded, Manner, Reply};
use crate::estimate;
use crate::wire::{Sending, Wire};

/// How the rehearsal model behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rehearsal {
    /// Another seed gives other answers.
    pub seed: u64,
    /// How long each answer takes.
    pub latency: Duration,
    /// Which share of the attempts fails, from 0 to 1.
    pub fault_rate: f64,
}

/// An answer that is known by heart: words, and tools that are called.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recital {
    pub text: String,
    /// The names of tools, with their arguments.
    pub calls: Vec<(String, Value)>,
}

impl From<String> for Recital {
    fn from(text: String) -> Recital {
        Recital { text, calls: Vec::new() }
    }
}

/// Answers that are known by heart, or why there is none; `None` for what is not.
pub type Script = Arc<dyn Fn(&Request) -> Option<Result<Recital, ModelError>> + Send + Sync>;

pub(crate) struct RehearsalWire {
    rehearsal: Rehearsal,
    script: Option<Script>,
    /// With the seed, if there is one: other answers, another model.
    name: String,
    facts: ModelFacts,
    /// How often each request was sent, so that a repetition has another fate.
    sent: Mutex<HashMap<u64, u64>>,
}

impl std::fmt::Debug for RehearsalWire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RehearsalWire").field("rehearsal", &self.rehearsal).finish_non_exhaustive()
    }
}

impl RehearsalWire {
    pub(crate) fn new(
        rehearsal: Rehearsal,
        price: Option<Price>,
        script: Option<Script>,
    ) -> RehearsalWire {
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
        RehearsalWire { rehearsal, script, name, facts, sent: Mutex::default() }
    }

    /// The fault that befalls this attempt, if any.
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

    fn reply(&self, request: &Request, seed: u64) -> Result<Reply, ModelError> {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut tool_calls = Vec::new();
        let mut text = String::new();
        let answered = request.prompt.transcript.iter().any(|turn| matches!(turn, Turn::Tool(_)));
        let unfit = |reason: String| {
            ModelError::new(
                ErrorKind::BadRequest,
                format!("the rehearsal model cannot answer: {reason}"),
            )
            .with_hint("simplify the schema, or ask a real model with `--provider`")
        };
        let known = self.script.as_ref().and_then(|script| script(request));
        if let Some(known) = known {
            let Recital { text: words, calls } = known?;
            text = words;
            tool_calls = calls.into_iter().enumerate().map(called).collect();
        } else if let (Some(tool), false) = (request.tools.first(), answered) {
            let arguments = shape::fill(&tool.parameters, &mut dice).map_err(unfit)?;
            tool_calls.push(called((0, (tool.name.clone(), arguments))));
        } else if let Some(schema) = &request.schema {
            text = shape::fill(&schema.value, &mut dice).map_err(unfit)?.to_string();
        } else {
            text = prose::answer(&request.prompt, &mut dice);
        }
        let input = estimate::likely_input_tokens(request);
        let output = estimate::likely_tokens(text.len() as u64).max(1);
        Ok(Reply {
            stop: if tool_calls.is_empty() { Stop::End } else { Stop::ToolUse },
            text,
            tool_calls,
            usage: Some(Usage { input, output, ..Usage::default() }),
            ..Reply::default()
        })
    }
}

fn called((index, (name, arguments)): (usize, (String, Value))) -> ToolCall {
    ToolCall { id: format!("call_{index}"), name, arguments, signature: None }
}

#[async_trait]
impl Wire for RehearsalWire {
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

    fn encode(&self, request: &Request, _: Manner) -> Result<Encoded, ModelError> {
        Ok(Encoded {
            path: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            schema_enforced: request.schema.is_some(),
        })
    }

    async fn send(
        &self,
        _: &Encoded,
        request: &Request,
        sending: Sending<'_>,
    ) -> Result<Reply, ModelError> {
        let seed = request.fingerprint().seed() ^ self.rehearsal.seed.rotate_left(32);
        let Rehearsal { latency, fault_rate, .. } = self.rehearsal;
        let fault = if fault_rate > 0.0 { self.fault(seed) } else { None };
        let reply = self.reply(request, seed)?;
        let words: Vec<&str> = match sending.on_text {
            Some(_) => reply.text.split_inclusive(' ').collect(),
            None => vec![&reply.text],
        };
        // A fault comes in the middle of the answer, as it does in life.
        let heard = if fault.is_some() { words.len() / 2 } else { words.len() };
        for word in &words[..heard] {
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

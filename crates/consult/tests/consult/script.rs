//! Scripted model that plays every role and records its calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_consult::{ConsultContext, ConsultPersonas, RoleModels};
use assize_llm::{CallOptions, Model, ModelError, ModelRequest, ModelResponse, StopReason};
use assize_types::{Cost, Money, Usage};
use async_trait::async_trait;
use serde_json::{Value, json};

/// Purpose of a call, recognized from its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Synthesis,
    Inference(&'static str),
    /// Proposal of moves: index of the analyst, and whether the request is repeated.
    Proposal(usize, bool),
    /// Entry in a debate: role and move id.
    Speech(String, String),
    /// Scores of a debate: judge and move id.
    Score(String, String),
}

/// A call that the scripted model received.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) part: Part,
    pub(crate) key: String,
    pub(crate) request: ModelRequest,
}

type Lines = dyn Fn(&Asked) -> Option<Result<String, ModelError>> + Send + Sync;

pub(crate) struct Script {
    /// Function that returns the answer to a call, or `None` for the usual answer.
    lines: Box<Lines>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    delay: fn(usize) -> Duration,
}

impl Script {
    pub(crate) fn usual() -> Arc<Script> {
        Script::saying(|_| None)
    }

    pub(crate) fn saying(
        lines: impl Fn(&Asked) -> Option<Result<String, ModelError>> + Send + Sync + 'static,
    ) -> Arc<Script> {
        Script::slow(|_| Duration::ZERO, lines)
    }

    pub(crate) fn slow(
        delay: fn(usize) -> Duration,
        lines: impl Fn(&Asked) -> Option<Result<String, ModelError>> + Send + Sync + 'static,
    ) -> Arc<Script> {
        Arc::new(Script { lines: Box::new(lines), asked: Mutex::default(), delay })
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn recognize(request: &ModelRequest) -> Part {
    let prompt = &request.prompt;
    let tail = prompt.tail.as_str();
    let personas = ConsultPersonas::default();
    let analyst = |text: &str| {
        personas
            .analysts
            .iter()
            .position(|one| text.starts_with(&format!("You are the {}.", one.name)))
    };
    let of_move = || {
        let block = prompt.blocks.iter().find(|block| block.name == "move").unwrap();
        let head = block.text.split_once("The move, ").unwrap().1;
        head.split_once(',').unwrap().0.to_owned()
    };
    let first = prompt
        .transcript
        .first()
        .map(|turn| json!(turn)["text"].as_str().unwrap_or_default().to_owned());
    if tail.starts_with("No data is at hand") {
        return Part::Synthesis;
    }
    // The transcript of a repeated request contains the first request.
    let question = first.as_deref().unwrap_or(tail);
    for (persona, name) in [(&personas.financial, "F1"), (&personas.trend, "F2")] {
        if tail.starts_with(persona) || question.starts_with(persona) {
            return Part::Inference(name);
        }
    }
    if let Some(index) = analyst(tail) {
        return Part::Proposal(index, false);
    }
    if let Some(index) = first.as_deref().and_then(analyst) {
        return Part::Proposal(index, true);
    }
    // The transcript of a repeated request contains the first request.
    let before = prompt.transcript.iter().rev().nth(1).map(|turn| json!(turn)["text"].to_string());
    let is = |id: &&str| {
        let mark = format!("You are {id},");
        let asked_before =
            before.as_ref().is_some_and(|text| text.starts_with(&format!("\"{mark}")));
        tail.starts_with(&mark) || asked_before
    };
    let who = ["D1", "D2", "D3"].into_iter().find(is);
    let who = who.unwrap_or("critic").to_owned();
    match request.schema {
        Some(_) => Part::Score(who, of_move()),
        None => Part::Speech(who, of_move()),
    }
}

/// Usual answer of the scripted model to a call.
pub(crate) fn usual(part: &Part) -> String {
    match part {
        Part::Synthesis => "Revenue grew 25 % to $1.3 billion.".to_owned(),
        Part::Inference(name) => json!({
            "summary": format!("Summary of {name}."),
            "findings": (1..=3).map(|number| json!({
                "title": format!("Finding {number}"),
                "statement": "Revenue grew 25 %.",
                "evidence": ["revenue growth 25 %, year to 2022-12-31"],
            })).collect::<Vec<_>>(),
        })
        .to_string(),
        Part::Proposal(analyst, _) => proposal(*analyst, 3),
        Part::Speech(who, of) => format!("{who} speaks about {of}."),
        Part::Score(who, of) => {
            // The scores differ by move and slightly by judge.
            let number: u32 = of.trim_start_matches('m').parse().unwrap();
            let judge: u32 = who.trim_start_matches('D').parse().unwrap();
            json!({
                "reasoning": format!("{who} on {of}."),
                "impact": 1 + number % 10,
                "feasibility": 1 + (number * 3 + judge) % 10,
                "risk_adjusted_return": 1 + (number * 7) % 10,
                "strategic_alignment": 5,
            })
            .to_string()
        }
    }
}

pub(crate) fn proposal(analyst: usize, count: usize) -> String {
    let one = |number: usize| -> Value {
        json!({
            "title": format!("Move {number} of analyst {}", analyst + 1),
            "thesis": "Growth of 25 % allows it.",
            "actions": ["Begin"],
            "cost": "5 million USD",
            "timeline": "a year",
            "risks": ["It fails"],
            "citations": ["F1.1", "F2.3"],
        })
    };
    json!({"moves": (1..=count).map(one).collect::<Vec<_>>()}).to_string()
}

#[async_trait]
impl Model for Script {
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let part = recognize(request);
        let key = call.key.unwrap_or_default().to_owned();
        let asked = Asked { part: part.clone(), key, request: request.clone() };
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.len()
        };
        tokio::time::sleep((self.delay)(number)).await;
        let text = match (self.lines)(&asked) {
            Some(line) => line?,
            None => usual(&part),
        };
        Ok(ModelResponse {
            text,
            tool_calls: vec![],
            stop: StopReason::End,
            usage: Some(Usage { input: 100, cached_input: 0, cache_write: 0, output: 10 }),
            cost: Cost::Known(Money::from_nanos(1000)),
            provider: "test".into(),
            model: "script".into(),
            schema_enforced: false,
            rehearsal: false,
            attempts: 1,
            duration_ms: 1,
        })
    }
}

/// Context of a consultation in this process, without source data.
pub(crate) fn consult_context(model: &Arc<Script>, rounds: u32, at_once: usize) -> ConsultContext {
    ConsultContext {
        rounds,
        max_concurrent_debates: at_once,
        ..ConsultContext::new(RoleModels::new(model.clone()))
    }
}

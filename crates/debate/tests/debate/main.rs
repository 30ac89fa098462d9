//! Tests of debates with a scripted model.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod faults;
mod flow;
mod resume_and_fork;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_debate::{
    DebateCompany, DebateOptions, DebatePersonas, DebateState, DebateVerdict, MoveDocument, graph,
};
use assize_graph::{RunError, RunOptions};
use assize_llm::{
    CallOptions, Model, ModelError, ModelRequest, ModelResponse, StopReason, TranscriptTurn,
};
use assize_types::{Cost, Money, Usage};
use async_trait::async_trait;

/// Purpose of a call, recognized from its request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Critic,
    Answer(&'static str),
    Score(&'static str),
    Summary,
}

/// A call that the scripted model received: its purpose, conversation, round and request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) what: Part,
    /// Decision maker whom the critic addresses; `None` in the opening critique and in calls of decision makers.
    pub(crate) with: Option<&'static str>,
    /// Round of the entry to be generated.
    pub(crate) round: u32,
    pub(crate) request: ModelRequest,
}

type Script = dyn Fn(&Asked) -> Result<ModelResponse, ModelError> + Send + Sync;

/// Model that answers from a script and records its calls.
pub(crate) struct Scripted {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
    /// Returns the delay of an answer. The argument is the number of the call, counted from 1.
    delay: fn(usize) -> Duration,
}

impl Scripted {
    pub(crate) fn new(
        script: impl Fn(&Asked) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        Scripted::slow(|_| Duration::ZERO, script)
    }

    pub(crate) fn slow(
        delay: fn(usize) -> Duration,
        script: impl Fn(&Asked) -> Result<ModelResponse, ModelError> + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        Arc::new(Scripted { script: Box::new(script), asked: Mutex::default(), delay })
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Model for Scripted {
    async fn generate(
        &self,
        request: &ModelRequest,
        _: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let asked = recognize(request);
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.len()
        };
        tokio::time::sleep((self.delay)(number)).await;
        (self.script)(&asked)
    }
}

fn recognize(request: &ModelRequest) -> Asked {
    // The transcript of a repeated request for scores contains the first request.
    let tail = match request.prompt.transcript.iter().rev().nth(1) {
        Some(TranscriptTurn::User { text }) if text.starts_with("You are D") => text.as_ref(),
        _ => request.prompt.tail.as_str(),
    };
    let id = ["D1", "D2", "D3"].into_iter().find(|id| tail.starts_with(&format!("You are {id},")));
    let with = ["D1", "D2", "D3"].into_iter().find(|id| tail.contains(&format!("with {id} (")));
    let what = match id {
        Some(id) if request.schema.is_some() => Part::Score(id),
        Some(id) => Part::Answer(id),
        None if tail.starts_with("You keep the minutes") => Part::Summary,
        None => Part::Critic,
    };
    let last = said(request).into_iter().filter_map(|(round, _)| round).max().unwrap_or(0);
    let round = if what == Part::Critic { last + 1 } else { last };
    Asked { what, with, round, request: request.clone() }
}

/// Returns the turns of the conversation in a request: the text, and the round if the turn is an entry.
pub(crate) fn said(request: &ModelRequest) -> Vec<(Option<u32>, String)> {
    let round = |text: &str| text.strip_prefix("[Round ")?.split_once(']')?.0.parse().ok();
    let turns = request.prompt.transcript.iter();
    turns
        .filter_map(|turn| match turn {
            TranscriptTurn::User { text } => Some((round(text), text.to_string())),
            // This turn is the first answer to a request for scores that is repeated.
            TranscriptTurn::Assistant { .. } => None,
            TranscriptTurn::Tool(_) => panic!("unexpected tool turn"),
        })
        .collect()
}

pub(crate) fn response(text: impl Into<String>) -> ModelResponse {
    ModelResponse {
        text: text.into(),
        tool_calls: vec![],
        stop: StopReason::End,
        usage: Some(Usage { input: 100, cached_input: 80, cache_write: 0, output: 10 }),
        cost: Cost::Known(Money::from_nanos(1000)),
        provider: "test".into(),
        model: "scripted".into(),
        schema_enforced: false,
        rehearsal: false,
        attempts: 1,
        duration_ms: 3,
    }
}

pub(crate) const SCORES: &str = r#"{"reasoning": "It held.", "impact": 8, "feasibility": 7,
    "risk_adjusted_return": 6, "strategic_alignment": 9}"#;

/// Script in which every role names itself and its round, and every judge gives a total of 30 points.
pub(crate) fn plain(asked: &Asked) -> Result<ModelResponse, ModelError> {
    Ok(response(match (&asked.what, asked.with) {
        (Part::Score(_), _) => SCORES.to_owned(),
        (Part::Summary, _) => "Both sides said a lot.".to_owned(),
        (Part::Answer(id), _) => format!("{id} answers in round {}", asked.round),
        (Part::Critic, Some(id)) => format!("critic to {id} in round {}", asked.round),
        (Part::Critic, None) => "critic to all".to_owned(),
    }))
}

pub(crate) const BAKERY: &str = "# Open a second bakery\n\nWe open a second shop near the station.";

pub(crate) fn bakery(rounds: u32) -> DebateState {
    about(BAKERY, rounds)
}

pub(crate) fn about(content: &str, rounds: u32) -> DebateState {
    let document = MoveDocument { move_id: "m1".into(), content: content.into() };
    let company = DebateCompany { ticker: Some("CRST".into()), ..DebateCompany::default() };
    DebateState::new(document, company, Arc::new(DebatePersonas::default()), rounds)
}

pub(crate) async fn debate(
    model: &Arc<Scripted>,
    options: DebateOptions,
    state: DebateState,
    run: RunOptions,
) -> Result<DebateVerdict, RunError> {
    graph(model.clone(), options).unwrap().run(state, run).await.map(DebateVerdict::from)
}

pub(crate) async fn plain_debate(model: &Arc<Scripted>, rounds: u32) -> DebateVerdict {
    debate(model, DebateOptions::default(), bakery(rounds), RunOptions::default()).await.unwrap()
}

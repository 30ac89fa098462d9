//! A debate with a scripted model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod faults;
mod flow;
mod keeping;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use assize_debate::{Company, DebateState, MoveDocument, Options, Personas, Verdict, graph};
use assize_graph::{RunError, RunOptions};
use assize_llm::{Call, Model, ModelError, Request, Response, Stop, Turn};
use assize_types::{Cost, Money, Usage};
use async_trait::async_trait;

/// What a call is for, as can be told from its request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Critic,
    Answer(&'static str),
    Score(&'static str),
    Summary,
}

/// A call that the model got: what for, and in which round of which conversation.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) what: Part,
    /// Of the critic's calls after the first: with whom.
    pub(crate) with: Option<&'static str>,
    /// The round in which it speaks.
    pub(crate) round: u32,
    pub(crate) request: Request,
}

type Script = dyn Fn(&Asked) -> Result<Response, ModelError> + Send + Sync;

/// A model that answers by a script and remembers what it was asked.
pub(crate) struct Scripted {
    script: Box<Script>,
    asked: Mutex<Vec<Asked>>,
    /// How long it takes, by the number of the call.
    delay: fn(usize) -> Duration,
}

impl Scripted {
    pub(crate) fn new(
        script: impl Fn(&Asked) -> Result<Response, ModelError> + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        Scripted::slow(|_| Duration::ZERO, script)
    }

    pub(crate) fn slow(
        delay: fn(usize) -> Duration,
        script: impl Fn(&Asked) -> Result<Response, ModelError> + Send + Sync + 'static,
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
    async fn generate(&self, request: &Request, _: Call<'_>) -> Result<Response, ModelError> {
        let asked = recognise(request);
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.len()
        };
        tokio::time::sleep((self.delay)(number)).await;
        (self.script)(&asked)
    }
}

fn recognise(request: &Request) -> Asked {
    // A second question about the same thing has the first one in its transcript.
    let tail = match request.prompt.transcript.iter().rev().nth(1) {
        Some(Turn::User { text }) if text.starts_with("You are D") => text.as_ref(),
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

/// The conversation in a request: the round of each turn, where it is one, and its text.
pub(crate) fn said(request: &Request) -> Vec<(Option<u32>, String)> {
    let round = |text: &str| text.strip_prefix("[Round ")?.split_once(']')?.0.parse().ok();
    let turns = request.prompt.transcript.iter();
    turns
        .filter_map(|turn| match turn {
            Turn::User { text } => Some((round(text), text.to_string())),
            // The first of two answers to one question.
            Turn::Assistant { .. } => None,
            Turn::Tool(_) => panic!("there are no tools"),
        })
        .collect()
}

pub(crate) fn response(text: impl Into<String>) -> Response {
    Response {
        text: text.into(),
        tool_calls: vec![],
        stop: Stop::End,
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

/// Everyone says who they are and in which round; every judge gives 30.
pub(crate) fn plain(asked: &Asked) -> Result<Response, ModelError> {
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
    let company = Company { ticker: Some("CRST".into()), ..Company::default() };
    DebateState::new(document, company, Arc::new(Personas::default()), rounds)
}

pub(crate) async fn debate(
    model: &Arc<Scripted>,
    options: Options,
    state: DebateState,
    run: RunOptions,
) -> Result<Verdict, RunError> {
    graph(model.clone(), options).unwrap().run(state, run).await.map(Verdict::from)
}

pub(crate) async fn plain_debate(model: &Arc<Scripted>, rounds: u32) -> Verdict {
    debate(model, Options::default(), bakery(rounds), RunOptions::default()).await.unwrap()
}

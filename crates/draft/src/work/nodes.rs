//! What happens in each node of the work.

use std::sync::Arc;

use assize_calls::Asking;
use assize_graph::{Context, EffectError, Event, NodeError};
use assize_llm::{ErrorKind, ModelError, Spent, Stop, ToolCall, ToolResult, Turn};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blocks::file_blocks;
use super::state::{Handed, Said, Update, WorkState};
use super::{Mode, Worker, prompt, reading};
use crate::desk::DeskError;
use crate::tools::{self, CallError};

/// Answers that are cut off, until it is given up: the next will be, too.
const MOST_CUT_OFF: u32 = 3;

type Updates = Result<Vec<Update>, NodeError>;

/// What a tool answered, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answered {
    content: Value,
    failed: bool,
}

/// A tool call that could not be made, through no fault of the model.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
struct Broke(String);

impl Worker {
    /// Shows a worker without tools the files that it may need.
    pub(crate) async fn look(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        if state.mode != Mode::Text || state.files.is_some() {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for path in &state.work.files {
            let key = format!("file-{}", files.len() + 1);
            let read = async {
                match self.desk.file(&self.name, path).await {
                    Ok(Some(text)) => Ok((path.clone(), text)),
                    // One that is not there yet can be written all the same.
                    Ok(None) => Ok((path.clone(), String::new())),
                    Err(error) => Err(Broke(error.to_string())),
                }
            };
            files.push(context.effect(&key, || Fingerprint::of(path), read, |_| Vec::new()).await?);
        }
        Ok(vec![Update::Looked(Arc::new(files))])
    }

    /// Asks the model what to do next.
    pub(crate) async fn think(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        let key = format!("step-{}/think", state.steps + 1);
        let asking = Asking::new(&context, &*self.model, key);
        let response = match asking.answer(&prompt::request(state)).await? {
            Ok(response) => response,
            Err(error) if state.mode == Mode::Auto && error.kind() == ErrorKind::BadRequest => {
                asking.go_on().await?;
                return Ok(fall_back(&context, error.message(), asking.spent()));
            }
            Err(error) => return Err(error.into()),
        };
        let said = Said { text: response.text, calls: response.tool_calls, stop: response.stop };
        Ok(vec![Update::Spent(asking.spent()), Update::Said(said)])
    }

    /// Does what it said.
    pub(crate) async fn act(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        let said = &state.said;
        let mut turns = Vec::new();
        if state.transcript.is_empty() {
            turns.push(Turn::User { text: prompt::BEGIN.into() });
        }
        let calls = if state.mode == Mode::Text { Vec::new() } else { said.calls.clone() };
        // A call that was cut off in the middle has lost its end.
        if said.stop == Stop::MaxTokens {
            if state.cut_off + 1 >= MOST_CUT_OFF {
                return Err(too_long(state.work.max_tokens).into());
            }
            let text = if said.text.is_empty() { "…".to_owned() } else { said.text.clone() };
            turns.push(Turn::Assistant { text, calls: Vec::new() });
            turns.push(Turn::User { text: prompt::cut_off(state.work.max_tokens).into() });
            return Ok(vec![Update::Turns(turns), Update::CutOff]);
        }
        turns.push(Turn::Assistant { text: said.text.clone(), calls: calls.clone() });
        if state.mode == Mode::Text {
            return self.take_blocks(&context, turns).await;
        }
        if calls.is_empty() {
            return Ok(without_calls(&context, turns));
        }
        let mut updates = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let (answered, handed) = self.call(&context, call, index).await?;
            let content = match &answered.content {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let (call_id, name) = (call.id.clone(), call.name.clone());
            turns.push(Turn::Tool(ToolResult { call_id, name, content, failed: answered.failed }));
            updates.extend(handed.map(Update::Handed));
        }
        updates.push(Update::Turns(turns));
        Ok(updates)
    }

    /// Calls one tool, once in the life of the run.
    async fn call(
        &self,
        context: &Context<WorkState>,
        call: &ToolCall,
        index: usize,
    ) -> Result<(Answered, Option<Handed>), NodeError> {
        let state = context.state();
        let mut arguments = match &call.arguments {
            Value::Null => json!({}),
            given => given.clone(),
        };
        // There is one task, whatever it is called by the model.
        if [tools::REQUEST, tools::SUBMIT].contains(&call.name.as_str()) && arguments.is_object() {
            arguments["task_id"] = json!(state.work.task_id);
        }
        let key = format!("step-{}/tool-{}", state.steps, index + 1);
        let answered = self.answer(context, &key, &call.name, &arguments).await?;
        let handed = (call.name == tools::SUBMIT).then(|| handed(&answered)).flatten();
        Ok((answered, handed))
    }

    async fn answer(
        &self,
        context: &Context<WorkState>,
        key: &str,
        name: &str,
        arguments: &Value,
    ) -> Result<Answered, NodeError> {
        let act = async {
            let called = match name {
                reading::LIST | reading::READ => self.desk.look(&self.name, name, arguments).await,
                _ => tools::call(&self.desk, &self.name, name, arguments).await,
            };
            match called {
                Ok(content) => Ok(Answered { content, failed: false }),
                Err(CallError::Desk(error @ (DeskError::Store(_) | DeskError::Contract(_)))) => {
                    Err(Broke(error.to_string()))
                }
                Err(CallError::Unknown(name)) => {
                    let content = format!(
                        "there is no tool `{name}`; there are {}, {}, {}, {}, {} and {}",
                        reading::LIST,
                        reading::READ,
                        tools::REQUEST,
                        tools::WRITE,
                        tools::READ,
                        tools::SUBMIT
                    );
                    Ok(Answered { content: json!(content), failed: true })
                }
                Err(error) => Ok(Answered { content: json!(error.to_string()), failed: true }),
            }
        };
        let tell = |answered: &Answered| {
            let mut told = vec![Event::new(
                "tool_called",
                json!({"step": context.state().steps, "tool": name, "failed": answered.failed,
                       "path": arguments["source_path"].as_str().or(arguments["draft_path"].as_str())
                           .or(arguments["path"].as_str())}),
            )];
            if name == tools::SUBMIT && !answered.failed {
                told.extend(messages(&answered.content, &context.state().work.task_id.to_string()));
            }
            told
        };
        let request = || Fingerprint::of(format!("{name} {arguments}"));
        match context.effect(key, request, act, tell).await {
            Ok(answered) => Ok(answered),
            Err(EffectError::Stop(error)) => Err(NodeError::Stop(error)),
            Err(EffectError::Failed(failed)) => Err(failed.error.into()),
        }
    }

    /// Takes the file blocks of an answer as drafts, and hands them in together.
    async fn take_blocks(&self, context: &Context<WorkState>, mut turns: Vec<Turn>) -> Updates {
        let state = context.state();
        let read = file_blocks(&state.said.text);
        let blocks = read.as_deref().unwrap_or_default();
        if blocks.is_empty() {
            let why = if read.is_err() { prompt::NOT_CLOSED } else { prompt::NO_BLOCKS };
            turns.push(Turn::User { text: why.into() });
            let mut updates = vec![Update::Turns(turns)];
            updates.push(if state.reminded { Update::Done } else { Update::Reminded });
            return Ok(updates);
        }
        let step = state.steps;
        let task = state.work.task_id.to_string();
        // What an earlier answer left, of which nothing came, is not part of this one.
        let fresh = async {
            let put_away = self.desk.withdraw(&self.name, &state.work.task_id).await;
            put_away.map_err(|error| Broke(error.to_string()))
        };
        let key = format!("step-{step}/put-away");
        context.effect(&key, || Fingerprint::NONE, fresh, |()| Vec::new()).await?;
        let mut drafts = Vec::new();
        let mut wrong = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let key = |what: &str| format!("step-{step}/{what}-{}", index + 1);
            let asked = json!({"source_path": block.path, "task_id": task});
            let asked = self.answer(context, &key("request"), tools::REQUEST, &asked).await?;
            let Some(draft) = asked.content["draft_path"].as_str().filter(|_| !asked.failed) else {
                wrong.push(format!(
                    "{}: {}",
                    block.path,
                    asked.content.as_str().unwrap_or_default()
                ));
                continue;
            };
            let written = json!({"draft_path": draft, "content": block.content});
            let written = self.answer(context, &key("write"), tools::WRITE, &written).await?;
            if written.failed {
                wrong.push(format!(
                    "{}: {}",
                    block.path,
                    written.content.as_str().unwrap_or_default()
                ));
                continue;
            }
            drafts.push((draft.to_owned(), block.path.clone()));
        }
        let mut updates = Vec::new();
        if let Some((draft, path)) = drafts.first().filter(|_| wrong.is_empty()) {
            let before = state.said.text.split("FILE:").next().unwrap_or_default();
            let summary = assize_types::text::shorten(before.trim(), 300);
            let submit = json!({"draft_path": draft, "original_path": path, "task_id": task,
                                "change_summary": summary, "include_all_drafts": true});
            let key = format!("step-{step}/submit");
            let answered = self.answer(context, &key, tools::SUBMIT, &submit).await?;
            if answered.failed {
                wrong.push(answered.content.as_str().unwrap_or_default().to_owned());
            } else if let Some(handed) = handed(&answered) {
                match handed.verdict.as_str() {
                    "rejected" => wrong.extend(handed.reasons.iter().map(ToString::to_string)),
                    _ => updates.push(Update::Done),
                }
                updates.push(Update::Handed(handed));
            }
        }
        if !wrong.is_empty() {
            let words = format!("Nothing was changed:\n- {}", wrong.join("\n- "));
            turns.push(Turn::User { text: words.into() });
        }
        updates.push(Update::Turns(turns));
        Ok(updates)
    }
}

fn too_long(most: u32) -> ModelError {
    let message = format!("its answers are cut off at {most} tokens, again and again");
    ModelError::new(ErrorKind::BadRequest, message)
        .with_hint("allow longer answers with `--max-output-tokens`, or give it smaller files")
}

/// A worker that called no tools: it is done, or it is reminded, or it goes on without.
fn without_calls(context: &Context<WorkState>, mut turns: Vec<Turn>) -> Vec<Update> {
    let state = context.state();
    let rejected = state.handed.last().is_some_and(|last| last.verdict == "rejected");
    match (state.handed.is_empty(), state.reminded) {
        (none, false) if none || rejected => {
            let reminder = if none { prompt::REMINDER } else { prompt::NOT_YET };
            turns.push(Turn::User { text: reminder.into() });
            vec![Update::Turns(turns), Update::Reminded]
        }
        (true, true) if state.mode == Mode::Auto => {
            fall_back(context, "the model called no tools", Spent::default())
        }
        _ => vec![Update::Turns(turns), Update::Done],
    }
}

fn fall_back(context: &Context<WorkState>, why: &str, spent: Spent) -> Vec<Update> {
    let payload = json!({"mode": "text", "why": why});
    context.emit(Event::new("mode_changed", payload));
    vec![Update::Spent(spent), Update::Said(Said::default()), Update::FellBack]
}

/// What a submission came to, as the tool told it.
fn handed(answered: &Answered) -> Option<Handed> {
    if answered.failed {
        return None;
    }
    let told = &answered.content;
    Some(Handed {
        message_id: told["message_id"].as_str()?.to_owned(),
        verdict: told["verdict"].as_str()?.to_owned(),
        files: serde_json::from_value(told["files"].clone()).unwrap_or_default(),
        reasons: serde_json::from_value(told["reasons"].clone()).unwrap_or_default(),
    })
}

/// The messages of a submission, as events.
fn messages(told: &Value, task: &str) -> Vec<Event> {
    let submission = &told["message_id"];
    let ready = Event::new("DRAFT_READY", json!({"task_id": task, "message_id": submission}));
    let kind = match told["verdict"].as_str() {
        Some("accepted") => "DRAFT_ACCEPTED",
        Some("rejected") => "DRAFT_REJECTED",
        Some("escalated") => "DRAFT_ESCALATED",
        _ => return vec![ready],
    };
    let payload = json!({"task_id": task, "submission": submission, "reasons": told["reasons"]});
    vec![ready, Event::new(kind, payload)]
}

/// Says what it came to.
pub(crate) async fn finish(context: Context<WorkState>) -> Updates {
    let worked = super::Worked::from(context.state());
    let payload = json!({"outcome": worked.outcome, "steps": worked.steps,
                         "limit_reached": worked.limit_reached});
    context.emit(Event::new("work_finished", payload));
    Ok(Vec::new())
}

//! The worker, and the nodes of its graph.

use std::sync::Arc;

use assize_graph::{Context, END, Event, Graph, InvalidGraph, NodeError};
use assize_llm::{ErrorKind, Model, ModelError, Spent, Stop, ToolCall, ToolResult, Turn};
use assize_run::{Asking, RunEvent};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blocks::{FileBlock, file_blocks};
use super::input::Mode;
use super::state::{Handed, Next, Said, Update, WorkState, Worked};
use super::{prompt, reading};
use crate::propose::{NewContent, Proposal, Seen};
use crate::service::{DraftError, DraftService};
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

impl Answered {
    /// An error is an answer, too, unless the model can do nothing about it.
    fn of(called: Result<Value, CallError>) -> Result<Answered, Broke> {
        let told = match called {
            Ok(content) => return Ok(Answered { content, failed: false }),
            Err(CallError::Draft(error @ (DraftError::Store(_) | DraftError::Contract(_)))) => {
                return Err(Broke(error.to_string()));
            }
            Err(CallError::Unknown(name)) => format!(
                "there is no tool `{name}`; there are {}, {}, {}, {}, {} and {}",
                reading::LIST,
                reading::READ,
                tools::REQUEST,
                tools::WRITE,
                tools::READ,
                tools::SUBMIT
            ),
            Err(error) => error.to_string(),
        };
        Ok(Answered { content: json!(told), failed: true })
    }
}

/// A tool call that could not be made, through no fault of the model.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
struct Broke(String);

/// A worker of one workspace.
pub struct Worker {
    service: Arc<DraftService>,
    model: Arc<dyn Model>,
    /// As it stands in the log.
    name: String,
    /// The run that it works for, which idempotency keys begin with.
    run: String,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker for one run; `model_name` is what the log calls its model.
    pub fn new(
        service: Arc<DraftService>,
        model: Arc<dyn Model>,
        model_name: &str,
        run: &str,
    ) -> Arc<Worker> {
        let name = format!("worker {model_name} in {run}");
        Arc::new(Worker { service, model, name, run: run.to_owned() })
    }
}

/// The work as a graph.
pub fn graph(worker: Arc<Worker>) -> Result<Graph<WorkState>, InvalidGraph> {
    let [looks, thinks, acts] = std::array::from_fn(|_| worker.clone());
    Graph::builder("work")
        .node("look", move |context| looks.clone().look(context))
        .node("think", move |context| thinks.clone().think(context))
        .node("act", move |context| acts.clone().act(context))
        .node("finish", finish)
        .start("look")
        .edge("look", "think")
        .route("think", ["act", "look"], |state, _| match state.next() {
            Next::Look => "look",
            _ => "act",
        })
        .route("act", ["think", "look", "finish"], |state, _| match state.next() {
            Next::Think => "think",
            Next::Look => "look",
            Next::Finish => "finish",
        })
        .edge("finish", END)
        .compile()
}

impl Worker {
    /// Shows a worker without tools the files that it may need.
    async fn look(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        if state.mode != Mode::Text || state.files.is_some() {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for path in &state.work.files {
            let key = format!("file-{}", files.len() + 1);
            let read = async {
                // A file that does not exist yet can be proposed all the same.
                let text = self.service.file(&self.name, path).await;
                text.map(|text| (path.clone(), text)).map_err(|error| Broke(error.to_string()))
            };
            files.push(context.effect(&key, || Fingerprint::of(path), read, |_| Vec::new()).await?);
        }
        Ok(vec![Update::Looked(Arc::new(files))])
    }

    /// Asks the model what to do next.
    async fn think(self: Arc<Self>, context: Context<WorkState>) -> Updates {
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
    async fn act(self: Arc<Self>, context: Context<WorkState>) -> Updates {
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
        let (name, arguments) = (call.name.as_str(), &arguments);
        let act = async {
            let called = match name {
                reading::LIST | reading::READ => {
                    self.service.look(&self.name, name, arguments).await
                }
                _ => tools::call(&self.service, &self.name, name, arguments).await,
            };
            Answered::of(called)
        };
        let tell = |answered: &Answered| {
            let path = ["source_path", "draft_path", "path"];
            let path = path.into_iter().find_map(|key| arguments[key].as_str());
            let called = RunEvent::ToolCalled {
                step: state.steps,
                tool: name.to_owned(),
                path: path.map(str::to_owned),
                failed: answered.failed,
            };
            let mut told = vec![called.into()];
            if name == tools::SUBMIT && !answered.failed {
                told.extend(messages(&answered.content, state.work.task_id.as_str()));
            }
            told
        };
        let key = format!("step-{}/tool-{}", state.steps, index + 1);
        let request = || Fingerprint::of(format!("{name} {arguments}"));
        let answered = context.effect(&key, request, act, tell).await?;
        let handed = (name == tools::SUBMIT).then(|| handed(&answered)).flatten();
        Ok((answered, handed))
    }

    /// Submits the file blocks of an answer together.
    async fn take_blocks(&self, context: &Context<WorkState>, mut turns: Vec<Turn>) -> Updates {
        let state = context.state();
        let read = file_blocks(&state.said.text);
        let blocks = read.as_deref().unwrap_or_default();
        if blocks.is_empty() {
            let why = if read.is_err() { prompt::NOT_CLOSED } else { prompt::NO_BLOCKS };
            turns.push(Turn::User { text: why.into() });
            let next = if state.reminded { Update::Done } else { Update::Reminded };
            return Ok(vec![Update::Turns(turns), next]);
        }
        let answered = self.propose(context, blocks).await?;
        let mut updates = Vec::new();
        let mut wrong = String::new();
        if answered.failed {
            answered.content.as_str().unwrap_or_default().clone_into(&mut wrong);
        } else if let Some(handed) = handed(&answered) {
            match handed.verdict.as_str() {
                "rejected" => {
                    let reasons: Vec<String> =
                        handed.reasons.iter().map(ToString::to_string).collect();
                    wrong = reasons.join("\n- ");
                }
                _ => updates.push(Update::Done),
            }
            updates.push(Update::Handed(handed));
        }
        if !wrong.is_empty() {
            turns.push(Turn::User { text: format!("Nothing was changed:\n- {wrong}").into() });
        }
        updates.push(Update::Turns(turns));
        Ok(updates)
    }

    /// Proposes files as they stand in an answer, once in the life of the run.
    async fn propose(
        &self,
        context: &Context<WorkState>,
        blocks: &[FileBlock],
    ) -> Result<Answered, NodeError> {
        let state = context.state();
        let task = state.work.task_id.as_str();
        let words = state.said.text.split("FILE:").next().unwrap_or_default();
        let summary = assize_types::text::shorten(words.trim(), 300);
        let plain = |path: &str| path.trim_start_matches("./").to_owned();
        let seen = |path: &str| {
            let files = state.files.as_deref().map(Vec::as_slice).unwrap_or_default();
            match files.iter().find(|(shown, _)| plain(shown) == plain(path)) {
                None => Seen::NotShown,
                Some((_, None)) => Seen::Absent,
                Some((_, Some(text))) => Seen::Text(text),
            }
        };
        let contents: Vec<NewContent<'_>> = blocks
            .iter()
            .map(|block| NewContent {
                path: &block.path,
                content: &block.content,
                seen: seen(&block.path),
            })
            .collect();
        let key = format!("step-{}/propose", state.steps);
        let proposal = Proposal {
            key: &format!("{}/{key}", self.run),
            task_id: task,
            summary: &summary,
            contents: &contents,
        };
        let act = async {
            let submitted = self.service.propose(&self.name, proposal).await;
            Answered::of(submitted.map(|submitted| json!(submitted)).map_err(CallError::Draft))
        };
        let print = || Fingerprint::of(&state.said.text);
        let events = |answered: &Answered| match answered.failed {
            true => Vec::new(),
            false => messages(&answered.content, task),
        };
        Ok(context.effect(&key, print, act, events).await?)
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
    context.emit(RunEvent::ModeChanged { mode: "text".to_owned(), why: why.to_owned() });
    vec![Update::Spent(spent), Update::Said(Said::default()), Update::FellBack]
}

/// What a submission came to, as the tool told it.
fn handed(answered: &Answered) -> Option<Handed> {
    Handed::deserialize(&answered.content).ok().filter(|_| !answered.failed)
}

/// The messages of a submission, as events.
fn messages(told: &Value, task: &str) -> Vec<Event> {
    let (task_id, submission) = (task.to_owned(), told["submission"].clone());
    let ready = RunEvent::DraftReady {
        task_id: task_id.clone(),
        submission: submission.clone(),
        message_id: told["message_id"].clone(),
    };
    let reasons = told["reasons"].clone();
    let decided = match told["verdict"].as_str() {
        Some("accepted") => Some(RunEvent::DraftAccepted { task_id, submission, reasons }),
        Some("rejected") => Some(RunEvent::DraftRejected { task_id, submission, reasons }),
        Some("escalated") => Some(RunEvent::DraftEscalated { task_id, submission, reasons }),
        _ => None,
    };
    [Some(ready), decided].into_iter().flatten().map(Event::from).collect()
}

/// Says what it came to.
async fn finish(context: Context<WorkState>) -> Updates {
    let worked = Worked::from(context.state());
    context.emit(RunEvent::WorkFinished {
        outcome: json!(worked.outcome),
        steps: worked.steps,
        limit_reached: worked.limit_reached,
    });
    Ok(Vec::new())
}

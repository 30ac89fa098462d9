//! The agent and the nodes of its graph.

use std::sync::Arc;

use assize_graph::{Context, END, Graph, GraphEvent, InvalidGraph, NodeError};
use assize_llm::{
    CallTotals, ErrorKind, Model, ModelError, StopReason, ToolCall, ToolResult, TranscriptTurn,
};
use assize_run::{JournaledModel, RunEvent};
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blocks::{FileBlock, file_blocks};
use super::input::WorkMode;
use super::state::{ModelAnswer, NextNode, ReportedSubmission, WorkReport, WorkState, WorkUpdate};
use super::{prompt, read_tools};
use crate::propose::{FileProposal, ProposedContent, SeenFile};
use crate::service::{DraftError, DraftService};
use crate::tools::{self, DraftToolError};

/// Number of truncated answers after which the run fails, because further answers would be truncated, too.
const MAX_TRUNCATED: u32 = 3;

type Updates = Result<Vec<WorkUpdate>, NodeError>;

/// Result of a tool call, as stored in the journal of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ToolOutput {
    content: Value,
    failed: bool,
}

impl ToolOutput {
    /// Converts the outcome of a tool call to a result for the model. Errors of the store and of the contract are
    /// returned as errors, because the model cannot correct them.
    fn of(called: Result<Value, DraftToolError>) -> Result<ToolOutput, ToolFailure> {
        let message = match called {
            Ok(content) => return Ok(ToolOutput { content, failed: false }),
            Err(DraftToolError::Draft(
                error @ (DraftError::Store(_) | DraftError::Contract(_)),
            )) => {
                return Err(ToolFailure(error.to_string()));
            }
            Err(DraftToolError::Unknown(name)) => format!(
                "unknown tool `{name}`; the tools are {}, {}, {}, {}, {} and {}",
                read_tools::LIST,
                read_tools::READ,
                tools::REQUEST,
                tools::WRITE,
                tools::READ,
                tools::SUBMIT
            ),
            Err(error) => error.to_string(),
        };
        Ok(ToolOutput { content: json!(message), failed: true })
    }
}

/// Error of the store or of the contract in a tool call. The model cannot correct such an error.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
struct ToolFailure(String);

/// Agent of one run: a model that edits files of a workspace.
pub struct Agent {
    service: Arc<DraftService>,
    model: Arc<dyn Model>,
    /// Name of the agent in the audit log.
    name: String,
    /// Id of the run; it is the prefix of the idempotency keys.
    run: String,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Agent {
    /// Creates the agent of a run; `model_name` is the name of the model in the audit log.
    pub fn new(
        service: Arc<DraftService>,
        model: Arc<dyn Model>,
        model_name: &str,
        run: &str,
    ) -> Arc<Agent> {
        let name = format!("worker {model_name} in {run}");
        Arc::new(Agent { service, model, name, run: run.to_owned() })
    }
}

/// Builds the graph of the agent.
pub fn graph(worker: Arc<Agent>) -> Result<Graph<WorkState>, InvalidGraph> {
    let [looks, thinks, acts] = std::array::from_fn(|_| worker.clone());
    Graph::builder("work")
        .node("look", move |context| looks.clone().read_files(context))
        .node("think", move |context| thinks.clone().call_model(context))
        .node("act", move |context| acts.clone().execute_answer(context))
        .node("finish", finish)
        .start("look")
        .edge("look", "think")
        .route("think", ["act", "look"], |state, _| match state.next() {
            NextNode::ReadFiles => "look",
            _ => "act",
        })
        .route("act", ["think", "look", "finish"], |state, _| match state.next() {
            NextNode::CallModel => "think",
            NextNode::ReadFiles => "look",
            NextNode::Finish => "finish",
        })
        .edge("finish", END)
        .compile()
}

impl Agent {
    /// Reads the files that are shown to a model without tools.
    async fn read_files(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        if state.mode != WorkMode::Text || state.files.is_some() {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for path in &state.work.files {
            let key = format!("file-{}", files.len() + 1);
            let read = async {
                // A missing file is not an error, because the model can propose it as a new file.
                let text = self.service.read_visible_file(&self.name, path).await;
                text.map(|text| (path.clone(), text))
                    .map_err(|error| ToolFailure(error.to_string()))
            };
            files.push(context.effect(&key, || Fingerprint::of(path), read, |_| Vec::new()).await?);
        }
        Ok(vec![WorkUpdate::FilesRead(Arc::new(files))])
    }

    /// Requests the next step from the model.
    async fn call_model(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        let key = format!("step-{}/think", state.steps + 1);
        let asking = JournaledModel::new(&context, &*self.model, key);
        let response = match asking.request_answer(&prompt::request(state)).await? {
            Ok(response) => response,
            Err(error) if state.mode == WorkMode::Auto && error.kind() == ErrorKind::BadRequest => {
                asking.record_failure().await?;
                return Ok(change_to_text_mode(&context, error.message(), asking.spent()));
            }
            Err(error) => return Err(error.into()),
        };
        let response =
            ModelAnswer { text: response.text, calls: response.tool_calls, stop: response.stop };
        Ok(vec![WorkUpdate::Spent(asking.spent()), WorkUpdate::Answered(response)])
    }

    /// Executes the last answer of the model: calls tools, or submits file blocks.
    async fn execute_answer(self: Arc<Self>, context: Context<WorkState>) -> Updates {
        let state = context.state();
        let response = &state.last_answer;
        let mut turns = Vec::new();
        if state.transcript.is_empty() {
            turns.push(TranscriptTurn::User { text: prompt::BEGIN.into() });
        }
        let calls = if state.mode == WorkMode::Text { Vec::new() } else { response.calls.clone() };
        // No tool call of a truncated answer is executed, because its arguments may be incomplete.
        if response.stop == StopReason::MaxTokens {
            if state.truncated_answers + 1 >= MAX_TRUNCATED {
                return Err(too_long(state.work.max_tokens).into());
            }
            let text =
                if response.text.is_empty() { "…".to_owned() } else { response.text.clone() };
            turns.push(TranscriptTurn::Assistant { text, calls: Vec::new() });
            turns
                .push(TranscriptTurn::User { text: prompt::cut_off(state.work.max_tokens).into() });
            return Ok(vec![WorkUpdate::Turns(turns), WorkUpdate::Truncated]);
        }
        turns.push(TranscriptTurn::Assistant { text: response.text.clone(), calls: calls.clone() });
        if state.mode == WorkMode::Text {
            return self.submit_blocks(&context, turns).await;
        }
        if calls.is_empty() {
            return Ok(without_calls(&context, turns));
        }
        let mut updates = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let (output, handed) = self.call(&context, call, index).await?;
            let content = match &output.content {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let (call_id, name) = (call.id.clone(), call.name.clone());
            turns.push(TranscriptTurn::Tool(ToolResult {
                call_id,
                name,
                content,
                failed: output.failed,
            }));
            updates.extend(handed.map(WorkUpdate::Submitted));
        }
        updates.push(WorkUpdate::Turns(turns));
        Ok(updates)
    }

    /// Calls a tool as an effect, so that a resumed run does not repeat the call.
    async fn call(
        &self,
        context: &Context<WorkState>,
        call: &ToolCall,
        index: usize,
    ) -> Result<(ToolOutput, Option<ReportedSubmission>), NodeError> {
        let state = context.state();
        let mut arguments = match &call.arguments {
            Value::Null => json!({}),
            given => given.clone(),
        };
        // The run has only one task, so the task id in the model's arguments is replaced.
        if [tools::REQUEST, tools::SUBMIT].contains(&call.name.as_str()) && arguments.is_object() {
            arguments["task_id"] = json!(state.work.task_id);
        }
        let (name, arguments) = (call.name.as_str(), &arguments);
        let act = async {
            let called = match name {
                read_tools::LIST | read_tools::READ => {
                    self.service.call_read_tool(&self.name, name, arguments).await
                }
                _ => tools::call(&self.service, &self.name, name, arguments).await,
            };
            ToolOutput::of(called)
        };
        let tell = |output: &ToolOutput| {
            let path = ["source_path", "draft_path", "path"];
            let path = path.into_iter().find_map(|key| arguments[key].as_str());
            let called = RunEvent::ToolCalled {
                step: state.steps,
                tool: name.to_owned(),
                path: path.map(str::to_owned),
                failed: output.failed,
            };
            let mut events = vec![called.into()];
            if name == tools::SUBMIT && !output.failed {
                events.extend(submission_events(&output.content, state.work.task_id.as_str()));
            }
            events
        };
        let key = format!("step-{}/tool-{}", state.steps, index + 1);
        let request = || Fingerprint::of(format!("{name} {arguments}"));
        let output = context.effect(&key, request, act, tell).await?;
        let handed = (name == tools::SUBMIT).then(|| reported_submission(&output)).flatten();
        Ok((output, handed))
    }

    /// Submits all file blocks of the last answer together.
    async fn submit_blocks(
        &self,
        context: &Context<WorkState>,
        mut turns: Vec<TranscriptTurn>,
    ) -> Updates {
        let state = context.state();
        let read = file_blocks(&state.last_answer.text);
        let blocks = read.as_deref().unwrap_or_default();
        if blocks.is_empty() {
            let why = if read.is_err() { prompt::NOT_CLOSED } else { prompt::NO_BLOCKS };
            turns.push(TranscriptTurn::User { text: why.into() });
            let next = if state.reminded { WorkUpdate::Done } else { WorkUpdate::Reminded };
            return Ok(vec![WorkUpdate::Turns(turns), next]);
        }
        let output = self.propose(context, blocks).await?;
        let mut updates = Vec::new();
        let mut wrong = String::new();
        if output.failed {
            output.content.as_str().unwrap_or_default().clone_into(&mut wrong);
        } else if let Some(handed) = reported_submission(&output) {
            match handed.verdict.as_str() {
                "rejected" => {
                    let reasons: Vec<String> =
                        handed.reasons.iter().map(ToString::to_string).collect();
                    wrong = reasons.join("\n- ");
                }
                _ => updates.push(WorkUpdate::Done),
            }
            updates.push(WorkUpdate::Submitted(handed));
        }
        if !wrong.is_empty() {
            turns.push(TranscriptTurn::User {
                text: format!("Nothing was changed:\n- {wrong}").into(),
            });
        }
        updates.push(WorkUpdate::Turns(turns));
        Ok(updates)
    }

    /// Submits a proposal with the files of an answer as an effect, so that a resumed run does not submit the proposal
    /// again.
    async fn propose(
        &self,
        context: &Context<WorkState>,
        blocks: &[FileBlock],
    ) -> Result<ToolOutput, NodeError> {
        let state = context.state();
        let task = state.work.task_id.as_str();
        let words = state.last_answer.text.split("FILE:").next().unwrap_or_default();
        let summary = assize_types::text::shorten(words.trim(), 300);
        let plain = |path: &str| path.trim_start_matches("./").to_owned();
        let seen = |path: &str| {
            let files = state.files.as_deref().map(Vec::as_slice).unwrap_or_default();
            match files.iter().find(|(shown, _)| plain(shown) == plain(path)) {
                None => SeenFile::NotShown,
                Some((_, None)) => SeenFile::Absent,
                Some((_, Some(text))) => SeenFile::Text(text),
            }
        };
        let contents: Vec<ProposedContent<'_>> = blocks
            .iter()
            .map(|block| ProposedContent {
                path: &block.path,
                content: &block.content,
                seen: seen(&block.path),
            })
            .collect();
        let key = format!("step-{}/propose", state.steps);
        let proposal = FileProposal {
            key: &format!("{}/{key}", self.run),
            task_id: task,
            summary: &summary,
            contents: &contents,
        };
        let act = async {
            let submitted = self.service.propose(&self.name, proposal).await;
            ToolOutput::of(
                submitted.map(|submitted| json!(submitted)).map_err(DraftToolError::Draft),
            )
        };
        let print = || Fingerprint::of(&state.last_answer.text);
        let events = |output: &ToolOutput| match output.failed {
            true => Vec::new(),
            false => submission_events(&output.content, task),
        };
        Ok(context.effect(&key, print, act, events).await?)
    }
}

fn too_long(most: u32) -> ModelError {
    let message = format!("the model's answers were repeatedly truncated at {most} tokens");
    ModelError::new(ErrorKind::BadRequest, message)
        .with_hint("allow longer answers with `--max-output-tokens`, or use smaller files")
}

/// Handles an answer without tool calls: ends the run, reminds the model to submit, or changes to text mode.
fn without_calls(context: &Context<WorkState>, mut turns: Vec<TranscriptTurn>) -> Vec<WorkUpdate> {
    let state = context.state();
    let rejected = state.submissions.last().is_some_and(|last| last.verdict == "rejected");
    match (state.submissions.is_empty(), state.reminded) {
        (none, false) if none || rejected => {
            let reminder = if none { prompt::REMINDER } else { prompt::NOT_YET };
            turns.push(TranscriptTurn::User { text: reminder.into() });
            vec![WorkUpdate::Turns(turns), WorkUpdate::Reminded]
        }
        (true, true) if state.mode == WorkMode::Auto => {
            change_to_text_mode(context, "the model called no tools", CallTotals::default())
        }
        _ => vec![WorkUpdate::Turns(turns), WorkUpdate::Done],
    }
}

fn change_to_text_mode(
    context: &Context<WorkState>,
    why: &str,
    spent: CallTotals,
) -> Vec<WorkUpdate> {
    context.emit(RunEvent::ModeChanged { mode: "text".to_owned(), why: why.to_owned() });
    vec![
        WorkUpdate::Spent(spent),
        WorkUpdate::Answered(ModelAnswer::default()),
        WorkUpdate::ChangedToText,
    ]
}

/// Parses the submission that a tool result reports.
fn reported_submission(output: &ToolOutput) -> Option<ReportedSubmission> {
    ReportedSubmission::deserialize(&output.content).ok().filter(|_| !output.failed)
}

/// Creates the run events of a submission and its verdict.
fn submission_events(response: &Value, task: &str) -> Vec<GraphEvent> {
    let (task_id, submission) = (task.to_owned(), response["submission"].clone());
    let ready = RunEvent::DraftReady {
        task_id: task_id.clone(),
        submission: submission.clone(),
        message_id: response["message_id"].clone(),
    };
    let reasons = response["reasons"].clone();
    let decided = match response["verdict"].as_str() {
        Some("accepted") => Some(RunEvent::DraftAccepted { task_id, submission, reasons }),
        Some("rejected") => Some(RunEvent::DraftRejected { task_id, submission, reasons }),
        Some("escalated") => Some(RunEvent::DraftEscalated { task_id, submission, reasons }),
        _ => None,
    };
    [Some(ready), decided].into_iter().flatten().map(GraphEvent::from).collect()
}

/// Emits the last event of the run.
async fn finish(context: Context<WorkState>) -> Updates {
    let worked = WorkReport::from(context.state());
    context.emit(RunEvent::WorkFinished {
        outcome: json!(worked.outcome),
        steps: worked.steps,
        limit_reached: worked.limit_reached,
    });
    Ok(Vec::new())
}

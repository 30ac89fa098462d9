//! The worker: a model that has just the draft tools, and may read the workspace.
//!
//! It thinks, calls tools, reads what they answer, and thinks again, until its drafts are accepted, a person
//! must decide, or a limit is reached. Every call to the model and every tool call is an effect under a key such
//! as `step-3/think`, so that a worker that was killed goes on where it was. For models that call no tools
//! there is the older way: their answer's file blocks are taken as drafts, and go through the same gate.

mod blocks;
mod nodes;
mod prompt;
mod reading;
pub mod rehearsal;
mod state;

use std::sync::Arc;

use assize_graph::{END, Graph, InvalidGraph};
use assize_llm::Model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::desk::Desk;
use crate::task::TaskId;

pub use blocks::{FileBlock, NotClosed, file_blocks};
pub use state::{Handed, WorkOutcome, WorkState, Worked};

/// How a worker works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkMode")]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It calls tools.
    #[default]
    Tools,
    /// Its answers are read for file blocks.
    Text,
    /// Tools, and text if the model calls none.
    Auto,
}

impl Mode {
    pub const NAMES: [&'static str; 3] = ["tools", "text", "auto"];
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        match text {
            "tools" => Ok(Mode::Tools),
            "text" => Ok(Mode::Text),
            "auto" => Ok(Mode::Auto),
            other => Err(format!("`{other}` is none of `{}`", Mode::NAMES.join("`, `"))),
        }
    }
}

/// What is to be done, and within which limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkTask")]
pub struct Work {
    pub task: String,
    pub task_id: TaskId,
    pub mode: Mode,
    /// Files that a worker without tools is shown.
    pub files: Vec<String>,
    /// Calls to the model at most.
    pub max_steps: u32,
    /// Rejections at most.
    pub max_rejections: u32,
    pub temperature: f64,
    pub max_tokens: u32,
}

/// Calls to the model, and rejections, where nothing else is asked for.
pub const MAX_STEPS: u32 = 40;
pub const MAX_REJECTIONS: u32 = 5;

/// A worker at a desk.
pub struct Worker {
    pub(crate) desk: Arc<Desk>,
    pub(crate) model: Arc<dyn Model>,
    /// As it stands in the log.
    pub(crate) name: String,
    /// The run that it works for, which idempotency keys begin with.
    pub(crate) run: String,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker for one run; `model_name` is what the log calls its model.
    pub fn new(desk: Arc<Desk>, model: Arc<dyn Model>, model_name: &str, run: &str) -> Arc<Worker> {
        let name = format!("worker {model_name} in {run}");
        Arc::new(Worker { desk, model, name, run: run.to_owned() })
    }
}

/// The work as a graph.
///
/// # Errors
/// Never, unless this function is wrong.
pub fn graph(worker: Arc<Worker>) -> Result<Graph<WorkState>, InvalidGraph> {
    let [looks, thinks, acts] = std::array::from_fn(|_| worker.clone());
    Graph::builder("work")
        .node("look", move |context| looks.clone().look(context))
        .node("think", move |context| thinks.clone().think(context))
        .node("act", move |context| acts.clone().act(context))
        .node("finish", nodes::finish)
        .start("look")
        .edge("look", "think")
        .route("think", ["act", "look"], |state, _| match state.next() {
            state::Next::Look => "look",
            _ => "act",
        })
        .route("act", ["think", "look", "finish"], |state, _| match state.next() {
            state::Next::Think => "think",
            state::Next::Look => "look",
            state::Next::Finish => "finish",
        })
        .edge("finish", END)
        .compile()
}

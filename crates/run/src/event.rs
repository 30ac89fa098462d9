//! Events of a run: their names and payloads. Event names are defined only here.
//!
//! `docs/reference/events.md` lists the events for clients. A test compares that page with this file.

use assize_graph::GraphEvent;
use assize_types::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::run::RunStatus;

/// Event of a run, as the store and the event streams represent it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "payload", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run ended. A run that is resumed emits this event again at its next end.
    RunEnded {
        status: RunStatus,
        error: Option<String>,
        /// Failure that users see; `None` if the run did not fail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Value>")]
        failure: Option<Failure>,
        /// Whether a failed run can be resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumable: Option<bool>,
    },
    /// The run was resumed, and model calls that were sent in its earlier epochs have no recorded answer. `calls` is
    /// their number, and `at_most_usd` is an upper bound of their cost in US dollars.
    CallsLost { calls: u64, at_most_usd: f64 },

    /// The model answered a request for a program. If the answer contains no program, `error` is the reason.
    CodeGenerated {
        attempt: u32,
        candidate: Option<u32>,
        code_lines: Option<usize>,
        confidence: Option<f64>,
        dependencies: Vec<String>,
        error: Option<String>,
    },
    /// A sandbox starts to run a program.
    ExecutionStarted { attempt: u32, candidate: Option<u32> },
    /// A program ended in its sandbox.
    ExecutionComplete {
        attempt: u32,
        candidate: Option<u32>,
        success: bool,
        exit_code: Option<i32>,
        signal: Option<i32>,
        timed_out: bool,
        out_of_memory: bool,
        duration_ms: f64,
        error: Option<String>,
    },
    /// The critic answered with its critique of a program.
    CodeCriticised { attempt: u32, critique: Option<Value> },
    /// A code run has finished its last attempt.
    CodeFinished { success: bool, attempts: u32 },

    /// A layer of a consultation starts.
    LayerStart { layer: ConsultLayer, status: LayerStatus },
    /// A layer of a consultation is complete.
    LayerComplete {
        layer: ConsultLayer,
        status: LayerStatus,
        artifacts: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_policies_scored: Option<usize>,
    },
    /// An agent of a consultation starts.
    AgentStart { layer: u32, agent_id: String, persona: String },
    /// An agent of a consultation has written its documents.
    AgentComplete { layer: u32, agent_id: String, output: Vec<String>, titles: Vec<String> },
    /// Warning about one proposed business move of a consultation, for example that the move was debated without a
    /// sandbox.
    Warning {
        #[serde(rename = "move")]
        move_id: String,
        message: String,
    },
    /// A consultation has ranked its proposed business moves. Both lists contain ids of moves, with the best move
    /// first.
    PipelineComplete { recommended: Vec<String>, other: Vec<String> },
    /// A consultation failed before it ranked its proposed business moves.
    PipelineFailed { error: String },
    /// A consultation was cancelled.
    PipelineCancelled { reason: String },

    /// A role of a debate answered, or the model call of the role failed.
    SandboxRound {
        #[serde(rename = "move")]
        move_id: String,
        round: u32,
        status: RoundStatus,
        next: RoundStep,
        /// Name of the debate's conversation that the event belongs to; `None` if the event belongs to all
        /// conversations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// All judges of a debate have scored the proposed business move.
    SandboxScored {
        #[serde(rename = "move")]
        move_id: String,
        score: u32,
        /// Scores of the proposed business move, by judge.
        breakdown: Map<String, Value>,
        /// Whether a conversation of the debate ended early.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        /// Ids of the judges whose model calls failed. Each of them counts with a neutral score.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        neutral: Vec<String>,
    },

    /// The agent of a work run called a tool.
    ToolCalled { step: u32, tool: String, path: Option<String>, failed: bool },
    /// An agent submitted a draft.
    #[serde(rename = "DRAFT_READY")]
    DraftReady { task_id: String, submission: Value, message_id: Value },
    /// A draft was accepted and applied to the workspace.
    #[serde(rename = "DRAFT_ACCEPTED")]
    DraftAccepted { task_id: String, submission: Value, reasons: Value },
    /// A draft was rejected, with the reasons.
    #[serde(rename = "DRAFT_REJECTED")]
    DraftRejected { task_id: String, submission: Value, reasons: Value },
    /// A reviewer must decide on a draft.
    #[serde(rename = "DRAFT_ESCALATED")]
    DraftEscalated { task_id: String, submission: Value, reasons: Value },
    /// The agent of a work run continues without tool calls, for the reason in `why`.
    ModeChanged { mode: String, why: String },
    /// The agent of a work run has finished.
    WorkFinished { outcome: Value, steps: u32, limit_reached: bool },
}

/// Layer of a consultation: a numbered layer, or the named layer that runs the debates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ConsultLayer {
    Number(u32),
    Named(NamedConsultLayer),
}

impl ConsultLayer {
    /// The layer of a consultation that runs the debates.
    pub const DEBATES: ConsultLayer = ConsultLayer::Named(NamedConsultLayer::Sandbox);
}

impl From<u32> for ConsultLayer {
    fn from(number: u32) -> ConsultLayer {
        ConsultLayer::Number(number)
    }
}

/// Layer of a consultation that has a name instead of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedConsultLayer {
    Sandbox,
}

/// Status of a layer of a consultation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    Running,
    Done,
}

/// Status of a round in a conversation of a debate: the role that has just responded, or the failure of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoundStatus {
    CriticResponded,
    DmResponded,
    Failed,
}

/// The step that follows next in a conversation of a debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoundStep {
    CriticResponding,
    DmResponding,
    Scoring,
}

impl From<RunEvent> for GraphEvent {
    fn from(event: RunEvent) -> GraphEvent {
        let mut value = json!(event);
        let name = value["name"].as_str().unwrap_or_default().to_owned();
        GraphEvent { name, payload: value["payload"].take() }
    }
}

impl RunEvent {
    /// Event name of [`RunEvent::RunEnded`], to find the end of a run without parsing payloads.
    pub const RUN_ENDED: &str = "run_ended";

    /// Event name of [`RunEvent::SandboxScored`], to find the scores of a debate without parsing payloads.
    pub const SANDBOX_SCORED: &str = "sandbox_scored";

    /// Parses a stored event. Returns `None` if this version of assize does not have the event.
    pub fn read(name: &str, payload: &Value) -> Option<RunEvent> {
        serde_json::from_value(json!({"name": name, "payload": payload})).ok()
    }
}

//! Events of a run: their names and payloads. Event names are defined only here.
//!
//! `docs/reference/events.md` lists them for clients; a test compares both.

use assize_graph::GraphEvent;
use assize_types::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::run::RunStatus;

/// Something that happened in a run, as its clients see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", content = "payload", rename_all = "snake_case")]
pub enum RunEvent {
    /// The run ended. A run that is resumed ends again.
    RunEnded {
        status: RunStatus,
        error: Option<String>,
        /// Failure to show the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<Value>")]
        failure: Option<Failure>,
        /// Whether a failed run can be resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumable: Option<bool>,
    },
    /// Model calls of earlier epochs have no recorded answer.
    CallsLost { calls: u64, at_most_usd: f64 },

    /// The model's answer contained a program, or none (`error`).
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
    /// A program ended.
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
    /// The critic answered.
    CodeCriticised { attempt: u32, critique: Option<Value> },
    /// The run makes no more attempts.
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
    /// An agent starts.
    AgentStart { layer: u32, agent_id: String, persona: String },
    /// The documents of an agent are written.
    AgentComplete { layer: u32, agent_id: String, output: Vec<String>, titles: Vec<String> },
    /// A warning about one move, such as a debate without a sandbox.
    Warning {
        #[serde(rename = "move")]
        move_id: String,
        message: String,
    },
    /// A consultation is ranked.
    PipelineComplete { recommended: Vec<String>, other: Vec<String> },
    /// A consultation ended before it was ranked.
    PipelineFailed { error: String },
    /// A consultation was cancelled.
    PipelineCancelled { reason: String },

    /// A role of a debate has answered, or its call failed.
    SandboxRound {
        #[serde(rename = "move")]
        move_id: String,
        round: u32,
        status: RoundStatus,
        next: RoundStep,
        /// Name of the conversation, if the event belongs to one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// All judges have scored.
    SandboxScored {
        #[serde(rename = "move")]
        move_id: String,
        score: u32,
        /// Scores by judge.
        breakdown: Map<String, Value>,
        /// Whether a conversation ended early.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        /// Judges whose calls failed, and that count with a neutral score.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        neutral: Vec<String>,
    },

    /// The worker called a tool.
    ToolCalled { step: u32, tool: String, path: Option<String>, failed: bool },
    /// A draft was submitted.
    #[serde(rename = "DRAFT_READY")]
    DraftReady { task_id: String, submission: Value, message_id: Value },
    /// A draft was applied.
    #[serde(rename = "DRAFT_ACCEPTED")]
    DraftAccepted { task_id: String, submission: Value, reasons: Value },
    /// A draft was rejected.
    #[serde(rename = "DRAFT_REJECTED")]
    DraftRejected { task_id: String, submission: Value, reasons: Value },
    /// A reviewer must decide on a draft.
    #[serde(rename = "DRAFT_ESCALATED")]
    DraftEscalated { task_id: String, submission: Value, reasons: Value },
    /// The worker continues without tools.
    ModeChanged { mode: String, why: String },
    /// The worker has finished.
    WorkFinished { outcome: Value, steps: u32, limit_reached: bool },
}

/// A layer of a consultation: numbered, or its debates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ConsultLayer {
    Number(u32),
    Named(NamedConsultLayer),
}

impl ConsultLayer {
    /// The layer of the debates.
    pub const DEBATES: ConsultLayer = ConsultLayer::Named(NamedConsultLayer::Sandbox);
}

impl From<u32> for ConsultLayer {
    fn from(number: u32) -> ConsultLayer {
        ConsultLayer::Number(number)
    }
}

/// A layer without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedConsultLayer {
    Sandbox,
}

/// Status of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    Running,
    Done,
}

/// Latest step in a round of a debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoundStatus {
    CriticResponded,
    DmResponded,
    Failed,
}

/// Next step in a conversation of a debate.
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
    /// Name of [`RunEvent::RunEnded`], to find the end of a run without reading payloads.
    pub const RUN_ENDED: &str = "run_ended";

    /// Name of [`RunEvent::SandboxScored`].
    pub const SANDBOX_SCORED: &str = "sandbox_scored";

    /// Parses a stored event; `None` if this version does not know the event.
    pub fn read(name: &str, payload: &Value) -> Option<RunEvent> {
        serde_json::from_value(json!({"name": name, "payload": payload})).ok()
    }
}

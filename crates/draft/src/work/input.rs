//! Input of the agent: the task, the mode and the limits.

use assize_gate::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

/// How the agent proposes changes to files.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WorkMode {
    /// The model proposes changes with tool calls.
    #[default]
    Tools,
    /// The model writes the proposed files as text in its answers.
    Text,
    /// The agent starts in the mode `tools`, and switches to the mode `text` if the model calls no tools.
    Auto,
}

impl WorkMode {
    pub const NAMES: &'static [&'static str] = WorkMode::VARIANTS;
}

/// Task of the agent, with its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkTask {
    /// Description of the task in natural language.
    pub task: String,
    pub task_id: TaskId,
    pub mode: WorkMode,
    /// Paths of the files that are shown to a model without tools.
    pub files: Vec<String>,
    /// Maximum number of model calls.
    pub max_steps: u32,
    /// Number of rejected submissions after which the run ends.
    pub max_rejections: u32,
    pub temperature: f64,
    /// Maximum number of output tokens per model call.
    pub max_tokens: u32,
}

/// Default maximum number of model calls per run.
pub const MAX_STEPS: u32 = 40;

/// Default number of rejected submissions after which a run ends.
pub const MAX_REJECTIONS: u32 = 5;

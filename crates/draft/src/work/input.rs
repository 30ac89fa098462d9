//! Task, mode and limits of an agent.

use assize_gate::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

/// How the agent proposes changes.
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
    /// The model calls tools.
    #[default]
    Tools,
    /// The model writes file blocks in its answers.
    Text,
    /// Tools, or text if the model calls none.
    Auto,
}

impl WorkMode {
    pub const NAMES: &'static [&'static str] = WorkMode::VARIANTS;
}

/// A task and its limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkTask {
    pub task: String,
    pub task_id: TaskId,
    pub mode: WorkMode,
    /// Files shown to an agent without tools.
    pub files: Vec<String>,
    /// Maximum number of model calls.
    pub max_steps: u32,
    /// Maximum number of rejections.
    pub max_rejections: u32,
    pub temperature: f64,
    pub max_tokens: u32,
}

/// Default limits of model calls and of rejections.
pub const MAX_STEPS: u32 = 40;
pub const MAX_REJECTIONS: u32 = 5;

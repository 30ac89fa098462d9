//! What a worker is to do, in which mode, and within which limits.

use assize_gate::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

/// How a worker works.
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
#[schemars(rename = "WorkMode")]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
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
    pub const NAMES: &'static [&'static str] = Mode::VARIANTS;
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

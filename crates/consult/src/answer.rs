//! Types of the models' structured answers. Their doc comments are part of the prompts, as schema descriptions.

use std::sync::LazyLock;

use assize_llm::answer::TypedSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What somebody reads out of the material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inference {
    /// What the findings show together, in two to four sentences.
    pub summary: String,
    /// The findings, the weightiest first.
    #[schemars(length(min = 1, max = 12))]
    pub findings: Vec<InferenceFinding>,
}

/// One thing that follows from the material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub struct InferenceFinding {
    /// The finding in a few words.
    pub title: String,
    /// What follows from the material, and why, in two to five sentences.
    pub statement: String,
    /// The figures or events on which the finding rests, each with its period or date, as written in
    /// the material.
    pub evidence: Vec<String>,
}

/// What an analyst proposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Proposal")]
pub struct MoveProposal {
    pub moves: Vec<Move>,
}

/// One thing that the company could do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    /// What the company would do, in at most twelve words.
    pub title: String,
    /// Why the move is right for this company now, in four to eight sentences based on the findings.
    pub thesis: String,
    /// The steps of the move in order, each with the person or team that takes it.
    pub actions: Vec<String>,
    /// What the move costs, in money and attention: your own estimate, marked as an estimate.
    pub cost: String,
    /// How long the move takes to show results, and by when it must have succeeded.
    pub timeline: String,
    /// What could make the move fail, the likeliest first.
    pub risks: Vec<String>,
    /// The findings on which the move rests, by their numbers, such as F1.2.
    pub citations: Vec<String>,
}

impl Move {
    /// Whether the move has enough content to be debated.
    pub(crate) fn is_debatable(&self) -> bool {
        let any = |text: &String| !text.trim().is_empty();
        any(&self.title) && any(&self.thesis) && self.actions.iter().any(any)
    }
}

pub(crate) static INFERENCE: LazyLock<TypedSchema> = LazyLock::new(TypedSchema::of::<Inference>);
pub(crate) static PROPOSAL: LazyLock<TypedSchema> = LazyLock::new(TypedSchema::of::<MoveProposal>);

//! Types of the models' structured answers. Their doc comments are part of the prompts, as schema descriptions.

use std::sync::LazyLock;

use assize_llm::answer::TypedSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What somebody reads out of the material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inference {
    /// What it comes to, in two to four sentences.
    pub summary: String,
    /// The findings, the weightiest first.
    #[schemars(length(min = 1, max = 12))]
    pub findings: Vec<InferenceFinding>,
}

/// One thing that follows from the material.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub struct InferenceFinding {
    /// In a few words.
    pub title: String,
    /// What follows, and why, in two to five sentences.
    pub statement: String,
    /// The figures or events that it rests on, each with its period or date, as they stand in the
    /// material.
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
    /// What is done, in at most twelve words.
    pub title: String,
    /// Why it is right for this company now, in four to eight sentences, resting on the findings.
    pub thesis: String,
    /// What is done first, second and so on, each with who does it.
    pub actions: Vec<String>,
    /// What it costs, in money and attention; an estimate of yours, and said so.
    pub cost: String,
    /// How long it takes until it shows, and by when it must have worked.
    pub timeline: String,
    /// What could make it fail, the likeliest first.
    pub risks: Vec<String>,
    /// The findings that it rests on, by their numbers, such as F1.2.
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

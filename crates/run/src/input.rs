//! What the runner itself reads of a run's input. Each job reads the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assize_llm::Caps;
use assize_types::{Failure, FailureKind, Money};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::run::Run;

/// The part of a run's input that all kinds of runs share.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct RunInput {
    /// Which provider and model answered when the run was started.
    pub provider: String,
    pub model: String,
    /// The isolation that was asked for; it holds when the run is resumed, unless another is asked for then.
    pub isolation: Option<String>,
    /// The region of the workers that run it.
    pub region: Option<String>,
    /// Labels that a worker must have.
    pub needs: BTreeMap<String, String>,
    pub limits: Option<SandboxMemory>,
    /// The folder whose files it edits.
    pub workspace: Option<PathBuf>,
    budget: Budget,
}

/// The limit that decides which worker can take a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SandboxMemory {
    /// In bytes.
    pub memory: u64,
}

/// The budget of a run, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Budget {
    max_cost: Option<f64>,
    max_tokens: Option<u64>,
}

impl RunInput {
    /// Reads the common part of a run's input.
    ///
    /// # Errors
    /// When another version of assize wrote it.
    pub fn of(run: &Run) -> Result<RunInput, Failure> {
        RunInput::deserialize(&run.input).map_err(|error| {
            let message = format!("the input of `{}` cannot be read: {error}", run.id);
            Failure::new(FailureKind::Environment, message)
        })
    }

    /// What may be spent on the run, as it was set when it was started.
    pub fn budget(&self) -> Caps {
        Caps {
            cost: self.budget.max_cost.and_then(Money::from_dollars),
            tokens: self.budget.max_tokens,
        }
    }

    /// Adds budget and labels to the input of a new run.
    pub(crate) fn extend(input: &mut Value, budget: Caps, labels: &BTreeMap<String, String>) {
        if budget.cost.is_some() || budget.tokens.is_some() {
            let max_cost = budget.cost.map(Money::dollars);
            input["budget"] = json!(Budget { max_cost, max_tokens: budget.tokens });
        }
        if !labels.is_empty() {
            input["needs"] = json!(labels);
        }
    }
}

//! The part of a run's input that the runner reads. Each job reads the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assize_llm::BudgetLimits;
use assize_types::{Failure, FailureKind, Money};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::run::Run;

/// The part of a run's input that all kinds of runs share.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct RunInput {
    /// Provider that the run was started with.
    pub provider: String,
    pub model: String,
    /// Requested sandbox isolation. A resumed run keeps it, unless the user requests another.
    pub isolation: Option<String>,
    /// Region of the workers that may execute the run.
    pub region: Option<String>,
    /// Labels that a worker must have.
    pub needs: BTreeMap<String, String>,
    pub limits: Option<SandboxMemory>,
    /// Folder whose files the run edits.
    pub workspace: Option<PathBuf>,
    budget: Budget,
}

/// Memory limit of the run's sandboxes, which decides which workers can execute the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SandboxMemory {
    /// In bytes.
    pub memory: u64,
}

/// Stored form of a run's budget.
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
            let message = format!("cannot read the input of `{}`: {error}", run.id);
            Failure::new(FailureKind::Environment, message)
        })
    }

    /// Budget that the run was started with.
    pub fn budget(&self) -> BudgetLimits {
        BudgetLimits {
            cost: self.budget.max_cost.and_then(Money::from_dollars),
            tokens: self.budget.max_tokens,
        }
    }

    /// Adds budget and labels to the input of a new run.
    pub(crate) fn extend(
        input: &mut Value,
        budget: BudgetLimits,
        labels: &BTreeMap<String, String>,
    ) {
        if budget.cost.is_some() || budget.tokens.is_some() {
            let max_cost = budget.cost.map(Money::dollars);
            input["budget"] = json!(Budget { max_cost, max_tokens: budget.tokens });
        }
        if !labels.is_empty() {
            input["needs"] = json!(labels);
        }
    }
}

//! Fields that the inputs of all kinds of runs have. The job of each kind defines the other fields of the input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use assize_llm::BudgetLimits;
use assize_types::{Failure, FailureKind, Money};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::run::{Run, RunId};
use crate::store::Store;

/// Name of the artifact that contains the new budget of a run, if the run was resumed with a different budget.
const BUDGET: &str = "budget.json";

/// Fields that the inputs of all kinds of runs have.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct RunInput {
    /// Provider that the run was started with.
    pub provider: String,
    pub model: String,
    /// Requested sandbox backend. A resumed run uses the same backend, unless the user requests a different one.
    pub isolation: Option<String>,
    /// Region of the workers that may execute the run.
    pub region: Option<String>,
    /// Labels that a worker must have to execute the run.
    pub needs: BTreeMap<String, String>,
    pub limits: Option<SandboxMemory>,
    /// Folder whose files the run edits.
    pub workspace: Option<PathBuf>,
    budget: Budget,
}

/// Memory limit of the run's sandboxes, which decides which workers can execute the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SandboxMemory {
    /// Memory limit of one sandbox, in bytes.
    pub memory: u64,
}

/// Budget of a run, in the form that is stored in the run's input.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Budget {
    max_cost: Option<f64>,
    max_tokens: Option<u64>,
}

impl RunInput {
    /// Parses the input of a run. Reads only the fields that the inputs of all kinds of runs have.
    ///
    /// # Errors
    /// When another version of assize wrote the input in a different format.
    pub fn of(run: &Run) -> Result<RunInput, Failure> {
        RunInput::deserialize(&run.input).map_err(|error| unreadable(&run.id, &error))
    }

    /// Budget that the run was started with, or the run's current budget if [`with_current_budget`] was applied to the
    /// run before this input was parsed.
    pub fn budget(&self) -> BudgetLimits {
        BudgetLimits {
            cost: self.budget.max_cost.and_then(Money::from_dollars),
            tokens: self.budget.max_tokens,
        }
    }

    /// Adds the budget and the required worker labels to the input of a new run.
    pub(crate) fn extend(
        input: &mut Value,
        budget: BudgetLimits,
        labels: &BTreeMap<String, String>,
    ) {
        if budget.cost.is_some() || budget.tokens.is_some() {
            input["budget"] = json!(Budget::from(budget));
        }
        if !labels.is_empty() {
            input["needs"] = json!(labels);
        }
    }
}

impl From<BudgetLimits> for Budget {
    fn from(budget: BudgetLimits) -> Budget {
        Budget { max_cost: budget.cost.map(Money::dollars), max_tokens: budget.tokens }
    }
}

/// Replaces the budget in the run's input by the current budget, if the run was resumed with a different budget than it
/// was started with. Otherwise returns the run unchanged.
pub async fn with_current_budget(store: &dyn Store, mut run: Run) -> Result<Run, Failure> {
    let artifacts = store.artifacts(&run.id).await?;
    if let Some(changed) = artifacts.iter().find(|artifact| artifact.name == BUDGET) {
        let bytes = store.artifact(changed.id).await?;
        let budget: Value =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(&run.id, &error))?;
        run.input["budget"] = budget;
    }
    Ok(run)
}

/// Stores the new budget of a resumed run.
pub(crate) async fn store_budget(
    store: &dyn Store,
    run: &RunId,
    budget: BudgetLimits,
) -> Result<(), Failure> {
    let bytes = json!(Budget::from(budget)).to_string().into_bytes();
    store.put_artifact(run, BUDGET, bytes).await?;
    Ok(())
}

fn unreadable(run: &RunId, error: &serde_json::Error) -> Failure {
    let message = format!("cannot read the stored input of `{run}`: {error}");
    Failure::new(FailureKind::Environment, message)
}

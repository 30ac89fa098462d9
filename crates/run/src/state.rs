//! Lookup of runs by id or prefix, and the state of a run that users see.

use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lease::LeaseHolder;
use crate::run::{Run, RunFilter, RunId, RunStatus};
use crate::store::Store;

/// Name that users can enter instead of a run id, for the run that was created last.
const LATEST: &str = "latest";

/// Finds a run by its id or by a unique prefix of its id. The name `latest` finds the run that was created last.
pub async fn find(store: &dyn Store, name: &str) -> Result<Run, Failure> {
    if name == LATEST {
        let mut runs = store.runs(RunFilter { limit: 1, ..RunFilter::default() }).await?;
        return if runs.is_empty() { Err(no_such_run(name)) } else { Ok(runs.swap_remove(0)) };
    }
    let filter = RunFilter { prefix: Some(name.to_owned()), ..RunFilter::default() };
    let mut runs = if name.is_empty() { Vec::new() } else { store.runs(filter).await? };
    if let Some(exact) = runs.iter().position(|run| run.id.as_str() == name) {
        return Ok(runs.swap_remove(exact));
    }
    match runs.len() {
        1 => Ok(runs.swap_remove(0)),
        0 => Err(no_such_run(name)),
        _ => {
            let names: Vec<&str> = runs.iter().take(5).map(|run| run.id.as_str()).collect();
            let more = if runs.len() > 5 { ", …" } else { "" };
            let message = format!("`{name}` matches {} runs", runs.len());
            let hint = format!("specify one of these runs: {}{more}", names.join(", "));
            Err(Failure::new(FailureKind::Usage, message).hint(hint))
        }
    }
}

/// Creates the failure for a run that does not exist.
pub fn no_such_run(name: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("there is no run `{name}`"))
        .hint("`assize runs list` lists all runs")
}

/// State of a run that users see. Unlike [`RunStatus`], the state depends on whether the lease holder is alive.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunState {
    /// The run is queued for a worker of the cluster.
    Waiting,
    Running,
    /// The run has not ended, but its lease holder has exited or released the lease.
    Stopped,
    Done,
    Failed,
    Cancelled,
}

impl RunState {
    pub fn of(run: &Run) -> RunState {
        match run.status {
            RunStatus::Running if LeaseHolder::is_waiting(run) => RunState::Waiting,
            RunStatus::Running if LeaseHolder::of(run).is_none() => RunState::Stopped,
            RunStatus::Running => RunState::Running,
            RunStatus::Done => RunState::Done,
            RunStatus::Failed => RunState::Failed,
            RunStatus::Cancelled => RunState::Cancelled,
        }
    }

    /// Stored status of every run in this state.
    pub fn status(self) -> RunStatus {
        match self {
            RunState::Waiting | RunState::Running | RunState::Stopped => RunStatus::Running,
            RunState::Done => RunStatus::Done,
            RunState::Failed => RunStatus::Failed,
            RunState::Cancelled => RunStatus::Cancelled,
        }
    }

    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Returns a failure if a process holds the lease of a run. `what` is the past participle of the refused operation,
/// such as `removed`, for the message. `instead` is the hint of the failure.
pub fn refuse_if_held(run: &Run, what: &str, instead: &str) -> Result<(), Failure> {
    match LeaseHolder::of(run) {
        None => Ok(()),
        Some(holder) => {
            let message = format!("`{}` cannot be {what}: {holder} holds its lease", run.id);
            Err(Failure::new(FailureKind::Usage, message).hint(instead))
        }
    }
}

/// Message with the command that resumes a run. `flags` are appended to the command.
pub fn how_to_resume(id: &RunId, flags: &str) -> String {
    format!("saved as {id}; resume with `assize runs resume {id}{flags}`")
}

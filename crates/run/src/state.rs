//! Runs as users name them, and the state they see.

use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::RunKind;
use crate::lease::LeaseHolder;
use crate::run::{Run, RunFilter, RunId, RunStatus};
use crate::store::Store;

/// The name of the run that was made last.
const LATEST: &str = "latest";

/// Finds a run by its name, by a beginning of it that no other has, or as the latest.
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
            let message = format!("`{name}` could be any of {} runs", runs.len());
            let hint = format!("name one of them: {}{more}", names.join(", "));
            Err(Failure::new(FailureKind::Usage, message).hint(hint))
        }
    }
}

/// The failure of a command that names no run.
pub fn no_such_run(name: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("there is no run `{name}`"))
        .hint("`assize runs list` shows those there are")
}

/// The state of a run, as users see it: the store does not know whether the lease holder is alive.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunState {
    /// For a worker of the cluster.
    Waiting,
    Running,
    /// The lease holder is gone.
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

    /// The status in the store of runs in this state.
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

/// Refuses to touch a run while another process holds its lease.
pub fn refuse_if_held(run: &Run, what: &str, instead: &str) -> Result<(), Failure> {
    match LeaseHolder::of(run) {
        None => Ok(()),
        Some(holder) => {
            let message = format!("{holder} is working on `{}`, so it cannot be {what}", run.id);
            Err(Failure::new(FailureKind::Usage, message).hint(instead))
        }
    }
}

/// How to resume a run; `flags` stand at the end of the command.
pub fn how_to_resume(kind: RunKind, id: &RunId, flags: &str) -> String {
    match kind {
        RunKind::Debate => format!("kept as {id}; go on with `assize debate --resume {id}{flags}`"),
        _ => format!("kept as {id}; go on with `assize runs resume {id}{flags}`"),
    }
}

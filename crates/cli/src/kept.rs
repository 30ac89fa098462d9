//! The store, as the commands use it: where it is, which run is meant, who works on it.

use std::path::PathBuf;
use std::sync::Arc;

use assize_store::{
    Access, Durability, Run, RunFilter, RunId, RunStatus, SqliteStore, Store, StoreError,
};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};

/// Where the store is, by the settings.
pub(crate) fn path(config: &Config, around: &Surroundings) -> PathBuf {
    match config.text("store.path") {
        Some(path) => match path.strip_prefix("~/") {
            Some(rest) => around.home.join(rest),
            None => around.working_folder.join(path),
        },
        None => around.state_folder.join("store.db"),
    }
}

/// Opens the store to write, making it if need be.
pub(crate) fn open(config: &Config, around: &Surroundings) -> Result<Arc<dyn Store>, Failure> {
    config.refuse_withheld()?;
    let durability = match config.text("store.durability") {
        Some("power-loss") => Durability::PowerLoss,
        _ => Durability::ProcessCrash,
    };
    Ok(Arc::new(SqliteStore::open(&path(config, around), Access::Write(durability))?))
}

/// Opens the store to read; `None` where nothing was ever kept.
pub(crate) fn open_to_read(
    config: &Config,
    around: &Surroundings,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    config.refuse_withheld()?;
    let path = path(config, around);
    if !path.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    match SqliteStore::open(&path, Access::Read) {
        Ok(store) => Ok(Some(Arc::new(store))),
        Err(StoreError::Empty { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The run that is meant by its name, or by a beginning of it that no other has.
pub(crate) async fn find(store: &dyn Store, name: &str) -> Result<Run, Failure> {
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

pub(crate) fn no_such_run(name: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("there is no run `{name}`"))
        .hint("`assize runs list` shows those there are")
}

/// A process that works on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    host: String,
    pub(crate) pid: u32,
    /// When the process began, in the kernel's own count: numbers of processes are used again.
    started: u64,
}

impl Holder {
    pub(crate) fn this_process() -> Holder {
        let pid = std::process::id();
        Holder { host: host(), pid, started: started(pid).unwrap_or_default() }
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The live process that works on this run, if there is one. Of other machines we cannot know.
    pub(crate) fn of(run: &Run) -> Option<Holder> {
        if run.status != RunStatus::Running {
            return None;
        }
        let holder: Holder = serde_json::from_str(run.holder.as_deref()?).ok()?;
        let alive = holder.host != host() || started(holder.pid) == Some(holder.started);
        alive.then_some(holder)
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host == host() {
            write!(f, "process {}", self.pid)
        } else {
            write!(f, "process {} on {}", self.pid, self.host)
        }
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// When a process began; `None` if there is none of that number.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything; the figures follow its last bracket.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// How a run stands, as people see it: one whose process is gone is stopped, not running.
pub(crate) fn status(run: &Run) -> &'static str {
    match run.status {
        RunStatus::Running if Holder::of(run).is_none() => "stopped",
        status => status.name(),
    }
}

/// Refuses to touch a run that somebody works on.
pub(crate) fn refuse_if_held(run: &Run, what: &str, instead: &str) -> Result<(), Failure> {
    match Holder::of(run) {
        None => Ok(()),
        Some(holder) => {
            let message = format!("{holder} is working on `{}`, so it cannot be {what}", run.id);
            Err(Failure::new(FailureKind::Usage, message).hint(instead))
        }
    }
}

/// Says to go on with a run by its name.
pub(crate) fn how_to_resume(kind: &str, id: &RunId) -> String {
    format!("kept as {id}; go on with `assize {kind} --resume {id}`")
}

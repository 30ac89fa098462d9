//! Who holds the lease on a run, as it is stored with the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::run::{Run, RunId, RunStatus};
use crate::store::Store;

/// What the process that holds a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A command, for one run.
    #[default]
    Command,
    /// A server, which resumes its runs when it is started again.
    Server,
    /// A worker, which executes the jobs of a cluster.
    Worker,
}

/// A process that holds the lease on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    host: String,
    /// Changes whenever the machine is started, and not with its name.
    boot: String,
    /// Process ids mean something within it alone.
    name_space: String,
    pub pid: u32,
    /// When the process began, in the kernel's own count: process ids are used again.
    started: u64,
    #[serde(default)]
    pub role: Role,
    /// It has released the lease.
    #[serde(default)]
    released: bool,
    /// In a cluster: its node. There, a process that dies is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How many records there were when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<usize>,
    /// How many holders have died over the run, one after the other, without progress.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u64,
    /// The nodes that could not begin it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused: BTreeSet<String>,
    /// Settings that were asked for when the run was put on the queue again: they hold until it ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LeaseHolder {
    /// This process; in a worker, as a node of its cluster.
    pub fn this_process(role: Role, node: Option<&str>) -> LeaseHolder {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let name_space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid = std::process::id();
        LeaseHolder {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            name_space: name_space.display().to_string(),
            pid,
            started: started(pid).unwrap_or_default(),
            role,
            released: false,
            node: node.map(str::to_owned),
            records: None,
            deaths: 0,
            refused: BTreeSet::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Whether the run waits for a worker of a cluster.
    pub fn is_waiting(run: &Run) -> bool {
        LeaseHolder::last(run).is_some_and(|last| last.released && last.node.is_some())
    }

    /// As it is stored with the run.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same, after it has released the lease.
    #[must_use]
    pub fn released(self) -> LeaseHolder {
        LeaseHolder { released: true, ..self }
    }

    /// Whether it is this process, which has not released the lease.
    fn is_here(&self) -> bool {
        let us = LeaseHolder::this_process(self.role, None);
        let same = (self.pid, self.started) == (us.pid, us.started);
        same && !self.released && !self.is_elsewhere()
    }

    /// Whether it is in another container or on another machine, where this process cannot see if it is alive.
    pub fn is_elsewhere(&self) -> bool {
        let us = LeaseHolder::this_process(self.role, None);
        (&self.boot, &self.name_space) != (&us.boot, &us.name_space)
    }

    /// The last holder of a run that has not ended, alive or not.
    pub fn last(run: &Run) -> Option<LeaseHolder> {
        let holder = run.holder.as_deref().filter(|_| run.status == RunStatus::Running)?;
        serde_json::from_str(holder).ok()
    }

    /// The holder of a run, unless it is known to be gone. Of other machines and containers that is not known.
    pub fn of(run: &Run) -> Option<LeaseHolder> {
        let holder = LeaseHolder::last(run).filter(|holder| !holder.released)?;
        if holder.node.is_some() {
            return Some(holder);
        }
        let us = LeaseHolder::this_process(Role::default(), None);
        let gone = match (holder.boot == us.boot, holder.name_space == us.name_space) {
            (true, true) => started(holder.pid) != Some(holder.started),
            (true, false) => false,
            // The same machine, started anew since.
            (false, _) => holder.host == us.host,
        };
        (!gone).then_some(holder)
    }
}

impl fmt::Display for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        let us = LeaseHolder::this_process(Role::default(), None);
        match (self.host == us.host, self.name_space == us.name_space) {
            (false, _) => write!(f, " on {}", self.host),
            (true, false) => f.write_str(" in another container"),
            (true, true) => Ok(()),
        }
    }
}

/// Releases the lease of a run that has not ended: it is resumed later, or its end could not be stored.
pub async fn release(store: &dyn Store, id: &RunId, epoch: u64) {
    let release = async {
        let run = store.run(id).await?;
        let ours = LeaseHolder::last(&run).filter(|last| run.epoch == epoch && last.is_here());
        if let Some(ours) = ours {
            store.claim(id, &ours.released().to_text(), Some(epoch)).await?;
        }
        Ok::<_, StoreError>(())
    };
    match release.await {
        Ok(()) | Err(StoreError::NoSuchRun(_) | StoreError::Fenced(_)) => {}
        Err(error) => tracing::warn!(run = %id, %error, "cannot release the lease"),
    }
}

/// When a process began; `None` if there is none with that id, or it has ended and only waits to be reaped.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything; the figures follow its last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

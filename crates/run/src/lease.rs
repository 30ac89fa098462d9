//! Lease holder of a run: the description of the process that claimed the run. The store stores this description with
//! the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::run::{Run, RunId, RunStatus};
use crate::store::Store;

/// Role of the process that holds the lease on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The process is a command that executes one run.
    #[default]
    Command,
    /// The process is a server, which resumes its runs when it restarts.
    Server,
    /// The process is a worker, which executes jobs of a cluster.
    Worker,
}

/// Description of the process that holds, or last held, the lease on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseHolder {
    host: String,
    /// Boot id of the machine. It changes with every boot, but not when the host name changes.
    boot: String,
    /// PID namespace of the process. Process ids are unique only within a PID namespace.
    name_space: String,
    pub pid: u32,
    /// Start time of the process in clock ticks since boot. It tells apart two processes that got the same process id.
    started: u64,
    #[serde(default)]
    pub role: Role,
    /// Whether the process has released the lease, so that another process may claim the run.
    #[serde(default)]
    released: bool,
    /// Name of the cluster node; `None` outside of a cluster. In a cluster, another worker resumes the run if the
    /// process dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Number of journal records that the run had when the process claimed the lease. Records of lost calls are not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<usize>,
    /// Number of consecutive lease holders that died without adding a record to the run's journal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deaths: u64,
    /// Names of the cluster nodes that could not start the run.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub refused: BTreeSet<String>,
    /// Settings that the user set when the run was queued. They apply until the run ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LeaseHolder {
    /// Creates the description of this process. In a worker, `node` is the name of its cluster node.
    pub fn this_process(role: Role, node: Option<&str>) -> LeaseHolder {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let name_space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid = std::process::id();
        LeaseHolder {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            name_space: name_space.display().to_string(),
            pid,
            started: process_start_time(pid).unwrap_or_default(),
            role,
            released: false,
            node: node.map(str::to_owned),
            records: None,
            deaths: 0,
            refused: BTreeSet::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Whether the run is queued for a worker of a cluster.
    pub fn is_waiting(run: &Run) -> bool {
        LeaseHolder::last(run).is_some_and(|last| last.released && last.node.is_some())
    }

    /// Serializes the lease holder to JSON, the form in which it is stored.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns this lease holder, marked as having released the lease.
    #[must_use]
    pub fn released(self) -> LeaseHolder {
        LeaseHolder { released: true, ..self }
    }

    /// Whether this process is the lease holder and has not released the lease.
    fn is_this_process(&self) -> bool {
        let us = LeaseHolder::this_process(self.role, None);
        let same = (self.pid, self.started) == (us.pid, us.started);
        same && !self.released && !self.is_elsewhere()
    }

    /// Whether the lease holder runs in another container or on another machine than this process, or ran before the
    /// last boot of this machine. Its process id then has no meaning for this process.
    pub fn is_elsewhere(&self) -> bool {
        let us = LeaseHolder::this_process(self.role, None);
        (&self.boot, &self.name_space) != (&us.boot, &us.name_space)
    }

    /// The last lease holder of a run, even if the holder is dead; `None` if the run has ended.
    pub fn last(run: &Run) -> Option<LeaseHolder> {
        let holder = run.holder.as_deref().filter(|_| run.status == RunStatus::Running)?;
        serde_json::from_str(holder).ok()
    }

    /// The lease holder of a run; `None` if the holder has released the lease or is known to be dead. A lease holder on
    /// another machine, in another container or in a cluster counts as alive.
    pub fn of(run: &Run) -> Option<LeaseHolder> {
        let holder = LeaseHolder::last(run).filter(|holder| !holder.released)?;
        if holder.node.is_some() {
            return Some(holder);
        }
        let us = LeaseHolder::this_process(Role::default(), None);
        let gone = match (holder.boot == us.boot, holder.name_space == us.name_space) {
            (true, true) => process_start_time(holder.pid) != Some(holder.started),
            (true, false) => false,
            // Another boot id: the lease holder is dead if it ran on this machine before the last reboot.
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

/// Releases the lease that this process holds on a run that has not ended, so that another process can resume the run.
pub async fn release(store: &dyn Store, id: &RunId, epoch: u64) {
    let release = async {
        let run = store.run(id).await?;
        let ours =
            LeaseHolder::last(&run).filter(|last| run.epoch == epoch && last.is_this_process());
        if let Some(ours) = ours {
            store.claim(id, &ours.released().to_text(), Some(epoch)).await?;
        }
        Ok::<_, StoreError>(())
    };
    match release.await {
        Ok(()) | Err(StoreError::NoSuchRun(_) | StoreError::Fenced(_)) => {}
        Err(error) => tracing::warn!(run = %id, %error, "cannot release the lease on the run"),
    }
}

/// Start time of a process in clock ticks since boot; `None` if the process does not exist or is a zombie.
fn process_start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field of `/proc/PID/stat` is the program name in parentheses. It may contain spaces and `)`, so the
    // other fields are those after the last `)`.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

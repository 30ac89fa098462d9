//! Status of a cluster: its nodes, queued jobs, stuck jobs and runs, and dead letters.

use assize_cluster::{ClusterClient, QueueCounts, RUN, Requirements, SlotKind, StreamStatus};
use assize_run::{LeaseHolder, Run, RunFilter, RunId, RunKind, RunStatus, Store};
use assize_types::Failure;
use schemars::JsonSchema;
use serde::Serialize;

pub use assize_cluster::{ClusterNode, DeadLetter, NodeRole, VERSION};

/// Status of a cluster: its nodes, queued jobs, stuck jobs and runs, and dead letters.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ClusterStatus {
    pub nodes: Vec<ClusterNode>,
    /// Maximum number of sandboxes that all workers together run concurrently.
    pub slots: u32,
    /// Number of sandboxes that are in use.
    pub busy: u32,
    /// Number of runs that a process is executing.
    pub running: usize,
    /// Number of runs that wait for a worker.
    pub waiting: usize,
    pub queue: Vec<QueueStatus>,
    pub streams: Vec<StreamStatus>,
    pub stuck: Vec<StuckWork>,
    /// Jobs that were removed from the queue because no worker can execute them, newest first.
    pub dead_letters: Vec<DeadLetter>,
}

/// Maximum number of dead letters that the status lists.
const MAX_DEAD_LETTERS: usize = 50;

/// How many jobs with the same requirements are queued, and how many workers can execute such jobs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct QueueStatus {
    #[serde(flatten)]
    pub line: QueueCounts,
    /// Number of workers that meet the requirements.
    pub workers: usize,
}

/// Run that makes no progress, or queued jobs that no worker can execute.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StuckWork {
    /// Id of the stuck run; for stuck jobs, the number of jobs as text, such as `3 queued jobs`.
    pub subject: String,
    pub why: String,
}

impl ClusterStatus {
    pub async fn of(member: &ClusterClient, store: &dyn Store) -> Result<ClusterStatus, Failure> {
        let nodes = member.cluster.nodes().await?;
        let workers: Vec<&ClusterNode> =
            nodes.iter().filter(|node| node.role == NodeRole::Worker).collect();
        let waiting = |line: QueueCounts| {
            let is_able = |worker: &&&ClusterNode| {
                worker.speaks == VERSION && worker.capabilities.meet(&line.needs)
            };
            QueueStatus { workers: workers.iter().filter(is_able).count(), line }
        };
        let queue: Vec<QueueStatus> =
            member.queue.lines().await?.into_iter().map(waiting).collect();
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let runs = store.runs(filter).await?;
        let mut stuck = Vec::new();
        for line in &queue {
            if line.line.waiting > 0 && line.workers == 0 {
                let count = line.line.waiting;
                let jobs = if count == 1 { "job" } else { "jobs" };
                let subject = format!("{count} queued {jobs}");
                let why = format!(
                    "no worker meets the requirements ({})",
                    format_requirements(&line.line.needs)
                );
                stuck.push(StuckWork { subject, why });
            }
        }
        for run in &runs {
            if let Some(why) = why_stuck(member, run, &nodes).await? {
                stuck.push(StuckWork { subject: RunId::to_string(&run.id), why });
            }
        }
        let waiting = runs.iter().filter(|run| LeaseHolder::is_waiting(run)).count();
        Ok(ClusterStatus {
            slots: workers.iter().map(|worker| worker.slots).sum(),
            busy: workers.iter().map(|worker| worker.busy).sum(),
            running: runs.len() - waiting,
            waiting,
            queue,
            streams: member.cluster.streams().await?,
            stuck,
            dead_letters: member.queue.dead_letters(MAX_DEAD_LETTERS).await?,
            nodes,
        })
    }
}

/// Formats the requirements of a job as text, such as `a sandbox of 256 MB, region north`.
pub fn format_requirements(needs: &Requirements) -> String {
    let labels = needs.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let mut parts: Vec<String> = Vec::new();
    parts.extend((needs.place == SlotKind::Sandbox).then(|| match &needs.isolation {
        Some(isolation) => format!("a sandbox ({isolation}) of {} MB", needs.memory),
        None => format!("a sandbox of {} MB", needs.memory),
    }));
    parts.extend(needs.region.as_ref().map(|region| format!("region {region}")));
    parts.extend(labels);
    if parts.is_empty() { "no sandbox needed".to_owned() } else { parts.join(", ") }
}

/// Returns why a run makes no progress; `None` if the run makes progress.
async fn why_stuck(
    member: &ClusterClient,
    run: &Run,
    nodes: &[ClusterNode],
) -> Result<Option<String>, Failure> {
    let Some(last) = LeaseHolder::last(run).filter(|_| run.kind != RunKind::Work) else {
        return Ok(None);
    };
    let Some(node) = &last.node else { return Ok(None) };
    let queued = member.queue.has(RUN, run.id.as_str()).await?;
    if LeaseHolder::is_waiting(run) {
        let why = "the run waits for a worker, but its job is not in the queue yet";
        return Ok((!queued).then(|| why.to_owned()));
    }
    let holder = nodes.iter().find(|candidate| candidate.id == *node);
    Ok(match holder {
        None => Some(format!("the lease holder ({last}) does not reply")),
        Some(holder) if !holder.leases.iter().any(|held| held == run.id.as_str()) => {
            Some(format!("the lease holder ({last}) no longer executes the run"))
        }
        Some(_) => None,
    })
}

//! How a cluster is: who takes part, what waits, what is stuck.

use assize_cluster::{Line, Member, Place, RUN, Stream};
use assize_run::{LeaseHolder, Run, RunFilter, RunId, RunKind, RunStatus, Store};
use assize_types::Failure;
use schemars::JsonSchema;
use serde::Serialize;

pub use assize_cluster::{DeadLetter, Node, NodeRole, VERSION};

/// How a cluster is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ClusterStatus")]
pub struct Status {
    pub nodes: Vec<Node>,
    /// Sandboxes that all workers can have at once, and have.
    pub slots: u32,
    pub busy: u32,
    /// Runs that somebody holds, and that wait for somebody.
    pub running: usize,
    pub waiting: usize,
    pub queue: Vec<Waiting>,
    pub streams: Vec<Stream>,
    pub stuck: Vec<Stuck>,
    /// Messages that no worker can run, the newest first.
    pub dead_letters: Vec<DeadLetter>,
}

/// Dead letters that are shown.
const DEAD_LETTERS: usize = 50;

/// A line in which work waits.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "QueueStatus")]
pub struct Waiting {
    #[serde(flatten)]
    pub line: Line,
    /// How many workers can do it.
    pub workers: usize,
}

/// Something that does not get on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "StuckWork")]
pub struct Stuck {
    pub what: String,
    pub why: String,
}

impl Status {
    pub async fn of(member: &Member, store: &dyn Store) -> Result<Status, Failure> {
        let nodes = member.cluster.who().await?;
        let workers: Vec<&Node> =
            nodes.iter().filter(|node| node.role == NodeRole::Worker).collect();
        let waiting = |line: Line| {
            let can =
                |worker: &&&Node| worker.speaks == VERSION && worker.abilities.meet(&line.needs);
            Waiting { workers: workers.iter().filter(can).count(), line }
        };
        let queue: Vec<Waiting> = member.queue.lines().await?.into_iter().map(waiting).collect();
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let runs = store.runs(filter).await?;
        let mut stuck = Vec::new();
        for line in &queue {
            if line.line.waiting > 0 && line.workers == 0 {
                let what = format!("{} pieces of work", line.line.waiting);
                let why = format!("no worker can do what needs {}", needs(line));
                stuck.push(Stuck { what, why });
            }
        }
        for run in &runs {
            if let Some(why) = why_stuck(member, run, &nodes).await? {
                stuck.push(Stuck { what: RunId::to_string(&run.id), why });
            }
        }
        let waits = runs.iter().filter(|run| LeaseHolder::is_waiting(run)).count();
        Ok(Status {
            slots: workers.iter().map(|worker| worker.slots).sum(),
            busy: workers.iter().map(|worker| worker.busy).sum(),
            running: runs.len() - waits,
            waiting: waits,
            queue,
            streams: member.cluster.streams().await?,
            stuck,
            dead_letters: member.queue.dead_letters(DEAD_LETTERS).await?,
            nodes,
        })
    }
}

/// What a line needs, in words.
pub fn needs(line: &Waiting) -> String {
    let needs = &line.line.needs;
    let labels = needs.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let mut words: Vec<String> = Vec::new();
    words.extend((needs.place == Place::Sandbox).then(|| match &needs.isolation {
        Some(walls) => format!("a sandbox ({walls}) of {} MB", needs.memory),
        None => format!("a sandbox of {} MB", needs.memory),
    }));
    words.extend(needs.region.as_ref().map(|region| format!("region {region}")));
    words.extend(labels);
    if words.is_empty() { "no sandbox".to_owned() } else { words.join(", ") }
}

/// Why nobody gets on with a run, if nobody does.
async fn why_stuck(member: &Member, run: &Run, nodes: &[Node]) -> Result<Option<String>, Failure> {
    let Some(last) = LeaseHolder::last(run).filter(|_| run.kind != RunKind::Work) else {
        return Ok(None);
    };
    let Some(node) = &last.node else { return Ok(None) };
    let queued = member.queue.has(RUN, run.id.as_str()).await?;
    if LeaseHolder::is_waiting(run) {
        return Ok((!queued).then(|| "it waits, and is not on the queue yet".to_owned()));
    }
    let there = nodes.iter().find(|one| one.id == *node);
    Ok(match there {
        None => Some(format!("{last}, which holds it, does not answer")),
        Some(there) if !there.holds.iter().any(|held| held == run.id.as_str()) => {
            Some(format!("{last} has let it go"))
        }
        Some(_) => None,
    })
}

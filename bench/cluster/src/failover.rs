//! Measures the failover time: how long it takes until other workers resume the work of a killed worker.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::processes::{BenchCluster, ClusterSize};

/// Failover times for two kinds of killed workers: workers that only executed debates of a run, and workers that held
/// the lease on the run.
pub(crate) struct FailoverTimes {
    pub(crate) debates: Vec<Duration>,
    pub(crate) runs: Vec<Duration>,
}

/// Ids of the proposed business moves whose debates a worker has started, according to the log of the worker.
fn started_debates(log: &Path, run: &str) -> anyhow::Result<Vec<String>> {
    let log = std::fs::read_to_string(log)?;
    let taken = log.lines().filter(|line| line.contains("job received") && line.contains(run));
    let debate = |line: &str| {
        let (_, about) = line.split_once("debate ")?;
        Some(about.split(' ').next()?.rsplit('-').next()?.to_owned())
    };
    Ok(taken.filter_map(debate).collect())
}

/// Whether a worker has claimed the job that executes the whole run (not only one of its debates), according to the log
/// of the worker.
fn claimed_run(log: &Path, run: &str) -> anyhow::Result<bool> {
    let log = std::fs::read_to_string(log)?;
    Ok(log.lines().any(|line| line.contains(&format!("\"run {run} "))))
}

pub(crate) fn measure(
    assize: &Path,
    servers: usize,
    count: usize,
) -> anyhow::Result<FailoverTimes> {
    let mut deaths = FailoverTimes { debates: Vec::new(), runs: Vec::new() };
    for number in 0..2 * count {
        // Kill alternately the worker that holds the lease on the run, and a worker that only executes debates.
        let kill_lease_holder = number % 2 == 0;
        // The other workers have enough slots for the debates of the killed worker.
        let plan = ClusterSize { servers, workers: 3, slots: 8, latency: 300 };
        let mut crew = BenchCluster::start(assize, &plan)?;
        let run = crew.start_consultation("NVDA", 50)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        let victim = loop {
            ensure!(
                Instant::now() < deadline,
                "found no suitable worker to kill within 60 s of the start of the consultation"
            );
            std::thread::sleep(Duration::from_millis(100));
            let mut found = None;
            for (index, worker) in crew.workers.iter().enumerate() {
                let busy = !started_debates(&worker.log, &run)?.is_empty();
                if (busy || kill_lease_holder)
                    && claimed_run(&worker.log, &run)? == kill_lease_holder
                {
                    found = Some(index);
                }
            }
            if let Some(found) = found {
                break found;
            }
        };
        // Wait until the debates are in progress.
        std::thread::sleep(Duration::from_secs(1));
        let mut dead = crew.workers.remove(victim);
        let moves = started_debates(&dead.log, &run)?;
        let died = SystemTime::now().duration_since(UNIX_EPOCH)?;
        dead.child.kill()?;
        dead.child.wait()?;
        let resumed = loop {
            ensure!(
                Instant::now() < deadline,
                "the work of the killed worker was not resumed within 60 s after the start of the consultation"
            );
            std::thread::sleep(Duration::from_millis(100));
            let exported = crew.get(&format!("/api/runs/{run}/export"))?;
            let events =
                exported["events"].as_array().context("the exported run has no list of events")?;
            let after = |event: &&Value| {
                let at = event["at"].as_u64().unwrap_or_default();
                // Events of the next second do not count: calls in flight at the kill may still be recorded.
                let later = u128::from(at) > died.as_millis() + 1000;
                let of_its_work = kill_lease_holder
                    || moves.iter().any(|one| event["payload"]["move"] == one.as_str());
                later && of_its_work && event["name"] == "sandbox_round"
            };
            if let Some(event) = events.iter().find(after) {
                break Duration::from_millis(event["at"].as_u64().unwrap_or_default());
            }
        };
        let took = resumed.saturating_sub(died);
        if kill_lease_holder { deaths.runs.push(took) } else { deaths.debates.push(took) }
    }
    Ok(deaths)
}

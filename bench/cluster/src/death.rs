//! How long it takes until what a dead worker had begun goes on.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::crew::{Crew, Plan};

/// From the deaths of workers that held debates, and of those that held the run.
pub(crate) struct Deaths {
    pub(crate) debates: Vec<Duration>,
    pub(crate) runs: Vec<Duration>,
}

/// The moves whose debates a worker has begun.
fn begun(log: &Path, run: &str) -> anyhow::Result<Vec<String>> {
    let log = std::fs::read_to_string(log)?;
    let taken = log.lines().filter(|line| line.contains("taken") && line.contains(run));
    let debate = |line: &str| {
        let (_, about) = line.split_once("debate ")?;
        Some(about.split(' ').next()?.rsplit('-').next()?.to_owned())
    };
    Ok(taken.filter_map(debate).collect())
}

/// Whether a worker has begun the run itself.
fn holds(log: &Path, run: &str) -> anyhow::Result<bool> {
    let log = std::fs::read_to_string(log)?;
    Ok(log.lines().any(|line| line.contains(&format!("\"run {run} "))))
}

pub(crate) fn measure(assize: &Path, servers: usize, count: usize) -> anyhow::Result<Deaths> {
    let mut deaths = Deaths { debates: Vec::new(), runs: Vec::new() };
    for number in 0..2 * count {
        // Every other time it is the one that holds the run.
        let held = number % 2 == 0;
        // With room for what the other had.
        let plan = Plan { servers, workers: 3, slots: 8, latency: 300 };
        let mut crew = Crew::start(assize, &plan)?;
        let run = crew.begin("NVDA", 50)?;
        let patience = Instant::now() + Duration::from_secs(60);
        let victim = loop {
            ensure!(Instant::now() < patience, "no debate was begun");
            std::thread::sleep(Duration::from_millis(100));
            let mut found = None;
            for (index, worker) in crew.workers.iter().enumerate() {
                let busy = !begun(&worker.log, &run)?.is_empty();
                if (busy || held) && holds(&worker.log, &run)? == held {
                    found = Some(index);
                }
            }
            if let Some(found) = found {
                break found;
            }
        };
        // They have come to speak by then.
        std::thread::sleep(Duration::from_secs(1));
        let mut dead = crew.workers.remove(victim);
        let moves = begun(&dead.log, &run)?;
        let died = SystemTime::now().duration_since(UNIX_EPOCH)?;
        dead.child.kill()?;
        dead.child.wait()?;
        let went_on = loop {
            ensure!(Instant::now() < patience, "nothing went on");
            std::thread::sleep(Duration::from_millis(100));
            let exported = crew.get(&format!("/api/runs/{run}/export"))?;
            let events = exported["events"].as_array().context("no events")?;
            let after = |event: &&Value| {
                let at = event["at"].as_u64().unwrap_or_default();
                // What was under way is still written down.
                let later = u128::from(at) > died.as_millis() + 1000;
                let of_it =
                    held || moves.iter().any(|one| event["payload"]["move"] == one.as_str());
                later && of_it && event["name"] == "sandbox_round"
            };
            if let Some(event) = events.iter().find(after) {
                break Duration::from_millis(event["at"].as_u64().unwrap_or_default());
            }
        };
        let took = went_on.saturating_sub(died);
        if held { deaths.runs.push(took) } else { deaths.debates.push(took) }
    }
    Ok(deaths)
}

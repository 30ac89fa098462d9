//! Benchmark of `print(1)` in a new sandbox. One execution of the benchmark measures sandboxes of Assize (jails and
//! containers, with and without a warm pool), and for comparison `docker run --rm`, `docker exec` and bubblewrap.
//!
//! There are three schedules: sequential runs, runs that start at regular intervals, and all runs at once. The
//! benchmark also measures the time to fill a warm pool of five sandboxes, and the memory of these sandboxes. Times on
//! a shared machine are noisy: compare the ratios.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod contestants;
mod figures;
mod microvms;
mod served;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use assize_config::Isolation;
use assize_sandbox::{PoolOptions, SandboxSpec};
use clap::Parser;

use contestants::{Contestant, Peers, backend};
use figures::{Figures, row};

#[derive(Debug, Parser)]
struct Args {
    /// Number of runs of each contestant (our sandboxes, docker, bubblewrap) in each schedule
    #[arg(long, default_value_t = 100)]
    iterations: usize,
    /// Milliseconds between two starts in the schedule with regular intervals
    #[arg(long, default_value_t = 100)]
    interval: u64,
    /// Size of the warm pool
    #[arg(long, default_value_t = 5)]
    pool: usize,
    /// Path of a built `assize`; if given, whole `assize exec` processes are measured, too
    #[arg(long)]
    assize: Option<PathBuf>,
    /// Python interpreter of all contestants except containers
    #[arg(long, default_value = "/usr/bin/python3")]
    python: PathBuf,
    /// Measure only microVMs: cold boot, restore and the warm pool
    #[arg(long, value_parser = ["microvm"])]
    isolation: Option<String>,
    /// Measure `POST /api/exec` of a server with and without a warm pool, on each backend
    #[arg(long)]
    served: bool,
    /// Cache folder with the images of `assize` [default: the cache folder of assize]
    #[arg(long)]
    cache: Option<PathBuf>,
}

/// When the runs of a contestant start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// Runs start one after the other, and the contestants take turns.
    Sequential,
    /// Runs start at regular intervals.
    Staggered,
    /// All runs start at once.
    Burst,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut peers = Peers::new(&args.python, args.assize.clone(), folder.path()).await?;
    if args.served {
        let measured = served::run(&args, folder.path(), &peers).await;
        peers.end().await;
        return measured;
    }
    if args.isolation.is_some() {
        let measured = microvms::run(&args, folder.path(), &peers).await;
        peers.end().await;
        return measured;
    }
    let options = PoolOptions { size: args.pool, ..PoolOptions::default() };
    let mut contestants: Vec<(String, Result<Contestant, String>)> = Vec::new();
    for isolation in [Isolation::Jail, Isolation::Docker] {
        let created = backend(isolation, &args.python).await;
        let name = isolation.name();
        match created {
            Ok(backend) => {
                let manager =
                    assize_sandbox::SandboxManager::open(folder.path().join(name), backend, &[])
                        .await?;
                let manager = Arc::new(manager);
                let pool = Arc::new(manager.pool(SandboxSpec::default(), options.clone()));
                measure_pool(name, &pool, &args).await?;
                contestants.push((format!("{name}, warm"), Ok(Contestant::Warm(pool))));
                contestants.push((format!("{name}, cold"), Ok(Contestant::Cold(manager))));
            }
            Err(why) => contestants.push((name.to_owned(), Err(why))),
        }
    }
    contestants.extend(peers.contestants());
    let mut medians = Vec::new();
    for schedule in [Schedule::Sequential, Schedule::Staggered, Schedule::Burst] {
        println!("\n{}", heading(schedule, &args));
        println!("{}", row(["", "p50 ms", "p95 ms", "p99 ms", "done"].map(str::to_owned)));
        for ((name, contestant), figures) in
            contestants.iter().zip(measure(&contestants, schedule, &args).await)
        {
            match contestant {
                Ok(_) => println!("{}", figures.row(name)),
                Err(why) => println!("{name:<24} skipped: {why}"),
            }
            medians.push((schedule, name.clone(), figures));
        }
    }
    for (_, contestant) in &contestants {
        if let Ok(Contestant::Warm(pool)) = contestant {
            pool.close().await;
        }
    }
    peers.end().await;
    compare(&medians);
    Ok(())
}

fn heading(schedule: Schedule, args: &Args) -> String {
    let count = args.iterations;
    match schedule {
        Schedule::Sequential => {
            format!("{count} runs of each contestant, one at a time; the contestants take turns")
        }
        Schedule::Staggered => {
            format!("{count} runs of each contestant; a run starts every {} ms", args.interval)
        }
        Schedule::Burst => format!("{count} runs of each contestant, all started at once"),
    }
}

/// Prints the time to fill the warm pool, and the average private memory of an idle sandbox.
async fn measure_pool(
    name: &str,
    pool: &assize_sandbox::SandboxPool,
    args: &Args,
) -> anyhow::Result<()> {
    let started = Instant::now();
    pool.ready().await?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    let memory = figures::private_memory(name)?;
    let each = memory.map(|bytes| bytes / args.pool.max(1) as f64 / (1 << 20) as f64);
    let each = each.map_or("unknown".to_owned(), |each| format!("{each:.1} MiB"));
    println!(
        "{name}: filling the warm pool with {} sandboxes took {took:.0} ms; average private memory of a sandbox: {each}",
        args.pool
    );
    Ok(())
}

type Contestants = [(String, Result<Contestant, String>)];

/// Measures each contestant. The results have the order of the contestants.
async fn measure(contestants: &Contestants, schedule: Schedule, args: &Args) -> Vec<Figures> {
    let mut all: Vec<Figures> = contestants.iter().map(|_| Figures::default()).collect();
    let available = || {
        contestants
            .iter()
            .enumerate()
            .filter_map(|(index, (_, one))| Some((index, one.as_ref().ok()?)))
    };
    if schedule == Schedule::Sequential {
        // The contestants take turns, so that other load on the machine affects all of them equally.
        for _ in 0..args.iterations {
            for (index, contestant) in available() {
                // Wait until all warm pools are full, so that no refill disturbs the measurement.
                for (_, other) in available() {
                    other.wait_for_pool().await;
                }
                all[index].add(contestant.run().await);
            }
        }
        return all;
    }
    for (index, contestant) in available() {
        contestant.wait_for_pool().await;
        let interval = if schedule == Schedule::Staggered { args.interval } else { 0 };
        let runs = (0..args.iterations).map(|number| async move {
            let pause = Duration::from_millis(interval) * u32::try_from(number).unwrap_or(0);
            tokio::time::sleep(pause).await;
            contestant.run().await
        });
        let done = futures_util::future::join_all(runs).await;
        done.into_iter().for_each(|done| all[index].add(done));
    }
    all
}

/// Prints the ratios of median times, with the targets of the project.
fn compare(medians: &[(Schedule, String, Figures)]) {
    let median = |name: &str| {
        let found = medians
            .iter()
            .find(|(schedule, each, _)| *schedule == Schedule::Sequential && each == name);
        found.and_then(|(_, _, figures)| figures.percentile(50.0))
    };
    println!("\nRatios of the median times of sequential runs");
    let pairs = [
        ("docker exec", "jail, warm", "at least 15"),
        ("docker exec", "docker, warm", "more than 1"),
        ("docker run --rm", "jail, cold", ""),
        (
            "bwrap",
            "jail, cold",
            "at least 0.91; then a jail takes at most 1.1 times as long as bwrap",
        ),
    ];
    for (peer, ours, goal) in pairs {
        if let (Some(theirs), Some(our)) = (median(peer), median(ours)) {
            let goal = if goal.is_empty() { String::new() } else { format!(" (target: {goal})") };
            println!("  {ours} is {:.2}× as fast as {peer}{goal}", theirs / our);
        }
    }
    for (schedule, name, figures) in medians {
        if *schedule == Schedule::Burst && name.contains(',') {
            println!(
                "  {name}: {:.0} % of the runs that all started at the same time succeeded",
                figures.success() * 100.0
            );
        }
    }
}
